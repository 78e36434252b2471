"""Granted quantities of any interval, second by second at its borders; no window and no price is needed."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from domain.errors import InputError
from domain.grants import Grant
from domain.money import round_half_even
from domain.period import Period, ceil_second
from domain.prices import GapRules
from meter.evidence.evidence import Evidence
from meter.rating.measuring import Stretch, measure

# Column -> what it says of a grant.
GROUPINGS: Mapping[str, Callable[[Grant], str | None]] = {
    "tenant": lambda grant: grant.tenant,
    "project": lambda grant: grant.project,
    "allocation": lambda grant: grant.allocation,
    "sku": lambda grant: grant.sku,
    "model": lambda grant: grant.model,
    "kind": lambda grant: grant.kind.value,
    "node": lambda grant: grant.node,
    "gpu_uuid": lambda grant: grant.gpu_uuid,
}


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Totals of one group. Covered seconds, those with a reading of VRAM, are None where no grant of the group has a
    device; used VRAM is None where no second is covered.

    `milli_gpu_seconds` is rounded half-even once, from the exact sum of the group.
    """

    group: Mapping[str, str | None]
    granted_seconds: int
    milli_gpu_seconds: int
    vram_byte_seconds: int
    used_vram_byte_seconds: int | None
    covered_seconds: int | None


@dataclass(slots=True)
class _Total:
    granted_seconds: int = 0
    gpu_seconds: Fraction = Fraction(0)
    vram_byte_seconds: int = 0
    used: int | None = None
    covered: int | None = None


def parse_grouping(text: str) -> tuple[str, ...]:
    """The columns of a `--by`, in order; InputError for one that does not exist."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in GROUPINGS:
            raise InputError(f"cannot group by {name!r}: use {', '.join(GROUPINGS)}")
    return names


def usage(
    grants: Sequence[Grant], period: Period, by: Sequence[str], evidence_of: Callable[[str, Period], Evidence]
) -> list[UsageRow]:
    """Usage of the grants inside the period, one row per group, in order of the groups.

    `evidence_of` gives a node's evidence of a UTC hour; it is asked only for hours in which a device of the node
    was granted. `grants` must be all on these devices, of whatever tenant: those that name one owner divide its use.
    """
    totals: dict[tuple[str | None, ...], _Total] = {}
    for grant in grants:
        held = grant.period.intersect(period)
        if held is None:
            continue
        total = totals.setdefault(_key(grant, by), _Total())
        total.granted_seconds += held.seconds
        total.gpu_seconds += Fraction(grant.compute_units * held.seconds, grant.compute_units_total)
        total.vram_byte_seconds += grant.vram_bytes * held.seconds
    for (node, hour), its_grants in sorted(_granted_hours(grants, period).items()):
        evidence = evidence_of(node, hour)
        stretches = list(_stretches(its_grants, hour.intersect(period)))
        for stretch, sums in zip(stretches, measure(evidence, stretches), strict=True):
            total = totals[_key(stretch.grant, by)]
            total.covered = (total.covered or 0) + sums.covered
            if sums.covered:
                total.used = (total.used or 0) + sums.used
    return [
        UsageRow(
            dict(zip(by, key, strict=True)),
            total.granted_seconds,
            round_half_even(total.gpu_seconds * 1_000),
            total.vram_byte_seconds,
            total.used,
            total.covered,
        )
        for key, total in sorted(totals.items(), key=lambda item: tuple(part or "" for part in item[0]))
    ]


def _key(grant: Grant, by: Sequence[str]) -> tuple[str | None, ...]:
    return tuple(GROUPINGS[name](grant) for name in by)


def _granted_hours(grants: Iterable[Grant], period: Period) -> dict[tuple[str, Period], list[Grant]]:
    hours: dict[tuple[str, Period], list[Grant]] = {}
    for grant in grants:
        held = None if grant.is_record_only else grant.period.intersect(period)
        for hour in held.hours() if held else ():
            hours.setdefault((grant.node, hour), []).append(grant)
    return hours


def _stretches(grants: Iterable[Grant], period: Period | None) -> Iterable[Stretch]:
    for grant in grants:
        held = grant.period.intersect(period) if period else None
        if held is not None:
            yield Stretch(grant, GapRules(), held.first_second, ceil_second(held.end_us))
