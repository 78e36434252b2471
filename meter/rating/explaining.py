"""Why a charge is what it is: stretch by stretch, in quantities that sum to it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import polars as pl

from domain.grants import Grant
from domain.prices import PriceBook, Rate
from domain.tenants import Tenant
from meter.evidence.evidence import Evidence
from meter.evidence.presence import Presence
from meter.rating.charges import Charge
from meter.rating.gaps import GapClass
from meter.rating.measuring import Sums, measure
from meter.rating.rating import Segment, quantity_of, segments_of


@dataclass(frozen=True, slots=True)
class ExplainedStretch:
    """Seconds [start_s, end_s) of a charge in which nothing changes.

    `presence` is what was known of the device, None where there is none; `gap` the class of the seconds. `used_bytes`
    is what the grant used of the VRAM in each second, `busy_millionths` how busy its device was; None: no reading.
    `owners` are those that the node told of on the device. `quarantined` counts the readings of each second that no
    card can have made. `quantity` is of all the seconds, in what the charge counts.
    """

    start_s: int
    end_s: int
    presence: Presence | None
    gap: GapClass
    rate: Rate | None
    used_bytes: int | None
    busy_millionths: int | None
    owners: tuple[str, ...]
    quarantined: int
    quantity: int

    @property
    def seconds(self) -> int:
        """How many."""
        return self.end_s - self.start_s


def explain(
    charge: Charge,
    evidence: Evidence,
    grants: Sequence[Grant],
    tenants: Mapping[str, Tenant],
    books: Mapping[str, PriceBook],
    *,
    by_second: bool = False,
) -> list[ExplainedStretch]:
    """The stretches of a charge, in order, as rating them from this evidence gives them; their quantities sum to it.

    Cut where anything that was observed changes, or at each second. `grants` are all of the window, as for `rate`;
    empty where none of them makes such a charge.
    """
    segments = [each for grant in grants for each in segments_of(grant, evidence.period, tenants[grant.tenant], books)]
    key = (charge.allocation, charge.ordinal, charge.dimension, charge.rate_id, charge.billing_date)
    mine = sorted((each for each in segments if each.key == key), key=lambda each: each.stretch.start_s)
    # Who shares an owner with others has a part of it, so the others must be there.
    others = [each.stretch for each in segments if each.grant not in {own.grant for own in mine}]
    pieces = [piece for each in mine for piece in _cut(each, evidence, by_second=by_second)]
    sums = measure(evidence, [*(each.stretch for each in pieces), *others])[: len(pieces)]
    known = _Known.of(evidence, mine[0].grant) if mine else _Known()
    return [_explained(piece, of_piece, known) for piece, of_piece in zip(pieces, sums, strict=True)]


_Run = tuple[int, int, int]
"""(first second, second after the last, value)."""


@dataclass(frozen=True, slots=True)
class _Known:
    """What evidence says of one device; of the node where it never heard of the device."""

    presence: Sequence[_Run] = ()
    busy: Sequence[_Run] = ()
    quarantined: Sequence[_Run] = ()
    owners: Mapping[str, Sequence[_Run]] = field(default_factory=dict)

    @classmethod
    def of(cls, evidence: Evidence, grant: Grant) -> "_Known":
        """Of the device that the grant is on; nothing where it has none."""
        if grant.is_record_only:
            return cls()
        its = evidence.runs.filter(gpu_uuid=grant.gpu_uuid, mig_uuid=grant.mig_uuid or "")
        presence = its.filter(quantity="presence")
        if presence.is_empty():
            is_sampled = pl.col("value") == Presence.SAMPLED
            value = pl.when(is_sampled).then(int(Presence.ABSENT)).otherwise("value")
            presence = evidence.presence().filter(gpu_uuid="").with_columns(value=value)
        used = its.filter(pl.col("owner") != "", quantity="vram_used")
        return cls(
            _runs(presence),
            _runs(its.filter(quantity="busy", owner="")),
            _runs(its.filter(quantity="quarantined")),
            {owner: _runs(used.filter(owner=owner)) for owner in used["owner"].unique().sort()},
        )


def _cut(segment: Segment, evidence: Evidence, *, by_second: bool) -> Iterable[Segment]:
    """The segment in pieces in which nothing that was observed of its device changes."""
    stretch, grant = segment.stretch, segment.grant
    edges = {stretch.start_s, stretch.end_s}
    if by_second:
        edges.update(range(stretch.start_s, stretch.end_s))
    elif not grant.is_record_only:
        runs = evidence.runs.filter(
            pl.col("gpu_uuid").is_in([grant.gpu_uuid, ""]), pl.col("mig_uuid").is_in([grant.mig_uuid or "", ""])
        ).select("start_s", end_s=pl.col("start_s") + pl.col("seconds"))
        found = {edge for column in ("start_s", "end_s") for edge in runs[column]}
        edges |= {edge for edge in found if stretch.start_s < edge < stretch.end_s}
    for start_s, end_s in pairwise(sorted(edges)):
        yield replace(segment, stretch=replace(stretch, start_s=start_s, end_s=end_s))


def _runs(frame: pl.DataFrame) -> list[_Run]:
    ordered = frame.select("start_s", end_s=pl.col("start_s") + pl.col("seconds"), value="value").sort("start_s")
    return list(ordered.iter_rows())


def _explained(segment: Segment, sums: Sums, known: _Known) -> ExplainedStretch:
    stretch = segment.stretch
    presence = _value_at(known.presence, stretch.start_s)
    quantity, _whole = quantity_of(segment, sums)
    (gap,) = [each for each in GapClass if getattr(sums, each.value)]
    return ExplainedStretch(
        start_s=stretch.start_s,
        end_s=stretch.end_s,
        presence=None if presence is None else Presence(presence),
        gap=gap,
        rate=segment.rate,
        used_bytes=sums.used // stretch.seconds if sums.covered else None,
        busy_millionths=_value_at(known.busy, stretch.start_s),
        owners=tuple(owner for owner, runs in known.owners.items() if _value_at(runs, stretch.start_s) is not None),
        quarantined=_value_at(known.quarantined, stretch.start_s) or 0,
        quantity=quantity,
    )


def _value_at(runs: Iterable[_Run], second_s: int) -> int | None:
    return next((value for start_s, end_s, value in runs if start_s <= second_s < end_s), None)
