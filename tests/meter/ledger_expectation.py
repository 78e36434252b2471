"""What a window must be charged, second by second and in `Fraction`: evidence as sets of seconds, charges as sums.

It shares no code with what it checks.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import cache
from itertools import pairwise
from math import ceil
from zoneinfo import ZoneInfo

from domain.prices import VramBasis
from domain.units import GIB
from tests.meter.hour import HOUR_S
from tests.meter.ledger_world import CARD_BYTES, NODES, ZONES, Held, Price, Record, World

CONTEXT_S, CONTACT_S, BRIDGE_S = 30, 10, 3
# No price, day or book changes but at quarters of an hour.
QUARTER_S = 900

Key = tuple[str, int, str, str | None, str, str, str]
"""(allocation, ordinal, dimension, price, billing date, tenant, project)."""
Figures = tuple[int, int, int, int, int, int | None, int, int]
"""Seconds granted, measured, bridged, on record, free and covered; quantity; nano-units of money."""
Charges = dict[Key, Figures]


@dataclass(frozen=True)
class Sight:
    """What is known of a node over [start, until) of seconds.

    `presence` has a word for each second from `CONTEXT_S` before to `CONTEXT_S` after, by card ('' is the node);
    `used` bytes by card, owner ('' is the whole of it) and second; `garbage` the seconds with a reading that no card
    can have made.
    """

    start: int
    until: int
    presence: Mapping[str, tuple[str, ...]]
    used: Mapping[tuple[str, str], Mapping[int, int]]
    garbage: frozenset[tuple[str, int]]

    def told(self, card: str) -> set[int]:
        """The seconds in which some owner on the card was told."""
        return {s for (its, owner), used in self.used.items() if its == card and owner not in _NOBODY for s in used}

    @property
    def known(self) -> Counter[tuple[str, str]]:
        """How many seconds are known of each card and quantity."""
        found: Counter[tuple[str, str]] = Counter()
        for card, words in self.presence.items():
            inside = words[CONTEXT_S : CONTEXT_S + self.until - self.start]
            if card:
                found[card, "sampled"] = inside.count("sampled")
                found[card, "looked"] = sum(inside.count(word) for word in ("sampled", "lost", "absent"))
                found[card, "told"] = len(self.told(card))
        for (card, owner), used in self.used.items():
            found[card, f"used by {owner}"] = len(used)
        return found

    def lacks(self, other: "Sight") -> bool:
        """Whether the other knows more of anything."""
        here = self.known
        return any(seconds > here[what] for what, seconds in other.known.items())

    def late_beyond(self, frozen: "Sight") -> int:
        """Of how many seconds of cards this has something that the frozen one has not."""
        there = frozen.known
        more: dict[str, int] = {}
        for (card, what), seconds in self.known.items():
            if what != "looked":
                more[card] = max(more.get(card, 0), seconds - there[card, what])
        return sum(more.values())


_NOBODY = ("", "unattributed")


def look(world: World, node: str, start: int, until: int) -> Sight:
    """What a meter sees of [start, until) in what the store has by now."""
    span = range(start - CONTEXT_S, until + CONTEXT_S)
    cards = {card: {s: held for s, held in world.readings[card].items() if s in span} for card in NODES[node]}
    seen = {second for held in cards.values() for second in held}
    hour = start // 3_600 * 3_600
    near = (hour - CONTEXT_S, hour + 3_600 + CONTEXT_S)
    heard = {second + late for second in seen for late in range(CONTACT_S)}
    for first, last in world.heard[node]:
        if first < near[1] and last >= near[0]:
            heard.update(range(first, last + CONTACT_S))
    line = tuple("sampled" if s in seen else "down" if s in heard else "unreachable" for s in span)
    presence = {"": line} if node else {}
    used: dict[tuple[str, str], dict[int, int]] = {}
    garbage = set()
    for card, held in cards.items():
        words = list(line)
        for index, second in enumerate(span):
            if second in held:
                words[index] = "sampled" if held[second]["gpu_up", ""] else "lost"
            elif second in seen:
                words[index] = "absent"
        presence[card] = tuple(words)
        for second in (each for each in held if start <= each < until):
            for (name, owner), value in held[second].items():
                if name != "gpu_up" and 0 <= value <= CARD_BYTES:
                    used.setdefault((card, owner), {})[second] = int(value)
                elif name != "gpu_up":
                    garbage.add((card, second))
    return Sight(start, until, presence, used, frozenset(garbage))


def gap_classes(words: tuple[str, ...]) -> list[str]:
    """Of each second: a hole of up to `BRIDGE_S` between two samples is bridged, unless the card was lost in it."""
    found = [{"sampled": "measured", "down": "on_record"}.get(word, "free") for word in words]
    sampled = [index for index, word in enumerate(words) if word == "sampled"]
    for before, after in pairwise(sampled):
        if 1 < after - before <= BRIDGE_S + 1 and "lost" not in words[before:after]:
            found[before + 1 : after] = ["bridged"] * (after - before - 1)
    return found


def charge(sight: Sight, node: str, records: Mapping[str, Record], prices: Iterable[Price]) -> Charges:
    """The charges of the node's grants over what was seen."""
    classes = {card: gap_classes(words) for card, words in sight.presence.items()}
    sums: dict[Key, list[int | None]] = {}
    amounts: dict[Key, tuple[Price | None, int]] = {}
    for allocation, record in records.items():
        for ordinal, held in enumerate(record.grants):
            if held.node != node:
                continue
            first, last = max(sight.start, ceil(held.start)), min(sight.until, ceil(held.last))
            for quarter in range(first // QUARTER_S, -(-last // QUARTER_S)):
                seconds = range(max(first, quarter * QUARTER_S), min(last, (quarter + 1) * QUARTER_S))
                if not seconds:
                    continue
                for dimension in ("gpu", "vram"):
                    price = in_force(prices, dimension, record, seconds[0])
                    key = _key(allocation, ordinal, dimension, price, record, seconds[0])
                    parts = _parts(sight, classes, allocation, held, dimension, price, seconds)
                    sums[key] = _sum(sums.get(key), parts)
                    amounts[key] = (price, held.milli)
    return {key: (*values, _money(key[2], amounts[key][0], values[6] or 0)) for key, values in sums.items()}  # type: ignore[misc] # seven of them


def unpriced(charges: Charges) -> int:
    """Seconds without a price."""
    return sum(figures[0] for key, figures in charges.items() if key[3] is None)


def in_force(prices: Iterable[Price], dimension: str, record: Record, second: int) -> Price | None:
    """The most specific price: of the project, of the tenant, of everybody."""
    for who in ((record.tenant, record.project), (record.tenant, None), (None, None)):
        for each in prices:
            is_for_it = (each.dimension, each.tenant, each.project) == (dimension, *who)
            if is_for_it and each.start <= second and (each.end is None or second < each.end):
                return each
    return None


@cache
def billing_date(tenant: str, quarter: int) -> str:
    """The tenant's day of a quarter of an hour."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=HOUR_S + quarter * QUARTER_S)
    return moment.astimezone(ZoneInfo(ZONES[tenant])).date().isoformat()


def _key(allocation: str, ordinal: int, dimension: str, price: Price | None, record: Record, second: int) -> Key:
    day = billing_date(record.tenant, second // QUARTER_S)
    return allocation, ordinal, dimension, price.name if price else None, day, record.tenant, record.project


def _parts(
    sight: Sight,
    classes: Mapping[str, list[str]],
    allocation: str,
    held: Held,
    dimension: str,
    price: Price | None,
    seconds: range,
) -> list[int | None]:
    """Figures of some seconds of a grant, all but the money."""
    if held.card is None:
        found = ["on_record"] * len(seconds)
        used: dict[int, int] = {}
    else:
        begin = sight.start - CONTEXT_S
        found = classes[held.card][seconds[0] - begin : seconds[-1] + 1 - begin]
        used = _used(sight, allocation, held)
    used = {second: value for second, value in used.items() if second in seconds}
    measured, bridged, on_record, free = (found.count(name) for name in ("measured", "bridged", "on_record", "free"))
    billed = measured + bridged + on_record
    quantity = held.milli * billed
    if dimension == "vram":
        quantity = held.vram_bytes * billed
        if price is None or price.basis is VramBasis.MAX:
            quantity += sum(max(0, value - held.vram_bytes) for value in used.values())
    covered = measured if dimension == "gpu" else len(used)
    return [len(seconds), measured, bridged, on_record, free, None if held.card is None else covered, quantity]


def _used(sight: Sight, allocation: str, held: Held) -> dict[int, int]:
    """Bytes by second, of those in which they are known: of a whole card all of it, of a share its owner's."""
    card = held.card or ""
    if held.milli == 1_000:
        return dict(sight.used.get((card, ""), {}))
    own = sight.used.get((card, f"alloc:{allocation}"), {})
    return {second: own.get(second, 0) for second in sight.told(card)}


def _sum(before: list[int | None] | None, more: list[int | None]) -> list[int | None]:
    if before is None:
        return more
    return [None if a is None or b is None else a + b for a, b in zip(before, more, strict=True)]


def _money(dimension: str, price: Price | None, quantity: int) -> int:
    """Nano-units, rounded half to even."""
    if price is None:
        return 0
    whole = 1_000 if dimension == "gpu" else GIB
    return round(Fraction(price.price) * quantity * 10**9 / (3_600 * whole))
