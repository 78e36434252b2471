"""The world in its file: the same struct on both sides, and never half of a change."""

import ctypes
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pynvml
import pytest

from domain.units import MIB
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.state import STRUCTS, World


@pytest.mark.parametrize("struct", STRUCTS, ids=lambda struct: struct.__name__)
def test_a_struct_lies_in_the_file_as_the_library_has_it(driver: FakeDriver, struct: type[ctypes.Structure]) -> None:
    """Every member by name, offset and size, and the size of the whole."""
    driver.library.fake_member.restype = ctypes.c_char_p
    offset, size = ctypes.c_uint64(), ctypes.c_uint64()

    def member(index: int) -> tuple[str, int, int]:
        name = driver.library.fake_member(struct.__name__.encode(), index, ctypes.byref(offset), ctypes.byref(size))
        return name.decode(), offset.value, size.value

    theirs = [member(index) for index in range(len(struct._fields_) + 1)]
    ours = [(field[0], getattr(struct, field[0]).offset, getattr(struct, field[0]).size) for field in struct._fields_]
    assert theirs == [*ours, ("", 0, ctypes.sizeof(struct))]


def test_a_struct_of_another_name_is_not_there(driver: FakeDriver) -> None:
    driver.library.fake_member.restype = ctypes.c_char_p
    assert driver.library.fake_member(b"Fan", 0, None, None) is None


def test_a_member_that_does_not_exist_cannot_be_set(driver: FakeDriver) -> None:
    """ctypes alone would take any name and change nothing."""
    uuid = driver.card(0)
    with pytest.raises(AttributeError, match="watts"):
        driver.set(uuid, watts=1)


def test_a_reader_never_sees_half_of_a_change(driver: FakeDriver, handle: Any) -> None:
    """All processes change together; a change takes a writer in Python much longer than a read."""
    uuid = pynvml.nvmlDeviceGetUUID(handle)
    for pid in range(1, 201):
        driver.process(uuid, pid, 0)
    rows = driver.card_of(uuid).processes[:200]
    done = threading.Event()

    def write() -> None:
        size = 0
        while not done.is_set():
            size += 1
            with driver.state.writing():
                for row in rows:
                    row.used_bytes = size

    seen: set[int] = set()
    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        try:
            while len(seen) < 100:
                (size,) = {each.usedGpuMemory for each in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)}
                seen.add(size)
        finally:
            done.set()
        writer.result()


def test_a_writer_that_died_half_way_does_not_stop_who_reads(driver: FakeDriver, handle: Any) -> None:
    driver.world.sequence += 1
    assert pynvml.nvmlDeviceGetName(handle) == "NVIDIA H100 80GB HBM3"
    driver.world.sequence += 1


READ = """
import sys, pynvml
pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
for line in sys.stdin:
    print(pynvml.nvmlDeviceGetMemoryInfo(handle).total, flush=True)
"""


def test_a_change_is_seen_by_another_process_that_is_running(driver: FakeDriver) -> None:
    """The bindings find the library by LD_LIBRARY_PATH and the world by FAKE_NVML_STATE; nothing is patched."""
    uuid = driver.card(0)
    with subprocess.Popen(
        [sys.executable, "-c", READ], env=driver.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None
        for total in (7 * MIB, 9 * MIB):
            driver.set(uuid, total=total)
            reader.stdin.write("\n")
            reader.stdin.flush()
            assert int(reader.stdout.readline()) == total


def test_the_library_without_a_world_has_no_driver(driver: FakeDriver, tmp_path: Any) -> None:
    program = "import pynvml\ntry: pynvml.nvmlInit()\nexcept pynvml.NVMLError as error: print(error.value)"
    for state in (None, str(tmp_path / "none"), __file__):
        environment = {"LD_LIBRARY_PATH": driver.env()["LD_LIBRARY_PATH"]}
        environment |= {} if state is None else {"FAKE_NVML_STATE": state}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.stdout == f"{pynvml.NVML_ERROR_DRIVER_NOT_LOADED}\n"


def test_the_world_is_small_enough_to_be_made_for_each_test() -> None:
    assert ctypes.sizeof(World) < 16 * MIB
