"""A fleet that is not there: nodes of 8 cards, RTX 4090s beside H100s, sold whole, in MIG instances or in shares.

The same for the same numbers, whenever and wherever it is made.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from domain.clock import MICROSECONDS
from domain.grants import Grant, GrantKind
from domain.mig import geometry_of
from domain.period import HOUR_S, HOUR_US, Period
from domain.units import GIB, MIB

# 2025-06-01T00:00:00Z: long settled, and no part of what VictoriaMetrics would take for the future.
START_S = 1_748_736_000
START_US = START_S * MICROSECONDS
CARDS_PER_NODE = 8
TENANTS = tuple(f"tenant-{number}" for number in range(10))
PROJECT = "training"
_RESERVED_BYTES = 512 * MIB
# Of the H100s of a node the last so many are cut into instances, of its RTX 4090s the last so many sold in shares.
_MIG_CARDS, _SHARED_CARDS = 3, 2
_LAYOUT = (("3g.40gb", 0), ("2g.20gb", 4), ("1g.10gb", 6))
# A grant lasts so long, and the next begins so much later.
_HELD_SECONDS, _BETWEEN_SECONDS = (2_000.0, 12_000.0), (5.0, 600.0)


@dataclass(frozen=True, slots=True)
class Part:
    """What one grant after the other holds: a card, a MIG instance or a share, and its place on the card."""

    kind: GrantKind
    compute_units: int
    vram_bytes: int
    profile: str = ""
    mig_uuid: str | None = None
    start_slice: int = 0
    slices: int = 0


@dataclass(frozen=True)
class Card:
    """A card and what it is sold as."""

    number: int

    @property
    def node(self) -> str:
        """The node that it stands in."""
        return f"bench-{self.number // CARDS_PER_NODE:02}"

    @property
    def index(self) -> int:
        """Which of the node's."""
        return self.number % CARDS_PER_NODE

    @property
    def gpu_uuid(self) -> str:
        """Its name."""
        return f"GPU-{self.number:08x}-5ca1-4ab1-9e00-{self.number * 7_919:012x}"

    @property
    def is_h100(self) -> bool:
        """An H100 on every second node; else an RTX 4090. The H100s' collectors prove no owners."""
        return self.number // CARDS_PER_NODE % 2 == 1

    @property
    def model(self) -> str:
        """As its driver names it."""
        return "NVIDIA H100 80GB HBM3" if self.is_h100 else "NVIDIA GeForce RTX 4090"

    @property
    def sku(self) -> str:
        """As it is sold."""
        return "h100-80g" if self.is_h100 else "rtx4090-24g"

    @property
    def is_mig(self) -> bool:
        """Cut into MIG instances."""
        return self.is_h100 and self.index >= CARDS_PER_NODE - _MIG_CARDS

    @property
    def is_shared(self) -> bool:
        """Sold in shares."""
        return not self.is_h100 and self.index >= CARDS_PER_NODE - _SHARED_CARDS

    @property
    def compute_units(self) -> int:
        """In its own integers."""
        return 132 if self.is_mig else 1_000

    @property
    def vram_total_bytes(self) -> int:
        """All of it."""
        return 80 * GIB if self.is_h100 else 24 * GIB

    @property
    def vram_reserved_bytes(self) -> int:
        """What the driver keeps."""
        return _RESERVED_BYTES

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """What is granted of it."""
        if self.is_mig:
            return tuple(self._instance(*each) for each in _LAYOUT)
        usable = self.vram_total_bytes - self.vram_reserved_bytes
        if self.is_shared:
            return tuple(Part(GrantKind.SHARE, 500, usable // 2) for _ in range(2))
        return (Part(GrantKind.WHOLE, self.compute_units, usable),)

    def _instance(self, name: str, start_slice: int) -> Part:
        geometry = geometry_of(self.model, self.vram_total_bytes)
        assert geometry is not None, self.model
        profile = geometry.profile(name)
        return Part(
            GrantKind.MIG,
            profile.sm_count,
            profile.vram_bytes,
            name,
            f"MIG-{self.number:08x}-{start_slice:04x}-5ca1-9e00-{self.number * 7_919:012x}",
            start_slice,
            profile.slices,
        )


@dataclass(frozen=True)
class Fleet:
    """So many cards over so many hours from `START_S` on."""

    cards_count: int
    hours: int

    @cached_property
    def cards(self) -> tuple[Card, ...]:
        """By number; the first of a larger fleet are those of a smaller one."""
        return tuple(Card(number) for number in range(self.cards_count))

    @cached_property
    def nodes(self) -> tuple[str, ...]:
        """In order."""
        return tuple(dict.fromkeys(card.node for card in self.cards))

    def cards_of(self, node: str) -> tuple[Card, ...]:
        """Those that stand in it."""
        return tuple(card for card in self.cards if card.node == node)

    @property
    def period(self) -> Period:
        """All of its time."""
        return Period(START_US, START_US + self.hours * HOUR_US)

    @cached_property
    def held(self) -> dict[Card, tuple[tuple[Grant, ...], ...]]:
        """The grants of each part of each card, one after the other; they begin and end within a second."""
        return {
            card: tuple(tuple(_grants(card, place, part, self.period)) for place, part in enumerate(card.parts))
            for card in self.cards
        }

    @property
    def grants(self) -> list[Grant]:
        """All of them, by card."""
        return [grant for parts in self.held.values() for part in parts for grant in part]


def _grants(card: Card, place: int, part: Part, period: Period) -> Iterator[Grant]:
    chance = random.Random(f"grants {card.number} {place}")  # noqa: S311 - deterministic data, no secret
    # The first began before the fleet's time.
    at_s = START_S - chance.uniform(0, HOUR_S)
    number = 0
    while at_s * MICROSECONDS < period.end_us:
        end_s = at_s + chance.uniform(*_HELD_SECONDS)
        held = Period(round(at_s * MICROSECONDS), round(end_s * MICROSECONDS)).intersect(period)
        tenant = chance.choice(TENANTS)
        if held is not None:
            yield Grant(
                allocation=f"a-{card.number:03}-{place}-{number:02}",
                ordinal=0,
                tenant=tenant,
                project=PROJECT,
                node=card.node,
                gpu_uuid=card.gpu_uuid,
                mig_uuid=part.mig_uuid,
                kind=part.kind,
                model=card.model,
                sku=f"{card.sku}/{part.profile}" if part.profile else card.sku,
                compute_units=part.compute_units,
                compute_units_total=card.compute_units,
                vram_bytes=part.vram_bytes,
                start_us=held.start_us,
                end_us=held.end_us,
            )
        at_s = end_s + chance.uniform(*_BETWEEN_SECONDS)
        number += 1
