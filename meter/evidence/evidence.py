"""What was observed of one node over one window, as runs; rating reads nothing else.

A run says that a quantity had one value for `seconds` seconds from `start_s` on. Columns, all of them set:

gpu_uuid   the card; '' is the node itself
mig_uuid   the MIG instance; '' is the card
owner      who used it, as the collector proved; '' is the whole of the device
quantity   presence (a `Presence`), vram_used (bytes), busy (millionths of the second; what a charge is explained by,
           not what it is made of), attributed (1: the collector told the device's owners apart, so that an owner it
           did not name used nothing)
start_s    first second, UTC
seconds    how many
value      whole number

Presence covers every second, and reaches `CONTEXT_S` seconds beyond the window on both sides, so that a hole
across the seam of two windows is seen whole from either. The other quantities lie inside the window and have
runs only where there was a reading.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from domain.period import Period, ceil_second
from domain.samples import UNATTRIBUTED
from domain.series import GPU_BUSY, GPU_MEMORY_USED, OWNER_COMPUTE, OWNER_MEMORY
from meter.evidence.presence import Presence, device_presence, lost_seconds, node_presence

CONTEXT_S = 30
MILLION = 1_000_000
# No reading of a card is as large: 256 times the VRAM of any, and an hour of it still sums within 64 bits.
_VALUE_BOUND = 2**50
# The most that a ratio can be: sums of ratios are floats, and a real excess is larger.
_RATIO_BOUND = 1 + 1e-6
_RATIOS = (GPU_BUSY.name, OWNER_COMPUTE.name)

RUN_COLUMNS = {
    "gpu_uuid": pl.String,
    "mig_uuid": pl.String,
    "owner": pl.String,
    "quantity": pl.String,
    "start_s": pl.Int64,
    "seconds": pl.Int64,
    "value": pl.Int64,
}
_DEVICE = ("gpu_uuid", "mig_uuid")
_KEY = (*_DEVICE, "owner", "quantity")

# Series -> (quantity, how its value becomes a whole number).
_QUANTITIES = {
    GPU_MEMORY_USED.name: ("vram_used", 1),
    OWNER_MEMORY.name: ("vram_used", 1),
    GPU_BUSY.name: ("busy", MILLION),
    OWNER_COMPUTE.name: ("busy", MILLION),
}


@dataclass(frozen=True)
class Evidence:
    """The runs of one node over `period`, in canonical order."""

    node: str
    period: Period
    runs: pl.DataFrame

    @property
    def digest(self) -> str:
        """SHA-256 over the runs as CSV, so that it does not depend on how a file was written."""
        text = self.runs.write_csv(None)
        return hashlib.sha256(text.encode()).hexdigest()

    def lacks(self, other: "Evidence") -> bool:
        """Whether the other knows more seconds of some device, owner and quantity inside the window than this."""
        both = other.known_seconds().join(self.known_seconds(), on=list(_KEY), how="left", suffix="_here")
        return not both.filter(pl.col("seconds") > pl.col("seconds_here").fill_null(0)).is_empty()

    def known_seconds(self) -> pl.DataFrame:
        """Seconds by device, owner and quantity; of presence those with a valid sample, and as `looked` those in which
        the collector looked for the device, whatever it found."""
        is_presence = pl.col("quantity") == "presence"
        sampled = self.runs.filter(~is_presence | (pl.col("value") == Presence.SAMPLED))
        looked = self.runs.filter(
            is_presence, pl.col("value").is_in([Presence.SAMPLED, Presence.LOST, Presence.ABSENT])
        ).with_columns(quantity=pl.lit("looked"))
        return _inside(pl.concat([sampled, looked]), self.period).group_by(_KEY).agg(pl.col("seconds").sum())

    def presence(self) -> pl.DataFrame:
        """Runs of presence of every device, context included."""
        return self.runs.filter(pl.col("quantity") == "presence")

    def quantity(self, name: str) -> pl.DataFrame:
        """Runs of `vram_used`, `busy` or `attributed`."""
        return self.runs.filter(pl.col("quantity") == name)


def make_evidence(
    node: str, period: Period, samples: pl.DataFrame, contacts: Iterable[Period], devices: Iterable[tuple[str, str]]
) -> Evidence:
    """Evidence of a window from what the store holds.

    `samples` has columns series, gpu_uuid, mig_uuid, owner, second_s, value and covers the context too; `contacts`
    are the stretches from first to last heartbeat; `devices` are (gpu_uuid, mig_uuid or '') known from the
    inventory, sampled or not. Readings of a second in which their card or instance was lost are not valid and are
    left out, and so is what no card can measure: a negative number, a ratio above 1, one of 2^50 or more, none at all.
    Of several readings of one second the largest counts, as in the store.
    """
    start_s, end_s = period.first_second, ceil_second(period.end_us)
    # In polars a NaN is above every number.
    samples = samples.filter(
        pl.col("value").is_between(0, _VALUE_BOUND, closed="left"),
        ~pl.col("series").is_in(_RATIOS) | (pl.col("value") <= _RATIO_BOUND),
    )
    known = pl.DataFrame(sorted(devices), schema=dict.fromkeys(_DEVICE, pl.String), orient="row")
    of_cards = samples.filter(pl.col("gpu_uuid") != "")
    every_device = pl.concat([known, of_cards.select(_DEVICE)]).unique()
    lost = lost_seconds(of_cards, every_device)
    valid = of_cards.join(lost, on=[*_DEVICE, "second_s"], how="anti")
    values = (
        valid.filter(
            pl.col("series").is_in(list(_QUANTITIES)), pl.col("second_s").is_between(start_s, end_s, closed="left")
        )
        .select(
            *_DEVICE,
            "owner",
            pl.col("series").replace_strict({name: q for name, (q, _) in _QUANTITIES.items()}).alias("quantity"),
            pl.col("second_s"),
            (
                pl.col("value")
                * pl.col("series").replace_strict({name: scale for name, (_, scale) in _QUANTITIES.items()})
            )
            .round()
            .cast(pl.Int64)
            .alias("value"),
        )
        .group_by(*_KEY, "second_s")
        .agg(pl.col("value").max())
    )
    # A node that proves no owner says "unattributed" of everything, which is not to say that others used nothing.
    proved = values.filter(~pl.col("owner").is_in(["", UNATTRIBUTED]) & (pl.col("quantity") == "vram_used"))
    attributed = proved.select(
        *_DEVICE, owner=pl.lit(""), quantity=pl.lit("attributed"), second_s="second_s", value=pl.lit(1, pl.Int64)
    )
    of_node = node_presence(start_s - CONTEXT_S, end_s + CONTEXT_S, samples, contacts)
    presence = device_presence(of_node, every_device, valid, lost)
    runs = pl.concat([_runs(values), _runs(attributed.unique()), _runs(presence)]).sort([*_KEY, "start_s"])
    return Evidence(node, period, runs)


def _runs(dense: pl.DataFrame) -> pl.DataFrame:
    """Rows per second folded into runs of equal value."""
    ordered = dense.sort([*_KEY, "second_s"])
    same = pl.all_horizontal(
        *(pl.col(column) == pl.col(column).shift() for column in (*_KEY, "value")),
        pl.col("second_s") == pl.col("second_s").shift() + 1,
    ).fill_null(value=False)
    return (
        ordered.with_columns((~same).cum_sum().alias("run"))
        .group_by("run", maintain_order=True)
        .agg(
            *(pl.col(column).first() for column in _KEY),
            pl.col("second_s").first().alias("start_s"),
            pl.len().cast(pl.Int64).alias("seconds"),
            pl.col("value").first(),
        )
        .select(list(RUN_COLUMNS))
        .cast(RUN_COLUMNS)  # type: ignore[arg-type] # the stub wants keys of a wider type than names
    )


def _inside(runs: pl.DataFrame, period: Period) -> pl.DataFrame:
    """Device runs cut to the window; the node's own rows are left out."""
    start_s, end_s = period.first_second, ceil_second(period.end_us)
    cut_end = pl.min_horizontal(pl.col("start_s") + pl.col("seconds"), pl.lit(end_s))
    cut_start = pl.max_horizontal("start_s", pl.lit(start_s))
    return runs.filter(pl.col("gpu_uuid") != "").with_columns(
        seconds=(cut_end - cut_start).clip(lower_bound=0), start_s=cut_start
    )
