"""Whether records, with what else is granted, give the same capacity twice."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from allocator.records.csv_rows import Problems
from domain.grants import GrantKind
from domain.period import Period, format_instant
from store.capacity import DevicePeriod


@dataclass(frozen=True, slots=True)
class Claim:
    """What one grant takes of a card over `period`; `line` is None for a grant that is in the database."""

    line: int | None
    allocation: str
    gpu_uuid: str
    mig_uuid: str | None
    kind: GrantKind
    compute_units: int
    compute_units_total: int
    vram_bytes: int
    period: Period

    @property
    def ratio(self) -> Fraction:
        """The part of the card's compute, exactly."""
        return Fraction(self.compute_units, self.compute_units_total)


def find_overlaps(claims: Iterable[Claim], cards: Mapping[str, Sequence[DevicePeriod]], problems: Problems) -> None:
    """Note every line of the file that takes what is taken.

    A card has its compute once, and its usable VRAM once where its period says how much that is; so has a MIG
    instance, as a whole. Where nothing is known of a card, its MIG instances are told apart by UUID only. An
    allocation has one share of a card at a time: use is known by owner, and each of several would bear all of it.
    """
    by_card: dict[str, list[Claim]] = defaultdict(list)
    by_instance: dict[str, list[Claim]] = defaultdict(list)
    for claim in claims:
        by_card[claim.gpu_uuid].append(claim)
        if claim.mig_uuid is not None:
            by_instance[claim.mig_uuid].append(claim)
    found: dict[int, str] = {}
    for mig_uuid, same in by_instance.items():
        for at_us, running in _changes(same, ()):
            if len(running) > 1:
                twice = f"the MIG instance {mig_uuid!r} is granted twice at {format_instant(at_us)}"
                _blame(found, running, f"{twice}: end the first before")
    for gpu_uuid, same in by_card.items():
        known = cards.get(gpu_uuid, ())
        for at_us, running in _changes(same, known):
            problem = _excess(gpu_uuid, running, _at(known, at_us))
            if problem:
                _blame(found, running, f"{problem} at {format_instant(at_us)}: end another before, or write less")
            for allocation, several in _in_several_shares(running):
                said = f"{allocation!r} has several shares of the card {gpu_uuid!r} at {format_instant(at_us)}"
                _blame(found, several, f"{said}: write them as one row")
    for line, problem in sorted(found.items()):
        problems.add(line, problem)


def _excess(gpu_uuid: str, running: Iterable[Claim], card: DevicePeriod | None) -> str | None:
    """What is granted beyond the card while these run."""
    counted = [claim for claim in running if card is not None or claim.kind is not GrantKind.MIG]
    if sum((claim.ratio for claim in counted), Fraction(0)) > 1:
        return f"more than all of the card {gpu_uuid!r} is granted"
    if card is None:
        return None
    usable_bytes = card.usable_vram_bytes
    granted_bytes = sum(claim.vram_bytes for claim in counted)
    if granted_bytes > usable_bytes:
        return (
            f"{granted_bytes} bytes of VRAM of the card {gpu_uuid!r} are granted, of {usable_bytes} usable (an empty "
            "vram_mib takes what there is)"
        )
    return None


def _in_several_shares(running: Iterable[Claim]) -> Iterator[tuple[str, list[Claim]]]:
    shares: dict[str, list[Claim]] = defaultdict(list)
    for claim in running:
        if claim.kind is GrantKind.SHARE:
            shares[claim.allocation].append(claim)
    return ((allocation, several) for allocation, several in shares.items() if len(several) > 1)


def _changes(claims: Sequence[Claim], known: Sequence[DevicePeriod]) -> Iterator[tuple[int, list[Claim]]]:
    """The instants at which what runs, or the card, changes, each with the claims that run from there."""
    starts: dict[int, list[Claim]] = defaultdict(list)
    ends: dict[int, list[Claim]] = defaultdict(list)
    for claim in claims:
        if claim.period.start_us < claim.period.end_us:
            starts[claim.period.start_us].append(claim)
            ends[claim.period.end_us].append(claim)
    instants = {*starts, *ends, *(card.period.start_us for card in known), *(card.period.end_us for card in known)}
    running: dict[int, Claim] = {}
    for at_us in sorted(instants):
        for claim in ends.get(at_us, ()):
            del running[id(claim)]
        for claim in starts.get(at_us, ()):
            running[id(claim)] = claim
        if running:
            yield at_us, list(running.values())


def _at(known: Sequence[DevicePeriod], at_us: int) -> DevicePeriod | None:
    return next((card for card in known if card.period.start_us <= at_us < card.period.end_us), None)


def _blame(found: dict[int, str], running: Iterable[Claim], problem: str) -> None:
    """Name the line that began last: what ran before it was not too much."""
    lines = [(claim.period.start_us, claim.line) for claim in running if claim.line is not None]
    if lines:
        found.setdefault(max(lines)[1], problem)
