"""The processes on a card, as the driver lists them."""

from collections import defaultdict
from typing import Any

from collector.nvml.driver import Driver
from domain.samples import FieldState

# By their third version, which has the instance. Where a driver lacks it, the names without a version raise what is
# no NVMLError.
_LISTS = (
    "DeviceGetComputeRunningProcesses_v3",
    "DeviceGetGraphicsRunningProcesses_v3",
    "DeviceGetMPSComputeRunningProcesses_v3",
)


class CardProcesses:
    """The processes of one card, asked once a second."""

    def __init__(self, driver: Driver, handle: Any, *, is_mig: bool) -> None:
        self._driver = driver
        self._handle = handle
        self._is_mig = is_mig

    def claims(self) -> dict[int | None, dict[int, int | None]]:
        """The bytes that each PID uses, None where the driver does not say, by GPU instance (None: MIG is off).

        A list that the driver lacks or refuses adds nothing. The card is asked, whose lists name each process's
        instance: a MIG device is but one compute instance of it.
        """
        claims: dict[int | None, dict[int, int | None]] = defaultdict(dict)
        for call in _LISTS:
            listed = self._driver.answer(call, self._handle)
            for process in () if isinstance(listed, FieldState) else listed:
                pids = claims[process.gpuInstanceId if self._is_mig else None]
                # One that computes and draws is on two lists, each time with all it uses.
                told = [each for each in (pids.get(process.pid), process.usedGpuMemory) if each is not None]
                pids[process.pid] = max(told, default=None)
        return claims
