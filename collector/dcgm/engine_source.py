"""Cards by way of DCGM's host engine: values with the engine's own times, also those of seconds that were missed.

Each group of fields of each card is watched by itself, so that what one card cannot measure costs the others nothing
(dcgm-exporter 736): profiling on cards before Hopper needs a closed module, and a lock that other profilers want, too.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from fractions import Fraction
from threading import Lock

import structlog

from collector.dcgm.capped_ratios import CappedRatios
from collector.dcgm.device_values import device_values
from collector.dcgm.engine_seconds import EngineSeconds
from collector.dcgm.engine_watches import KEEP_SECONDS, EngineWatches
from collector.dcgm.field import DcgmField, Scope, Watch
from collector.dcgm.host_engine import EngineCard, EngineError, Entity, HostEngine
from collector.dcgm.left_out import LeftOut
from collector.dcgm.mig_names import mig_name
from collector.dcgm.once_a_second import OnceASecond
from collector.dcgm.readings import DeviceReadings, lost
from collector.own_metrics import OwnValue
from collector.past_seconds import PastSecond
from domain.clock import MICROSECONDS, Clock
from domain.errors import InputError, UnavailableError
from domain.inventory import Device
from domain.samples import Basis, DeviceReading, FieldState
from domain.slugs import check_model, check_name

BASIS = Basis("dcgm_engine", "watched")

# A call may block for 45 s (DCGM 313); whoever finds the engine at it waits no longer than this.
_TURN_SECONDS = 1.0
# What is appended late has an earlier time than what was read last.
_OVERLAP_US = MICROSECONDS
_REMEMBERED_US = 5 * MICROSECONDS

log = structlog.get_logger()


class HostEngineSource:
    """A `Source` of the cards of one host engine, which `RemembersSeconds`. It connects anew where the engine goes."""

    name = BASIS.source

    def __init__(self, connect: Callable[[], HostEngine], clock: Clock) -> None:
        """`connect` opens the engine, or raises UnavailableError. Nothing is asked yet."""
        self._connect = connect
        self._clock = clock
        self._lock = Lock()
        self._engine: HostEngine | None = None
        self._watches = EngineWatches(clock)
        self._seconds = EngineSeconds()
        self._cards: dict[str, EngineCard] = {}
        self._known: dict[str, Device] = {}
        self._left_out = LeftOut()
        self._capped = CappedRatios(self.name)
        self._mig_noted: set[str] = set()
        self._readings: dict[tuple[str, str | None], DeviceReadings] = {}
        self._polls = OnceASecond(self._poll)

    def inventory(self) -> tuple[Device, ...]:
        """Every card that the engine ever told of, by index.

        A card in MIG mode is here for its samples: how large its instances are and where they lie is not asked of
        DCGM, so it has none and no SM count. Raises UnavailableError where there is none.
        """
        with self._turn() as engine:
            self._look_at_cards(engine)
        if not self._known:
            self._left_out.raise_first()
            raise UnavailableError("cannot collect from the DCGM host engine: it has no card; see `dcgmi discovery -l`")
        return tuple(sorted(self._known.values(), key=lambda device: device.index))

    def read(self, gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        """What the engine read of the card in the second before that one began, and of its instances.

        Raises UnavailableError where it read nothing then, or does not answer.
        """
        self._polls.of_second(second_s)
        card = self._cards.get(gpu_uuid)
        if card is None:
            raise UnavailableError(f"cannot read the card {gpu_uuid!r}: the DCGM host engine has lost it; see its log")
        readings = self._of_second(card, self._seconds, self._readings, second_s, self._clock.monotonic_s())
        if not readings:
            raise UnavailableError(
                f"cannot read the card {gpu_uuid!r}: the DCGM host engine has no new value of it; see its log"
            )
        return readings

    def missed(self, from_s: int, until_s: int) -> Iterator[PastSecond]:
        """What the engine kept of the seconds in [from_s, until_s), up to five minutes back.

        Raises UnavailableError where it does not answer.
        """
        seconds = EngineSeconds()
        from_s = max(from_s, until_s - KEEP_SECONDS)
        with self._turn() as engine:
            seconds.add(engine.values_since(from_s * MICROSECONDS - _REMEMBERED_US))
        states: dict[tuple[str, str | None], DeviceReadings] = {}
        for second_s in range(from_s, until_s):
            readings = [
                reading
                for card in self._cards.values()
                for reading in self._of_second(card, seconds, states, second_s, float(second_s))
            ]
            if readings:
                yield PastSecond(second_s, readings)

    def values(self) -> Iterator[OwnValue]:
        """What it says of its own work."""
        yield from self._capped.values()

    def close(self) -> None:
        """Let go of the engine; what it watches goes on, for the next collector."""
        # One that still waits for an answer must not be taken away from whoever asked.
        if self._lock.acquire(timeout=_TURN_SECONDS):
            engine, self._engine = self._engine, None
            self._lock.release()
            if engine is not None:
                engine.close()

    def _poll(self, second_s: int) -> None:
        """Take what the engine has read since the last second. Raises UnavailableError."""
        with self._turn() as engine:
            self._watches.retry(engine, self._cards.values())
            # A clock that was set back must not hide what is read from then on.
            newest_us = min(self._seconds.newest_us, second_s * MICROSECONDS)
            since_us = max(newest_us - _OVERLAP_US, second_s * MICROSECONDS - _REMEMBERED_US)
            self._seconds.add(engine.values_since(since_us))
            self._seconds.forget_before(second_s * MICROSECONDS - _REMEMBERED_US)

    def _of_second(
        self,
        card: EngineCard,
        seconds: EngineSeconds,
        states: dict[tuple[str, str | None], DeviceReadings],
        second_s: int,
        now_s: float,
    ) -> list[DeviceReading]:
        """The card and its instances; nothing where none of them tells a value."""
        names: list[tuple[str | None, Entity]] = [(None, card.entity)]
        names += [(each.mig_uuid or mig_name(card.gpu_uuid, each.gi_id), each.entity) for each in card.instances]
        readings: list[DeviceReading] = []
        has_value = False
        for mig_uuid, entity in names:
            fields, capped = seconds.of_second(entity, second_s)
            told = self._watches.states(card, entity) | fields
            if mig_uuid is None and _is_lost(told):
                return [lost(card.gpu_uuid, name) for name, _ in names]
            if card.instances:
                told |= {field: FieldState.UNSUPPORTED for field in told if field.scope is Scope.CARD_WITHOUT_MIG}
            said = device_values(told, card.driver_version)
            garbage = [field.series for field, exact in told.items() if exact is FieldState.GARBAGE]
            garbled = [series for series in garbage if series is not None]
            has_value = has_value or bool(said.values or said.parts or garbled)
            place = card.gpu_uuid, mig_uuid
            if place not in states:
                states[place] = DeviceReadings(*place, BASIS)
            # Where MIG is on, owners are told per instance.
            is_owned = mig_uuid is not None or not card.instances
            self._capped.count(card.gpu_uuid, capped)
            readings.append(states[place].reading(said, now_s, garbled=garbled, is_owned=is_owned))
        return readings if has_value else []

    @contextmanager
    def _turn(self) -> Iterator[HostEngine]:
        """The engine, for one caller at a time; connected and watching. Raises UnavailableError."""
        if not self._lock.acquire(timeout=_TURN_SECONDS):
            raise UnavailableError(
                "cannot ask the DCGM host engine: it has not answered the last question; see its log, or restart it"
            )
        try:
            if self._engine is None:
                self._engine = self._opened()
            yield self._engine
        except EngineError as error:
            if error.is_disconnected and self._engine is not None:
                log.warning("host_engine_gone", reason=str(error))
                with suppress(UnavailableError):
                    self._engine.close()
                self._engine = None
            raise
        finally:
            self._lock.release()

    def _opened(self) -> HostEngine:
        """A new connection of which the cards are known and watched; else none, so that the next caller tries anew."""
        engine = self._connect()
        self._seconds = EngineSeconds()
        self._watches = EngineWatches(self._clock)
        try:
            self._look_at_cards(engine)
        except UnavailableError:
            engine.close()
            raise
        return engine

    def _look_at_cards(self, engine: HostEngine) -> None:
        cards = engine.cards()
        for card in cards:
            try:
                self._known[card.gpu_uuid] = _device(card)
            except InputError as error:
                self._left_out.note(card.gpu_uuid, str(error))
                continue
            if card.instances and card.gpu_uuid not in self._mig_noted:
                self._mig_noted.add(card.gpu_uuid)
                reason = "DCGM is not asked how large MIG instances are and where they lie"
                remedy = "where they are sold, collect by NVML"
                log.warning("mig_card_not_recorded", gpu_uuid=card.gpu_uuid, reason=reason, remedy=remedy)
        self._cards = {card.gpu_uuid: card for card in cards if card.gpu_uuid in self._known}
        self._watches.watch(engine, self._cards.values())


def _is_lost(told: Mapping[DcgmField, int | Fraction | FieldState]) -> bool:
    """Whether the engine says of all that every card has that this one is lost."""
    states = {exact for field, exact in told.items() if field.watch is Watch.DEVICE}
    return states == {FieldState.LOST}


def _device(card: EngineCard) -> Device:
    """The card as an inventory has it. Raises InputError where the engine says too little of it."""
    check_name("GPU UUID", card.gpu_uuid)
    if not card.vram_total_bytes and not card.instances:
        raise InputError(
            f"cannot collect the card {card.gpu_uuid!r}: DCGM does not tell its size; see `dcgmi discovery`"
        )
    return Device(
        uuid=card.gpu_uuid,
        index=card.nvml_index if card.nvml_index is not None else card.entity.number,
        model=check_model(card.model),
        vram_total_bytes=card.vram_total_bytes,
        vram_reserved_bytes=card.vram_reserved_bytes,
        mig_enabled=bool(card.instances),
        pci_bus_id=card.pci_bus_id,
        driver_version=card.driver_version,
        minor=card.minor,
        vbios_version=card.vbios_version,
    )
