"""What happens outside a meter in a few hours of two nodes: readings, marks, heartbeats, records and prices.

All times are seconds after the hour of tests/meter/hour.py begins; those of records may be halves.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from domain.prices import VramBasis
from domain.units import GIB
from tests.meter.facts import Row

HOURS = 4
NODES = {"n1": ("GPU-1", "GPU-2"), "n2": ("GPU-3",), "": ()}
NODE_OF = {card: node for node, cards in NODES.items() for card in cards}
CARD_BYTES, USABLE_BYTES = 25 * GIB, 24 * GIB
# UTC+13:45, so that a day begins 15 minutes after the hour.
ZONES = {"acme": "UTC", "globex": "Pacific/Chatham"}

Series = tuple[str, str]
"""(name, owner)."""
_UP, _USED, _OWNER_USED = ("gpu_up", ""), ("gpu_memory_used_bytes", ""), "gpu_owner_memory_bytes"

READINGS: dict[str, dict[Series, float]] = {
    "lost": {_UP: 0},
    "up": {_UP: 1},
    "garbage": {_UP: 1, _USED: -1},
    "idle": {_UP: 1, _USED: 0},
    "busy": {_UP: 1, _USED: 10 * GIB + 1},
    "over": {_UP: 1, _USED: 24 * GIB + GIB // 2},
    "told": {_UP: 1, _USED: 20 * GIB, (_OWNER_USED, "alloc:a2"): 13 * GIB + 7, (_OWNER_USED, "alloc:a3"): 7 * GIB},
    "unattributed": {_UP: 1, _USED: 3 * GIB, (_OWNER_USED, "unattributed"): 3 * GIB},
}


@dataclass(frozen=True)
class Held:
    """A grant: `milli` thousandths of a card over [start, end), None where it goes on. `card` None: not known which."""

    card: str | None
    milli: int
    start: float
    end: float | None

    @property
    def node(self) -> str:
        """Whose windows it is charged in; '' without a card."""
        return NODE_OF[self.card] if self.card is not None else ""

    @property
    def last(self) -> float:
        """Its end, or one that is never reached."""
        return self.end if self.end is not None else 10**9

    @property
    def vram_bytes(self) -> int:
        """What the tenant may use."""
        return USABLE_BYTES * self.milli // 1_000


@dataclass(frozen=True)
class Record:
    """What is said of an allocation; grants in order of time."""

    tenant: str
    project: str
    grants: tuple[Held, ...]


@dataclass(frozen=True)
class Price:
    """A rate of the one book, in force over [start, end), None for ever; tenant and project None are everybody."""

    name: str
    dimension: str
    price: str
    start: int
    end: int | None = None
    tenant: str | None = None
    project: str | None = None
    basis: VramBasis | None = None


@dataclass
class World:
    """All that a meter can learn of; marks and reports are of each node, None before the first."""

    readings: dict[str, dict[int, dict[Series, float]]] = field(default_factory=lambda: defaultdict(dict))
    marks: dict[str, int] = field(default_factory=dict)
    reports: dict[str, int] = field(default_factory=dict)
    skews: dict[str, float] = field(default_factory=dict)
    heard: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    records: dict[str, Record] = field(default_factory=dict)
    prices: list[Price] = field(default_factory=list)

    def arrive(self, card: str, seconds: Iterable[int], kind: str) -> None:
        """Readings come into the store, which of two of one second keeps the larger."""
        for second in seconds:
            held = self.readings[card].setdefault(second, {})
            for series, value in READINGS[kind].items():
                held[series] = max(value, held.get(series, value))

    def forget(self, card: str, until: int) -> None:
        """The store drops what it has of the seconds before."""
        for second in [each for each in self.readings[card] if each < until]:
            del self.readings[card][second]

    def rows(self, node: str) -> list[Row]:
        """What the store has of the node, for `facts.make_samples`."""
        return [
            (name, card, "", owner, second, int(value))
            for card in NODES[node]
            for second, held in self.readings[card].items()
            for (name, owner), value in held.items()
        ]

    def fits(self, allocation: str, record: Record) -> bool:
        """Whether no card would be granted beyond what it is."""
        others = [each for name, known in self.records.items() if name != allocation for each in known.grants]
        claims = [each for each in (*others, *record.grants) if each.card is not None]
        return all(
            sum(each.milli for each in claims if each.card == one.card and each.start <= one.start < each.last) <= 1_000
            for one in claims
        )
