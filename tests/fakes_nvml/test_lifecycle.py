"""The driver as a whole: loaded, lost, exchanged; and what a program holds of it."""

import signal
import subprocess
import sys
from typing import Any

import pynvml
import pytest

from tests.fakes.nvml.driver import FakeDriver
from tests.fakes_nvml.answers import code_of

UNINITIALIZED = pynvml.NVML_ERROR_UNINITIALIZED
MISMATCH = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH


def test_nothing_is_answered_before_the_first_and_after_the_last_shutdown(driver: FakeDriver, handle: Any) -> None:
    pynvml.nvmlInit()
    pynvml.nvmlShutdown()
    assert pynvml.nvmlDeviceGetCount() == 1, "two initialisations need two shutdowns"
    pynvml.nvmlShutdown()
    assert code_of(pynvml.nvmlDeviceGetCount) == UNINITIALIZED
    assert code_of(pynvml.nvmlDeviceGetName, handle) == UNINITIALIZED
    assert code_of(pynvml.nvmlShutdown) == UNINITIALIZED


def test_a_handle_of_an_earlier_initialisation_is_void(driver: FakeDriver, handle: Any) -> None:
    pynvml.nvmlShutdown()
    pynvml.nvmlInitWithFlags(pynvml.NVML_INIT_FLAG_NO_ATTACH)
    assert code_of(pynvml.nvmlDeviceGetName, handle) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert code_of(pynvml.nvmlDeviceGetName, None) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    assert pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0)) == "NVIDIA H100 80GB HBM3"


@pytest.mark.parametrize("code", [UNINITIALIZED, pynvml.NVML_ERROR_DRIVER_NOT_LOADED, pynvml.NVML_ERROR_UNKNOWN])
def test_a_driver_that_is_unloaded_and_loaded_again(driver: FakeDriver, handle: Any, code: int) -> None:
    """R8: the energy counter starts at 0. L3 is an initialisation that answers Unknown Error."""
    driver.set(pynvml.nvmlDeviceGetUUID(handle), millijoules=5_000_000, perf_policy_ns=(1, 2), ecc_corrected=(3, 4))
    driver.unload(code)
    for ask in (pynvml.nvmlInit, pynvml.nvmlDeviceGetCount, pynvml.nvmlEventSetCreate, pynvml.nvmlGpmSampleAlloc):
        assert code_of(ask) == code
    assert code_of(pynvml.nvmlDeviceGetName, handle) == code
    assert code_of(pynvml.nvmlDeviceGetHandleByIndex, 0) == code

    driver.load()
    assert code_of(pynvml.nvmlDeviceGetCount) == UNINITIALIZED, "what was initialised went with the driver"
    pynvml.nvmlInit()
    assert code_of(pynvml.nvmlDeviceGetName, handle) == pynvml.NVML_ERROR_INVALID_ARGUMENT
    again = pynvml.nvmlDeviceGetHandleByIndex(0)
    assert pynvml.nvmlDeviceGetTotalEnergyConsumption(again) == 0
    assert pynvml.nvmlDeviceGetFieldValues(again, [74])[0].value.ullVal == 0
    assert [pynvml.nvmlDeviceGetTotalEccErrors(again, 0, since) for since in (0, 1)] == [0, 4]
    assert driver.opened().inits == 1


PRINT_VERSION = """
import pynvml
pynvml.nvmlInit()
print(pynvml.nvmlSystemGetDriverVersion())
"""


def test_a_driver_that_is_exchanged_is_a_mismatch_for_ever_in_who_had_it_loaded(
    driver: FakeDriver, handle: Any
) -> None:
    """L2: only a process that loads the library anew sees the new driver."""
    driver.exchange("610.57.04")
    assert code_of(pynvml.nvmlDeviceGetName, handle) == MISMATCH
    pynvml.nvmlShutdown()
    assert code_of(pynvml.nvmlInit) == MISMATCH
    driver.unload(pynvml.NVML_ERROR_DRIVER_NOT_LOADED)
    driver.load()
    assert code_of(pynvml.nvmlInit) == MISMATCH
    started = subprocess.run(
        [sys.executable, "-c", PRINT_VERSION], env=driver.env(), capture_output=True, text=True, check=True
    )
    assert started.stdout == "610.57.04\n"


def test_a_card_that_is_lost_is_lost_with_all_that_is_on_it(driver: FakeDriver) -> None:
    """L1."""
    card = driver.card(0, "NVIDIA H100 80GB HBM3", mig_mode=1)
    other = driver.card(1)
    first = driver.create_instance(card, "1g.10gb")
    handles = [pynvml.nvmlDeviceGetHandleByUUID(uuid) for uuid in (card, first, other)]
    lost = pynvml.NVML_ERROR_GPU_IS_LOST

    driver.lose(card)
    assert pynvml.nvmlDeviceGetCount() == 2
    assert [code_of(pynvml.nvmlDeviceGetMemoryInfo, each) for each in handles] == [lost, lost, 0]
    assert code_of(pynvml.nvmlDeviceGetHandleByIndex, 0) == lost
    assert code_of(pynvml.nvmlDeviceGetHandleByUUID, card) == pynvml.NVML_ERROR_NOT_FOUND
    driver.find(card)
    assert [code_of(pynvml.nvmlDeviceGetMemoryInfo, each) for each in handles] == [0, 0, 0]


def test_calls_are_counted(driver: FakeDriver, handle: Any) -> None:
    for _ in range(5):
        pynvml.nvmlDeviceGetName(handle)
    assert code_of(pynvml.nvmlDeviceGetName, None) != 0
    assert driver.calls("nvmlDeviceGetName") == 6
    assert driver.calls("nvmlDeviceGetPcieThroughput") == 0


HOLD = """
import sys, pynvml
pynvml.nvmlInit()
pynvml.nvmlInit()
pynvml.nvmlEventSetCreate()
pynvml.nvmlGpmSampleAlloc()
print("holds", flush=True)
sys.stdin.readline()
pynvml.nvmlShutdown()
print("let go of one", flush=True)
sys.stdin.readline()
"""


def test_what_a_process_holds_is_seen_until_it_ends_however_it_ends(driver: FakeDriver) -> None:
    """M4: an operator can see that a collector let go of everything."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], env=driver.env(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "holds\n"
        held = driver.opened()
        assert (held.inits, held.event_sets, held.gpm_samples) == (1 + 2, 1, 1)
        holder.stdin.write("\n")
        holder.stdin.flush()
        holder.stdout.readline()
        assert driver.opened().inits == 1 + 1
        holder.send_signal(signal.SIGKILL)
    held = driver.opened()
    assert (held.inits, held.event_sets, held.gpm_samples) == (1, 0, 0)
