"""Seconds and bytes of stretches of grants: intervals joined with the runs of evidence, in whole numbers."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, fields

import polars as pl

from domain.grants import Grant, GrantKind
from domain.owners import divide_owner, owners_of
from domain.prices import GapRules
from meter.evidence.evidence import Evidence
from meter.evidence.presence import Presence
from meter.rating.gaps import GapClass, classify

_DEVICE = ["gpu_uuid", "mig_uuid"]


@dataclass(frozen=True, slots=True)
class Stretch:
    """The whole seconds [start_s, end_s) of a grant, and the rules by which its gaps are judged."""

    grant: Grant
    rules: GapRules
    start_s: int
    end_s: int

    @property
    def seconds(self) -> int:
        """How many."""
        return self.end_s - self.start_s


@dataclass(slots=True)
class Sums:
    """Seconds and bytes of a stretch, in whole numbers; used and overuse are byte-seconds."""

    measured: int = 0
    bridged: int = 0
    on_record: int = 0
    free: int = 0
    covered: int = 0
    used: int = 0
    overuse: int = 0

    def add(self, other: "Sums") -> None:
        """Add another stretch's sums to these."""
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    @classmethod
    def of_gap(cls, gap: GapClass, seconds: int) -> "Sums":
        """Sums of nothing but seconds of one gap class."""
        return cls(**{gap.value: seconds})

    @property
    def billed(self) -> int:
        """Seconds that cost money."""
        return self.measured + self.bridged + self.on_record


def measure(evidence: Evidence, stretches: list[Stretch]) -> list[Sums]:
    """The sums of each stretch, in the same order.

    What a tenant used of a whole card or MIG instance is what the device used; of a share, or of an instance that
    the record does not name, what the node proved to be of its owners, all of them together. Grants that name one owner
    divide it (domain/owners.py), so the stretches must be of every grant on the device. A grant without a device is on
    record for all its seconds.
    """
    found = [Sums(on_record=each.seconds if each.grant.is_record_only else 0) for each in stretches]
    rules = {each: number for number, each in enumerate(dict.fromkeys(s.rules for s in stretches))}
    grants = {
        each: number
        for number, each in enumerate(dict.fromkeys(s.grant for s in stretches if not s.grant.is_record_only))
    }
    frame = _frame(stretches, rules, grants)
    if frame.is_empty():
        return found
    presence = _presence_of(evidence, frame)
    gaps = pl.concat(
        [classify(presence, each).with_columns(rules=pl.lit(number, pl.Int64)) for each, number in rules.items()]
    )
    by_gap = _overlaps(frame, gaps, [*_DEVICE, "rules"]).group_by("stretch", "gap").agg(pl.col("overlap").sum())
    for row in by_gap.iter_rows(named=True):
        found[row["stretch"]].add(Sums.of_gap(GapClass(row["gap"]), row["overlap"]))
    for number, sums in _use(evidence, frame, _claims(grants)).items():
        found[number].add(sums)
    return found


def _use(evidence: Evidence, frame: pl.DataFrame, claims: pl.DataFrame) -> dict[int, Sums]:
    """Covered seconds and bytes used, by stretch. A share is covered where the device's owners were told apart."""
    used = _with_end(evidence.quantity("vram_used"))
    covering = pl.concat(
        [
            used.filter(pl.col("owner") == "").with_columns(is_part=False),
            _with_end(evidence.quantity("attributed")).with_columns(is_part=True),
        ]
    )
    sums: dict[int, Sums] = {}
    covered = _overlaps(frame, covering, [*_DEVICE, "is_part"]).group_by("stretch").agg(pl.col("overlap").sum())
    for row in covered.iter_rows(named=True):
        sums[row["stretch"]] = Sums(covered=row["overlap"])
    overuse = (pl.col("value") - pl.col("vram_bytes")).clip(lower_bound=0)
    # A value may be near 2^51, so that an hour of it is near what 64 bits hold, beyond which polars wraps in silence.
    seconds = pl.col("overlap").cast(pl.Int128)
    by_use = (
        _overlaps(frame, _used_by_grants(claims, used), ["grant"])
        .group_by("stretch")
        .agg((pl.col("value") * seconds).sum().alias("used"), (overuse * seconds).sum().alias("overuse"))
    )
    for row in by_use.iter_rows(named=True):
        sums.setdefault(row["stretch"], Sums()).add(Sums(used=row["used"], overuse=row["overuse"]))
    return sums


