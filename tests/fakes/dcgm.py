"""A DCGM host engine without DCGM and without a card: what it reads is a function of the test's, its time the test's.

It behaves as the real one does: the first period is blank, values are kept for a while and beyond the connection that
asked for them, a second watcher makes it read more often, a restart forgets all, samples are lost under load, and a
call may block for long.
"""

import random
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from collector.dcgm.fields import FIELD_OF_NUMBER
from collector.dcgm.host_engine import (
    EngineCard,
    EngineError,
    EngineInstance,
    Entity,
    EntityGroup,
    FieldValue,
    Status,
)
from domain.units import MIB
from tests.fakes.clock import SettableClock

BLANK, NOT_FOUND, NOT_SUPPORTED, NO_PERMISSION = (0x7FFFFFFFFFFFFFF0 + reason for reason in range(4))
BLANK_DOUBLE = 2.0**47
DOUBLES = frozenset({155, 157, *range(1001, 1009)})

# The engines that DCGM's bindings in `dcgm_bindings/` reach, by their address.
SERVED: dict[str, "FakeHostEngine"] = {}

Say = Callable[[Entity, int, int], int | float | str | None]


def card(number: int = 0, *, gis: Collection[int] = (), mig_uuids: bool = True, **more: object) -> EngineCard:
    """A card of the engine, with GPU instances of these numbers."""
    uuid = f"GPU-{number + 1}"
    instances = tuple(
        EngineInstance(
            entity=Entity(EntityGroup.GPU_INSTANCE, number * 8 + place),
            gi_id=gi_id,
            mig_uuid=f"MIG-{uuid[4:]}-{gi_id}" if mig_uuids else None,
        )
        for place, gi_id in enumerate(gis)
    )
    told = EngineCard(
        entity=Entity(EntityGroup.GPU, number),
        gpu_uuid=uuid,
        nvml_index=number,
        minor=number,
        model="NVIDIA A100-SXM4-80GB",
        pci_bus_id=f"00000000:{number:02X}:00.0",
        driver_version="580.105.08",
        vbios_version="92.00.36.00.02",
        vram_total_bytes=81_920 * MIB,
        vram_reserved_bytes=600 * MIB,
        instances=instances,
    )
    return told._replace(**more)  # type: ignore[arg-type]


def busy_card(entity: Entity, number: int, time_us: int) -> int | float | str | None:
    """A card at work, whose energy grows by 300 J a second; as DCGM writes it."""
    known: dict[int, int | float] = {
        155: 300.0,
        156: 1_000_000 + time_us * 300 // 1_000 % 10**12,
        203: 91,
        250: 81_920,
        251: 81_920 - 600 - 5_000,
        252: 5_000,
        253: 600,
        1001: 0.75,
        1002: 0.5,
    }
    if entity.group is EntityGroup.GPU_INSTANCE and number in (155, 156, 203):
        return NOT_SUPPORTED
    return known.get(number, BLANK_DOUBLE + 2 if number in DOUBLES else NOT_SUPPORTED)


@dataclass
class _Watch:
    period_us: int
    keep_us: int
    first_us: int
    next_us: int


