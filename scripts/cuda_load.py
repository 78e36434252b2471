"""Work for a card, without a compiler or toolkit: `python -m scripts.cuda_load PCI_BUS_ID SECONDS MEMORY_MIB`.

The driver's own library (libcuda.so.1) fills memory over and over, half a second in each, which keeps the card's SMs
busy. Exit code 2 where there is no such library.
"""

import ctypes
import sys

from domain.clock import SystemClock
from domain.units import MIB

_LIBRARY = "libcuda.so.1"
_SLICE_SECONDS = 0.05


class CudaError(RuntimeError):
    """A function of the library failed; its message has the number (cuda.h, CUresult)."""


def main(bus_id: str, seconds: float, memory_mib: int) -> None:
    """Fill that much memory of the card until the time is over, on for half of each second."""
    clock = SystemClock()
    cuda = ctypes.CDLL(_LIBRARY)
    device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    size_bytes = memory_mib * MIB
    _check("cuInit", cuda.cuInit(0))
    # NVML writes the domain in eight digits, CUDA in four.
    _check("cuDeviceGetByPCIBusId", cuda.cuDeviceGetByPCIBusId(ctypes.byref(device), bus_id[-12:].encode()))
    _check("cuDevicePrimaryCtxRetain", cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    _check("cuCtxSetCurrent", cuda.cuCtxSetCurrent(context))
    _check("cuMemAlloc", cuda.cuMemAlloc_v2(ctypes.byref(memory), ctypes.c_size_t(size_bytes)))
    until_s = clock.monotonic_s() + seconds
    while (now_s := clock.monotonic_s()) < until_s:
        if now_s % 1 >= 0.5:
            clock.sleep_s(_SLICE_SECONDS)
            continue
        words = ctypes.c_size_t(size_bytes // 4)
        _check("cuMemsetD32", cuda.cuMemsetD32_v2(memory, ctypes.c_uint(int(now_s)), words))
        _check("cuCtxSynchronize", cuda.cuCtxSynchronize())


def _check(call: str, code: int) -> None:
    if code != 0:
        raise CudaError(f"{call} answers {code}")


if __name__ == "__main__":
    try:
        main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]))
    except (OSError, CudaError) as error:
        sys.stderr.write(f"cannot load the card: {error}\n")
        sys.exit(2)