def _used_by_grants(claims: pl.DataFrame, used: pl.DataFrame) -> pl.DataFrame:
    """Runs of what each grant used, its owners together: columns grant, start_s, end_s, value; none is of 0."""
    # The parts of one owner sum to its value, since each begins where the one before ends. The products need 128 bits,
    # as the columns of a claim have.
    value, whole = pl.col("value"), pl.col("whole")
    part = value * pl.col("upto") // whole - value * pl.col("before") // whole
    parts = _overlaps(claims, used, [*_DEVICE, "owner"]).select(
        "grant",
        first_s=pl.max_horizontal("from_s", "start_s"),
        last_s=pl.min_horizontal("to_s", "end_s"),
        part=part.cast(pl.Int64),
    )
    steps = pl.concat(
        [
            parts.select("grant", start_s="first_s", step="part"),
            parts.select("grant", start_s="last_s", step=-pl.col("part")),
        ]
    )
    # The steps of each grant sum to 0, so the sum over them all begins anew with every grant. Between steps of the same
    # second nothing lies: such a run has no seconds.
    ordered = steps.sort("grant", "start_s")
    return ordered.select("grant", "start_s", end_s=pl.col("start_s").shift(-1), value=pl.col("step").cum_sum()).filter(
        pl.col("value") > 0
    )


def _with_end(runs: pl.DataFrame) -> pl.DataFrame:
    return runs.with_columns(end_s=pl.col("start_s") + pl.col("seconds"))


def _claims(grants: Mapping[Grant, int]) -> pl.DataFrame:
    """Whose use is a grant's, and which part of it, as `OwnerPart` says; of a whole device all of what the device used.

    Columns grant, gpu_uuid, mig_uuid, owner, from_s, to_s, before, upto, whole.
    """
    rows: list[tuple[object, ...]] = []
    sharing: dict[tuple[str, str, str], list[Grant]] = defaultdict(list)
    for grant in sorted(grants, key=lambda each: (each.allocation, each.ordinal)):
        device = (grant.gpu_uuid or "", grant.mig_uuid or "")
        if _is_part(grant):
            for owner in owners_of(grant):
                sharing[(*device, owner)].append(grant)
        else:
            rows += [(grants[grant], *device, "", *part) for _, *part in divide_owner([grant])]
    for owner_on_device, several in sharing.items():
        rows += [(grants[grant], *owner_on_device, *part) for grant, *part in divide_owner(several)]
    schema = {
        "grant": pl.Int64,
        "gpu_uuid": pl.String,
        "mig_uuid": pl.String,
        "owner": pl.String,
        "from_s": pl.Int64,
        "to_s": pl.Int64,
        "before": pl.Int128,
        "upto": pl.Int128,
        "whole": pl.Int128,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _frame(stretches: list[Stretch], rules: Mapping[GapRules, int], grants: Mapping[Grant, int]) -> pl.DataFrame:
    rows = [
        (
            number,
            grants[stretch.grant],
            stretch.grant.gpu_uuid,
            stretch.grant.mig_uuid or "",
            _is_part(stretch.grant),
            rules[stretch.rules],
            stretch.grant.vram_bytes,
            stretch.start_s,
            stretch.end_s,
        )
        for number, stretch in enumerate(stretches)
        if not stretch.grant.is_record_only
    ]
    schema = {
        "stretch": pl.Int64,
        "grant": pl.Int64,
        "gpu_uuid": pl.String,
        "mig_uuid": pl.String,
        "is_part": pl.Boolean,
        "rules": pl.Int64,
        "vram_bytes": pl.Int64,
        "from_s": pl.Int64,
        "to_s": pl.Int64,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def _is_part(grant: Grant) -> bool:
    """Whether the grant is less than the device it is joined with, so that the device's use is not all its own."""
    return grant.kind is GrantKind.SHARE or (grant.kind is GrantKind.MIG and grant.mig_uuid is None)


def _presence_of(evidence: Evidence, frame: pl.DataFrame) -> pl.DataFrame:
    """Presence of every device of the stretches; one that evidence does not know shares what is known of the node."""
    presence = evidence.presence()
    unknown = frame.select(_DEVICE).unique().join(presence, on=_DEVICE, how="anti")
    of_node = presence.filter(pl.col("gpu_uuid") == "").drop(_DEVICE)
    absent = unknown.join(of_node, how="cross").with_columns(
        value=pl.when(pl.col("value") == Presence.SAMPLED).then(Presence.ABSENT).otherwise("value").cast(pl.Int64)
    )
    return pl.concat([presence, absent.select(presence.columns)])


def _overlaps(stretches: pl.DataFrame, runs: pl.DataFrame, on: list[str]) -> pl.DataFrame:
    """Every meeting of a stretch with a run of the same device, with the seconds they share."""
    shared = pl.min_horizontal("to_s", "end_s") - pl.max_horizontal("from_s", "start_s")
    return stretches.join(runs, on=on).with_columns(overlap=shared).filter(pl.col("overlap") > 0)
