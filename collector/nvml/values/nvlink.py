"""The NVLinks of one card: which are up, and the bytes that went over each."""

from collections.abc import Mapping
from typing import Any

from collector.nvml.driver import INVALID_ARGUMENT, CardLostError, Driver, DriverError
from collector.nvml.probe import Probe, Round
from collector.nvml.values.counters import CardCounters
from collector.nvml.values.fields import (
    NVLINK_RECEIVED_BYTES,
    NVLINK_RECEIVED_KIB,
    NVLINK_TRANSMITTED_BYTES,
    NVLINK_TRANSMITTED_KIB,
    Field,
    Told,
)
from collector.nvml.values.gpm import NVLINK_RECEIVED_RATE, NVLINK_TRANSMITTED_RATE, Metrics
from collector.telling import Telling
from domain.samples import Basis, FieldState
from domain.series import GPU_NVLINK_RECEIVED, GPU_NVLINK_TRANSMITTED
from domain.units import MIB

# nvml.h, NVML_NVLINK_MAX_LINKS.
_MAX_LINKS = 36
_KIB = 1_024
_ALL_LINKS = "all"
# Payload by link, in KiB; all that goes over it, in bytes; and as a rate of all links together.
_DIRECTIONS = {
    GPU_NVLINK_RECEIVED: (NVLINK_RECEIVED_KIB, NVLINK_RECEIVED_BYTES, NVLINK_RECEIVED_RATE),
    GPU_NVLINK_TRANSMITTED: (NVLINK_TRANSMITTED_KIB, NVLINK_TRANSMITTED_BYTES, NVLINK_TRANSMITTED_RATE),
}
_PAYLOAD, _BYTES, _RATE = Basis("nvml", "payload"), Basis("nvml", "bytes"), Basis("nvml", "gpm_rate")


class NvLinks:
    """The links of one card that are up, and the fields that tell of them."""

    def __init__(self, probe: Probe, counters: CardCounters) -> None:
        self._probe = probe
        self._counters = counters
        self._round = Round(probe)
        self._links: tuple[int, ...] = ()
        self.fields: tuple[Field, ...] = ()
        """What `tell` needs to be asked for."""

    def find(self) -> None:
        """Look which links are up, once a minute; of a card without any as often as it is asked what it cannot tell.

        Raises CardLostError, DriverGoneError.
        """
        begins = self._round.begins()
        if not self._links and not begins:
            return
        links = active_links(self._probe.driver, self._probe.handle)
        if links != self._links:
            self._links = links
            self.fields = tuple(
                (field, link) for kib, bytes_, _ in _DIRECTIONS.values() for field in (kib, bytes_) for link in links
            )

    def tell(self, telling: Telling, told: Told, metrics: Metrics, window_s: float) -> None:
        """The bytes by link; where the driver knows only their rate, those of all together since it was first asked.

        A card without a link that is up has no such series, and `missing` says UNSUPPORTED.
        """
        for series, (kib, bytes_, rate) in _DIRECTIONS.items():
            by_link = {str(link): told[kib, link] for link in self._links}
            unit, basis = _KIB, _PAYLOAD
            if not _is_told(by_link):
                by_link = {str(link): told[bytes_, link] for link in self._links}
                unit, basis = 1, _BYTES
            if not _is_told(by_link) and self._links:
                a_second = metrics[rate]
                if not isinstance(a_second, FieldState):
                    a_second = round(self._counters.add(series, a_second * MIB * window_s))
                by_link, basis = {_ALL_LINKS: a_second}, _RATE
            telling.tell_parts(series, by_link or {_ALL_LINKS: FieldState.UNSUPPORTED}, times=unit)
            if series in telling.parts:
                telling.bases[series] = basis


def active_links(driver: Driver, handle: Any) -> tuple[int, ...]:
    """The numbers of a card's links that are up. Raises CardLostError, DriverGoneError."""
    links = []
    for link in range(_MAX_LINKS):
        try:
            if driver.ask("DeviceGetNvLinkState", handle, link):
                links.append(link)
        except CardLostError:
            raise
        except DriverError as error:
            # A card without links says so of the first, one with some of those that are not built in.
            if error.code == INVALID_ARGUMENT or (error.state is FieldState.UNSUPPORTED and link == 0):
                break
    return tuple(links)


def _is_told(by_link: Mapping[str, Any]) -> bool:
    return any(answer is not FieldState.UNSUPPORTED for answer in by_link.values())
