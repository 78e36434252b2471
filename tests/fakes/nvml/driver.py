"""The fake driver as tests hold it: built from C, and its world set through the calls that start with `fake_`."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from domain.units import MIB

FOLDER = Path(__file__).parent


class FakeDriver:
    """The library built from C, and its world."""

    def __init__(self, path: Path) -> None:
        self.library = ctypes.CDLL(str(path))
        self.library.fake_card.restype = ctypes.c_void_p
        self.library.fake_instance.restype = ctypes.c_void_p
        self.library.fake_reset()
        self.devices: dict[str, int] = {}

    def card(self, index: int, name: str = "NVIDIA GeForce RTX 4090", **fields: int) -> str:
        uuid = f"GPU-{index:08d}-0000-0000-0000-000000000000"
        self.devices[uuid] = self.library.fake_card(index, uuid.encode(), name.encode())
        self.set(uuid, **{"total": 24_564 * MIB, "reserved": 340 * MIB, "celsius": 40, **fields})
        return uuid

    def instance(self, card: int, index: int, profile: str, **fields: int) -> str:
        uuid = f"MIG-{card:08d}-0000-0000-0000-{index:012d}"
        name = f"NVIDIA H100 80GB HBM3 MIG {profile}".encode()
        self.devices[uuid] = self.library.fake_instance(card, index, uuid.encode(), name)
        self.set(uuid, **fields)
        return uuid

    def set(self, uuid: str, **fields: int) -> None:
        for field, value in fields.items():
            self.library.fake_set(ctypes.c_void_p(self.devices[uuid]), field.encode(), ctypes.c_ulonglong(value))

    def process(self, uuid: str, pid: int, used_bytes: int, kind: str = "compute") -> None:
        """Let a process run on a card or MIG device, on the list of that kind."""
        list_ = ("compute", "graphics", "mps").index(kind)
        self.library.fake_process(
            ctypes.c_void_p(self.devices[uuid]), list_, ctypes.c_uint(pid), ctypes.c_ulonglong(used_bytes)
        )

    def end_processes(self, uuid: str) -> None:
        """Let every process of a card end."""
        self.library.fake_end_processes(ctypes.c_void_p(self.devices[uuid]))

    def fault(self, code: int, call: str = "", uuid: str | None = None) -> None:
        device = ctypes.c_void_p(None if uuid is None else self.devices[uuid])
        self.library.fake_fault(call.encode(), device, code)


def build(folder: Path, *flags: str, source: str = "fake_nvml.c") -> Path:
    """Compile a driver of this folder into `folder`, under the name by which the bindings load it."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler to build the fake driver")
    target = folder / "libnvidia-ml.so.1"
    warnings = ("-Wall", "-Werror", "-Wno-stringop-truncation")
    subprocess.run([compiler, "-shared", "-fPIC", *warnings, *flags, "-o", target, FOLDER / source], check=True)
    return target
