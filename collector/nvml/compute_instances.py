"""The compute instances of a card in MIG mode: how many SMs each has."""

from typing import Any

from collector.nvml.driver import CardLostError, Driver, DriverError
from collector.nvml.mig import SMS_MAX, mig_devices
from domain.samples import FieldState


class ComputeInstances:
    """Of one card; looked up where somebody asks, and again for one that was not there."""

    def __init__(self, driver: Driver, handle: Any) -> None:
        self._driver = driver
        self._handle = handle
        self._sms: dict[tuple[int, int], int] = {}

    def sms(self, gi_id: int, ci_ids: set[int]) -> dict[int, int] | FieldState:
        """SMs of these compute instances of a GPU instance, by number, as far as they are there.

        A FieldState where the driver does not say, or says what no card has. Raises CardLostError, DriverGoneError.
        """
        wanted = {(gi_id, ci_id) for ci_id in ci_ids}
        if not wanted <= self._sms.keys():
            try:
                told = self._look_up()
            except CardLostError:
                raise
            except DriverError as error:
                return error.state
            self._sms = {place: count for place, count in told.items() if count <= SMS_MAX}
            if not wanted.isdisjoint(told.keys() - self._sms.keys()):
                return FieldState.GARBAGE
        return {ci_id: self._sms[gi_id, ci_id] for ci_id in ci_ids if (gi_id, ci_id) in self._sms}

    def forget(self) -> None:
        """To be called where instances have changed: their numbers come back."""
        self._sms = {}

    def _look_up(self) -> dict[tuple[int, int], int]:
        count = self._driver.ask("DeviceGetMaxMigDeviceCount", self._handle)
        return {
            (place.gi_id, place.ci_id): self._driver.ask("DeviceGetAttributes", device).multiprocessorCount
            for place, device in mig_devices(self._driver, self._handle, count)
        }
