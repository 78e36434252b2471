"""Cards by way of a dcgm-exporter that runs beside the collector, where NVML is not at hand or cannot say all.

The exporter says what it collected last: every 30 s unless it was told otherwise. See `freshness.py` for how old that
may be.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from threading import Lock

import structlog

from collector.dcgm.capped_ratios import CappedRatios
from collector.dcgm.cards import Scrape, ScrapedCard, ScrapedDevice
from collector.dcgm.device_values import DeviceValues
from collector.dcgm.freshness import Freshness
from collector.dcgm.left_out import LeftOut
from collector.dcgm.readings import DeviceReadings, lost
from collector.dcgm.scraper import DcgmScraper
from collector.own_metrics import OwnValue
from domain.clock import Clock
from domain.errors import InputError, UnavailableError
from domain.inventory import Device
from domain.samples import Basis, DeviceReading
from domain.series import GPU_ENERGY, GPU_MEMORY_RESERVED, GPU_MEMORY_TOTAL, GPU_POWER
from domain.slugs import check_model
from domain.units import MIB

BASIS = Basis("dcgm_exporter", "latest")

# Three times the exporter's own period.
_SILENT_SECONDS = 90
# One second's values for that many others are no accident.
_SLOW_SECONDS = 2
# A total that is a sum of MiB, each cut, is short by less.
_CUT_BYTES = 3 * MIB

log = structlog.get_logger()


@dataclass
class _Known:
    """A card as it was last seen; `missing_since_s` is of the monotonic clock, None while it is told of."""

    device: Device
    mig_uuids: tuple[str, ...] = ()
    missing_since_s: float | None = None
    freshness: Freshness = field(default_factory=Freshness)
    readings: dict[str | None, DeviceReadings] = field(default_factory=dict)
    jobs: frozenset[str] = frozenset()


class DcgmExporterSource:
    """A `Source` of the cards that one dcgm-exporter tells of."""

    name = BASIS.source

    def __init__(self, url: str, clock: Clock) -> None:
        """`url` is that of the exporter, or of its page. Nothing is asked yet."""
        self._scraper = DcgmScraper(url, clock)
        self._clock = clock
        self._lock = Lock()
        self._known: dict[str, _Known] = {}
        self._left_out = LeftOut()
        self._capped = CappedRatios(self.name)
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
                self._left_out.raise_first()
            return tuple(sorted((known.device for known in self._known.values()), key=lambda device: device.index))

    def read(self, gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        """What the exporter says of the card in that second, which is what it collected last.

        A card that it leaves out for 90 s while it tells of others is lost, and mute until then: it leaves out healthy
        ones too (dcgm-exporter 250). One of which it says the same for too long is mute.
        """
        scrape = self._scraper.of_second(second_s)
        card = next((each for each in scrape.cards if each.gpu_uuid == gpu_uuid), None)
        with self._lock:
            self._take(scrape)
            known = self._known.get(gpu_uuid)
            if known is None:
                raise UnavailableError(
                    f"cannot read the card {gpu_uuid!r}: dcgm-exporter does not tell of it; see its log"
                )
            now_s = self._clock.monotonic_s()
            if card is None:
                return _lost(gpu_uuid, known, now_s)
            stale_s = known.freshness.stale_s(now_s)
        if stale_s is not None:
            raise UnavailableError(
                f"cannot read the card {gpu_uuid!r}: dcgm-exporter has said the same of it for {stale_s:.0f} s; "
                "restart it and the host engine"
            )
        if not any(each.values or each.parts or each.garbled for each in (card.itself, *card.instances)):
            raise UnavailableError(f"cannot read the card {gpu_uuid!r}: all that is told of it is blank; see dmesg")
        for each in (card.itself, *card.instances):
            self._capped.count(gpu_uuid, each.capped)
        # Where MIG is on, owners are told per instance.
        own = _reading(known, card.itself, now_s, is_owned=not card.instances)
        return [own, *(_reading(known, each, now_s, is_owned=True) for each in card.instances)]

    def values(self) -> Iterator[OwnValue]:
        """What it says of its own work."""
        yield from self._capped.values()

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
                self._left_out.note(card.gpu_uuid, str(error))
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
        self._note_freshness(known, card.itself, now_s)
        self._note_jobs(known, card)

    def _note_freshness(self, known: _Known, told: ScrapedDevice, now_s: float) -> None:
        # A card that draws no power has an energy that stands still.
        energy = told.values.get(GPU_ENERGY) if told.values.get(GPU_POWER) != 0 else None
        repeats = known.freshness.repeats
        stood_s = known.freshness.see(told.time_us if told.time_us is not None else energy, now_s)
        if stood_s is not None and stood_s > _SLOW_SECONDS and repeats >= _SLOW_SECONDS and not self._is_slow:
            self._is_slow = True
            remedy = "start dcgm-exporter with --collect-interval 1000, or seconds are repeated"
            log.warning("exporter_is_slow", url=self._scraper.shown, seconds=round(stood_s, 1), remedy=remedy)

    def _note_jobs(self, known: _Known, card: ScrapedCard) -> None:
        """Say which HPC jobs the exporter names for a card, where that changes: for people, it proves nothing."""
        jobs = card.itself.jobs.union(*(each.jobs for each in card.instances))
        if jobs != known.jobs:
            known.jobs = jobs
            log.info("jobs_named", gpu_uuid=card.gpu_uuid, jobs=sorted(jobs), owner="none is proved by a label")


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


def _reading(known: _Known, told: ScrapedDevice, now_s: float, *, is_owned: bool) -> DeviceReading:
    readings = known.readings.get(told.mig_uuid)
    if readings is None:
        readings = known.readings[told.mig_uuid] = DeviceReadings(known.device.uuid, told.mig_uuid, BASIS)
    values = dict(told.values)
    if told.mig_uuid is None and known.device.vram_total_bytes:
        values[GPU_MEMORY_TOTAL] = known.device.vram_total_bytes
    said = DeviceValues(values, told.parts, told.missing)
    return readings.reading(said, now_s, garbled=told.garbled, is_owned=is_owned)


def _lost(gpu_uuid: str, known: _Known, now_s: float) -> list[DeviceReading]:
    """That the card is lost, its instances with it. Raises UnavailableError while it may come back by itself."""
    missing_s = now_s - (now_s if known.missing_since_s is None else known.missing_since_s)
    if missing_s < _SILENT_SECONDS:
        raise UnavailableError(
            f"cannot read the card {gpu_uuid!r}: dcgm-exporter has left it out for {missing_s:.0f} s; see its log"
        )
    return [lost(gpu_uuid, mig_uuid) for mig_uuid in (None, *known.mig_uuids)]