@dataclass
class FakeHostEngine:
    """The engine itself, which outlives its connections. `advance_s` lets its time, and the test's, go on.

    `refused` says which fields it will not watch, and `of_card` those of one card, by their numbers; `failing` which
    questions it answers with an error. `phase_us` is when in its period it reads. `lost` is the share of its readings
    that it fails to make.
    """

    clock: SettableClock
    machine: list[EngineCard]
    say: Say = busy_card
    phase_us: int = 300_000
    lost: float = 0.0
    refused: dict[int, Status] = field(default_factory=dict)
    of_card: dict[int, dict[int, Status]] = field(default_factory=dict)
    failing: dict[str, Status] = field(default_factory=dict)
    is_up: bool = True
    asked: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.answers = threading.Event()
        self.answers.set()
        self.blocked = threading.Event()
        self._random = random.Random(7)
        self._watches: dict[tuple[Entity, int], list[_Watch]] = {}
        self._kept: dict[tuple[Entity, int], dict[int, int | float | str | None]] = {}
        self._generation = 0

    def connect(self) -> "FakeConnection":
        """A new connection, as `BoundHostEngine` opens one."""
        self.check()
        return FakeConnection(self, self._generation)

    def check(self, generation: int | None = None) -> None:
        if not self.is_up or generation not in (None, self._generation):
            raise EngineError("ask it", Status.CONNECTION_NOT_VALID, "the connection is not valid any longer")

    def restart(self) -> None:
        """Everything watched and kept is gone, and so are the connections."""
        self._generation += 1
        self._watches.clear()
        self._kept.clear()

    def advance_s(self, seconds: float = 1) -> None:
        """Let time go by; what is watched is read when it is due."""
        until_us = self.clock.now_us() + round(seconds * 1_000_000)
        while (due := self._next_due(until_us)) is not None:
            self.clock.advance_us(due - self.clock.now_us())
            self._read(due)
        self.clock.advance_us(until_us - self.clock.now_us())

    def watch(self, entities: Collection[Entity], fields: Collection[int], period_us: int, keep_s: float) -> None:
        """As any of its clients may."""
        for entity in entities:
            refused = self.refused | self.of_card.get(entity.number, {})
            for number in fields:
                if number in refused:
                    raise EngineError("watch fields", refused[number])
        now_us = self.clock.now_us()
        first_us = now_us - now_us % period_us + self.phase_us % period_us
        first_us += period_us if first_us <= now_us else 0
        for entity in entities:
            for number in fields:
                watches = self._watches.setdefault((entity, number), [])
                if not any(each.period_us == period_us for each in watches):
                    watches.append(_Watch(period_us, round(keep_s * 1_000_000), first_us, first_us))

    def kept(self, entity: Entity, number: int, since_us: int) -> Iterator[tuple[int, int | float | str | None]]:
        """What is kept of a field, in order."""
        return ((at, value) for at, value in self._kept.get((entity, number), {}).items() if at >= since_us)

    def _next_due(self, until_us: int) -> int | None:
        due = [watch.next_us for watches in self._watches.values() for watch in watches if self.is_up]
        return min((each for each in due if each <= until_us), default=None)

    def _read(self, now_us: int) -> None:
        # Under load it is the whole round that is lost (DCGM 313).
        is_lost = self._random.random() < self.lost
        for (entity, number), watches in self._watches.items():
            due = [watch for watch in watches if watch.next_us <= now_us]
            for watch in due:
                watch.next_us += watch.period_us
            if not due or is_lost:
                continue
            kept = self._kept.setdefault((entity, number), {})
            is_first = all(watch.first_us == now_us for watch in due) and not kept
            blank = BLANK_DOUBLE if number in DOUBLES else BLANK
            value = blank if is_first else self.say(entity, number, now_us)
            if value is not None:
                kept[now_us] = value
            keep_us = max(watch.keep_us for watch in watches)
            for at in [at for at in kept if at < now_us - keep_us]:
                del kept[at]


class FakeConnection:
    """A `HostEngine` over the fake one."""

    def __init__(self, engine: FakeHostEngine, generation: int) -> None:
        self._engine = engine
        self._generation = generation
        self._watched: dict[tuple[Entity, int], None] = {}

    def cards(self) -> tuple[EngineCard, ...]:
        self._check("cards")
        return tuple(self._engine.machine)

    def watch(self, entities: Collection[Entity], fields: Collection[int], period_us: int, keep_s: float) -> None:
        self._check("watch")
        if unknown := [number for number in fields if number not in FIELD_OF_NUMBER]:
            raise EngineError(f"watch {unknown}", Status.UNKNOWN_FIELD)
        self._engine.watch(entities, fields, period_us, keep_s)
        self._watched |= dict.fromkeys((entity, number) for entity in entities for number in fields)

    def values_since(self, since_us: int) -> list[FieldValue]:
        self._check("values_since")
        return [
            FieldValue(entity, number, at, value, Status.OK)
            for entity, number in self._watched
            for at, value in self._engine.kept(entity, number, since_us)
        ]

    def close(self) -> None:
        self._engine.asked.append("close")

    def _check(self, question: str) -> None:
        self._engine.asked.append(question)
        if not self._engine.answers.is_set():
            self._engine.blocked.set()
            self._engine.answers.wait()
        self._engine.check(self._generation)
        if question in self._engine.failing:
            raise EngineError(question, self._engine.failing[question])
