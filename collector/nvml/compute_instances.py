"""The compute instances of a card in MIG mode: how many SMs each has."""

from typing import Any

from collector.nvml.driver import CardLostError, Driver, DriverError
from domain.samples import FieldState


class ComputeInstances:
    """Of one card; looked up where somebody asks, and again for one that was not there."""

    def __init__(self, driver: Driver, handle: Any) -> None:
        self._driver = driver
        self._handle = handle
        self._sms: dict[tuple[int, int], int] = {}

    def sms(self, gi_id: int, ci_ids: set[int]) -> dict[int, int] | FieldState:
        """SMs of these compute instances of a GPU instance, by number, as far as they are there.

        A FieldState where the driver does not say. Raises CardLostError, DriverGoneError.
        """
        if not {(gi_id, ci_id) for ci_id in ci_ids} <= self._sms.keys():
            try:
                self._sms = self._look_up()
            except CardLostError:
                raise
            except DriverError as error:
                return error.state
        return {ci_id: self._sms[gi_id, ci_id] for ci_id in ci_ids if (gi_id, ci_id) in self._sms}

    def forget(self) -> None:
        """To be called where instances have changed: their numbers come back."""
        self._sms = {}

    def _look_up(self) -> dict[tuple[int, int], int]:
        found: dict[tuple[int, int], int] = {}
        for index in range(self._driver.ask("DeviceGetMaxMigDeviceCount", self._handle)):
            # Indexes have holes where instances were destroyed.
            device = self._driver.fact("DeviceGetMigDeviceHandleByIndex", self._handle, index)
            if device is not None:
                gi_id = self._driver.ask("DeviceGetGpuInstanceId", device)
                ci_id = self._driver.ask("DeviceGetComputeInstanceId", device)
                found[gi_id, ci_id] = self._driver.ask("DeviceGetAttributes", device).multiprocessorCount
        return found
