"""Cards by way of a dcgm-exporter that runs beside the collector, where NVML is not at hand.

The exporter says what it collected last, and not when: every 30 s unless it was told otherwise. Where a card tells its
energy, which grows whatever the card does, that is the clock of what it says.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import isnan
from threading import Lock

import structlog

from collector.dcgm.cards import Scrape, ScrapedCard, ScrapedDevice
from collector.dcgm.fields import FIELDS
from collector.dcgm.scraper import DcgmScraper
from collector.owners.split import owned_reading
from domain.clock import Clock
from domain.errors import InputError, UnavailableError
from domain.inventory import Device
from domain.samples import DeviceReading
from domain.series import GPU_ENERGY, GPU_MEMORY_RESERVED, GPU_MEMORY_TOTAL, GPU_MEMORY_USED, GPU_UP, Series
from domain.slugs import check_model
from domain.units import MIB

# Three times the exporter's own period.
_SILENT_SECONDS = 90
# One second's values for that many others are no accident.
_SLOW_SECONDS = 2
# A total that is a sum of MiB, each cut, is short by less.
_CUT_BYTES = 3 * MIB
_NOT_A_NUMBER = float("nan")

log = structlog.get_logger()


@dataclass
class _Known:
    """A card as it was last seen; times are of the monotonic clock, None while it has not come to that.

    `energy` in joules was the same in `repeats` scrapes since it last moved.
    """

    device: Device
    mig_uuids: tuple[str, ...] = ()
    missing_since_s: float | None = None
    energy: int | Fraction | None = None
    moved_at_s: float | None = None
    repeats: int = 0


class DcgmExporterSource:
    """A `Source` of the cards that one dcgm-exporter tells of."""

    def __init__(self, url: str, clock: Clock) -> None:
        """`url` is that of the exporter, or of its page. Nothing is asked yet."""
        self._scraper = DcgmScraper(url, clock)
        self._clock = clock
        self._lock = Lock()
        self._known: dict[str, _Known] = {}
        self._left_out: dict[str, str] = {}
        self._taken: Scrape | None = None
        self._refused = 0
        self._is_slow = False

    def inventory(self) -> tuple[Device, ...]:
        """Every card that was ever told of with its model and size, by index.

        A card in MIG mode is here for its samples: a scrape does not say how large its instances are nor where they
        lie, so it has none, no SM count and, where its size is not told, 0 bytes, which the allocator refuses to
        record. Raises UnavailableError where the exporter tells of no such card.
        """
        scrape = self._scraper.scrape()
        with self._lock:
            self._take(scrape)
            if not self._known:
                raise UnavailableError(next(iter(self._left_out.values())))
            return tuple(sorted((known.device for known in self._known.values()), key=lambda device: device.index))

    def read(self, gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        """What the exporter says of the card in that second, which is what it collected last.

        A card that it leaves out for 90 s while it tells of others is lost, and mute until then: it leaves out healthy
        ones too (dcgm-exporter 250). One whose energy has stood still for 90 s is mute.
        """
        scrape = self._scraper.of_second(second_s)
        card = next((each for each in scrape.cards if each.gpu_uuid == gpu_uuid), None)
        with self._lock:
            self._take(scrape)
            known = self._known[gpu_uuid]
            now_s = self._clock.monotonic_s()
            if card is None:
                return _lost(gpu_uuid, known, now_s)
            if known.moved_at_s is not None and now_s - known.moved_at_s >= _SILENT_SECONDS:
                raise UnavailableError(
                    f"cannot read the card {gpu_uuid!r}: dcgm-exporter has said the same of it for "
                    f"{now_s - known.moved_at_s:.0f} s; restart it and the host engine"
                )
            total_bytes = known.device.vram_total_bytes
        if not any(each.values or each.garbled for each in (card.itself, *card.instances)):
            raise UnavailableError(f"cannot read the card {gpu_uuid!r}: all that is told of it is blank; see dmesg")
        values = {**_values(card.itself), GPU_MEMORY_TOTAL: total_bytes or None}
        # Where MIG is on, owners are told per instance.
        own = _reading(gpu_uuid, None, values, is_owned=not card.instances)
        return [own, *(_reading(gpu_uuid, each.mig_uuid, _values(each), is_owned=True) for each in card.instances)]

    def close(self) -> None:
        """Close the connection."""
        self._scraper.close()

    def _take(self, scrape: Scrape) -> None:
        """Bring what is known of the cards up to date, once per scrape."""
        if scrape is self._taken:
            return
        self._taken = scrape
        now_s = self._clock.monotonic_s()
        for card in scrape.cards:
            self._take_card(card, now_s)
        for gpu_uuid in self._known.keys() - {card.gpu_uuid for card in scrape.cards}:
            known = self._known[gpu_uuid]
            known.missing_since_s = now_s if known.missing_since_s is None else known.missing_since_s
        # Those of our own series are counted as garbage by whoever reads the card.
        if len(scrape.refused) > self._refused:
            self._refused = len(scrape.refused)
            line, reason = scrape.refused[0]
            log.warning("lines_refused", url=self._scraper.shown, lines=self._refused, first_line=line, reason=reason)

    def _take_card(self, card: ScrapedCard, now_s: float) -> None:
        known = self._known.get(card.gpu_uuid)
        try:
            device = _device(card, known.device if known else None)
        except InputError as error:
            if known is None:
                self._note_left_out(card.gpu_uuid, str(error))
                return
            # What is blank for a moment is as it was.
            device = known.device
        if device.mig_enabled and not (known and known.device.mig_enabled):
            reason = "a scrape does not say how large MIG instances are and where they lie"
            remedy = "where they are sold, collect by NVML"
            log.warning("mig_card_not_recorded", gpu_uuid=device.uuid, reason=reason, remedy=remedy)
        known = self._known.setdefault(card.gpu_uuid, _Known(device))
        known.device, known.missing_since_s = device, None
        known.mig_uuids = tuple(each.mig_uuid for each in card.instances if each.mig_uuid is not None)
        self._note_energy(known, card.itself.values.get(GPU_ENERGY), now_s)

    def _note_energy(self, known: _Known, energy: int | Fraction | None, now_s: float) -> None:
        if energy is None:
            return
        if energy == known.energy:
            known.repeats += 1
            return
        still_s = now_s - known.moved_at_s if known.moved_at_s is not None else 0
        if still_s > _SLOW_SECONDS and known.repeats >= _SLOW_SECONDS and not self._is_slow:
            self._is_slow = True
            remedy = "start dcgm-exporter with --collect-interval 1000, or seconds are repeated"
            log.warning("exporter_is_slow", url=self._scraper.shown, seconds=round(still_s, 1), remedy=remedy)
        # The first that is seen may be old.
        known.moved_at_s = None if known.energy is None else now_s
        known.energy, known.repeats = energy, 0

    def _note_left_out(self, gpu_uuid: str, reason: str) -> None:
        if self._left_out.get(gpu_uuid) != reason:
            self._left_out[gpu_uuid] = reason
            log.error("card_left_out", gpu_uuid=gpu_uuid, reason=reason, left_out=len(self._left_out))


def _device(card: ScrapedCard, known: Device | None) -> Device:
    """The card as an inventory has it. Raises InputError where the text says too little of it."""
    total_bytes = card.itself.values.get(GPU_MEMORY_TOTAL)
    is_mig = bool(card.instances)
    lacking = {"index": card.index is None, "model": card.model is None, "size": total_bytes is None and not is_mig}
    if any(lacking.values()):
        raise InputError(
            f"cannot collect the card {card.gpu_uuid!r}: dcgm-exporter does not tell its "
            f"{' nor its '.join(what for what, is_lacking in lacking.items() if is_lacking)}; use one of 3 or newer, "
            "and DCGM_FI_DEV_FB_TOTAL or _FREE, _USED and _RESERVED in its list of counters"
        )
    return Device(
        uuid=card.gpu_uuid,
        index=card.index or 0,
        model=check_model(card.model or ""),
        vram_total_bytes=_steady(int(total_bytes or 0), known.vram_total_bytes if known else 0),
        vram_reserved_bytes=int(card.itself.values.get(GPU_MEMORY_RESERVED, 0)),
        mig_enabled=is_mig,
        pci_bus_id=card.pci_bus_id or "",
        driver_version=card.driver_version or "",
    )


def _steady(total_bytes: int, known_bytes: int) -> int:
    """The total, where it is a sum that trembles as its parts are cut to MiB: the largest seen, which is nearest."""
    return max(total_bytes, known_bytes) if abs(total_bytes - known_bytes) <= _CUT_BYTES else total_bytes


def _values(device: ScrapedDevice) -> dict[Series, int | float | None]:
    """What is told of the device, None for what is not; what is garbled is no number, which `ranges` counts."""
    values: dict[Series, int | float | None] = dict.fromkeys(each.series for each in FIELDS if each.series is not None)
    values |= {series: int(value) if series.whole else float(value) for series, value in device.values.items()}
    values |= dict.fromkeys(device.garbled, _NOT_A_NUMBER)
    return values


def _reading(
    gpu_uuid: str, mig_uuid: str | None, values: Mapping[Series, int | float | None], *, is_owned: bool
) -> DeviceReading:
    """All used memory is nobody's: no pod's name proves whose it is."""
    used_bytes = values[GPU_MEMORY_USED]
    is_told = used_bytes is not None and not isnan(used_bytes)
    return owned_reading(gpu_uuid, mig_uuid, values, {} if is_owned and is_told else None, {})


def _lost(gpu_uuid: str, known: _Known, now_s: float) -> list[DeviceReading]:
    """That the card is lost, its instances with it. Raises UnavailableError while it may come back by itself."""
    missing_s = now_s - (now_s if known.missing_since_s is None else known.missing_since_s)
    if missing_s < _SILENT_SECONDS:
        raise UnavailableError(
            f"cannot read the card {gpu_uuid!r}: dcgm-exporter has left it out for {missing_s:.0f} s; see its log"
        )
    return [DeviceReading(gpu_uuid, mig_uuid, {GPU_UP: 0}, {}) for mig_uuid in (None, *known.mig_uuids)]
