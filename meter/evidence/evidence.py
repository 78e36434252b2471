"""What was observed of one node over one window, as runs; rating reads nothing else.

A run says that a quantity had one value for `seconds` seconds from `start_s` on. Columns, all of them set:

gpu_uuid   the card; '' is the node itself
mig_uuid   the MIG instance; '' is the card
owner      who used it, as the collector proved; '' is the whole of the device
quantity   presence (a `Presence`), vram_used (bytes), busy (millionths of the second; what a charge is explained by,
           not what it is made of), attributed (1: the collector told the device's owners apart, so that an owner it
           did not name used nothing), quarantined (how many readings of the second no card can have made: they are
           left out, and this says that there was garbage and not nothing)
start_s    first second, UTC
seconds    how many
value      whole number

Presence covers every second, and reaches `CONTEXT_S` seconds beyond the window on both sides, so that a hole
across the seam of two windows is seen whole from either. The other quantities lie inside the window and have
runs only where there was a reading.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import polars as pl

from domain.period import Period, ceil_second
from domain.samples import UNATTRIBUTED
from domain.series import GPU_BUSY, GPU_MEMORY_USED, GPU_UP, OWNER_COMPUTE, OWNER_MEMORY
from meter.evidence.folding import apart, expand, fold, without
from meter.evidence.presence import Device, Presence, Timeline, presence
from meter.evidence.quarantine import sift

CONTEXT_S = 30
MILLION = 1_000_000

RUN_COLUMNS = {
    "gpu_uuid": pl.String,
    "mig_uuid": pl.String,
    "owner": pl.String,
    "quantity": pl.String,
    "start_s": pl.Int64,
    "seconds": pl.Int64,
    "value": pl.Int64,
}
_NO_SIZES: Mapping[str, int] = MappingProxyType({})
_DEVICE = ("gpu_uuid", "mig_uuid")
_KEY = (*_DEVICE, "owner", "quantity")
_SERIES = ("series", *_DEVICE, "owner")
_RUN = {**dict.fromkeys(_KEY, pl.String), "start_s": pl.Int64, "end_s": pl.Int64, "value": pl.Int64}
# (device, quantity, start_s, end_s, value)
_DeviceRun = tuple[Device, str, int, int, int]

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

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the runs as CSV, so that it does not depend on how a file was written."""
        text = self.runs.write_csv(None)
        return hashlib.sha256(text.encode()).hexdigest()

    def lacks(self, other: "Evidence") -> bool:
        """Whether the other knows more seconds of some device, owner and quantity inside the window than this."""
        return bool(_beyond(other, self).select((pl.col("more") > 0).any()).item())

    def late_seconds(self, frozen: "Evidence") -> int:
        """Device-seconds of which this has readings and the frozen evidence of the same window has not."""
        read = _beyond(self, frozen).filter(pl.col("quantity") != "looked")
        return int(read.group_by(_DEVICE).agg(pl.col("more").max()).select(pl.col("more").sum()).item())

    def known_seconds(self) -> pl.DataFrame:
        """Seconds by device, owner and quantity; of presence those with a valid sample, and as `looked` those in which
        the collector looked for the device, whatever it found."""
        is_presence = pl.col("quantity") == "presence"
        is_known = pl.col("quantity") != "quarantined"
        sampled = self.runs.filter(is_known, ~is_presence | (pl.col("value") == Presence.SAMPLED))
        looked = self.runs.filter(
            is_presence, pl.col("value").is_in([Presence.SAMPLED, Presence.LOST, Presence.ABSENT])
        ).with_columns(quantity=pl.lit("looked"))
        return _inside(pl.concat([sampled, looked]), self.period).group_by(_KEY).agg(pl.col("seconds").sum())

    def presence(self) -> pl.DataFrame:
        """Runs of presence of every device, context included."""
        return self.runs.filter(pl.col("quantity") == "presence")

    def quantity(self, name: str) -> pl.DataFrame:
        """Runs of `vram_used`, `busy`, `attributed` or `quarantined`."""
        return self.runs.filter(pl.col("quantity") == name)

    @property
    def quarantined_samples(self) -> int:
        """How many readings inside the window no card can have made."""
        return int(self.quantity("quarantined").select((pl.col("value") * pl.col("seconds")).sum()).item())


def make_evidence(
    node: str,
    period: Period,
    samples: pl.DataFrame,
    contacts: Iterable[Period],
    devices: Iterable[tuple[str, str]],
    vram_total_bytes: Mapping[str, int] = _NO_SIZES,
) -> Evidence:
    """Evidence of a window from what the store holds.

    `samples` has columns series, gpu_uuid, mig_uuid, owner, second_s, value and covers the context too; `contacts`
    are the stretches from first to last heartbeat; `devices` are (gpu_uuid, mig_uuid or '') known from the
    inventory, sampled or not, and `vram_total_bytes` is by card, as far as it is known. Readings of a second in which
    their card or instance was lost are not valid and are left out, and so is what no card can measure
    (meter/evidence/quarantine.py). Of several readings of one second the largest counts, as in the store.
    """
    from_s, to_s = period.first_second - CONTEXT_S, ceil_second(period.end_us) + CONTEXT_S
    # From here on nothing is as long as the samples are.
    seen, refused = sift(_folded(samples), vram_total_bytes)
    sampled = _sampled(seen, devices)
    lost = _lost(seen, sampled)
    values = _values(seen, lost, period)
    known = presence(from_s, to_s, sampled, lost, contacts)
    of_devices = [
        *_attributed(values, period),
        *((device, "presence", *run) for device, line in known for run in line.runs()),
        *_quarantined(refused, period),
    ]
    runs = pl.concat([values, _device_runs(of_devices)])
    whole = fold(apart(runs, _KEY), (*_KEY, "value"))
    return Evidence(
        node, period, whole.with_columns(seconds=pl.col("end_s") - pl.col("start_s")).select(list(RUN_COLUMNS))
    )


def _folded(samples: pl.DataFrame) -> pl.DataFrame:
    """Runs of the samples as they come: columns series, gpu_uuid, mig_uuid, owner, value, start_s, end_s."""
    seconds = samples.select(*_SERIES, "value", start_s="second_s", end_s=pl.col("second_s") + 1)
    return fold(seconds, (*_SERIES, "value"))


def _sampled(seen: pl.DataFrame, devices: Iterable[tuple[str, str]]) -> dict[Device, list[tuple[int, int]]]:
    """When there was a sample, by device: those of the inventory, and others that were seen; ('', '') is the node."""
    found: dict[Device, list[tuple[int, int]]] = {device: [] for device in devices}
    # A tick says the same of the node as a sample of some card.
    stretches = fold(seen.select(*_DEVICE, "start_s", "end_s"), _DEVICE)
    for gpu_uuid, mig_uuid, start_s, end_s in stretches.iter_rows():
        found.setdefault((gpu_uuid, mig_uuid if gpu_uuid else ""), []).append((start_s, end_s))
    return found


def _lost(seen: pl.DataFrame, known: Iterable[Device]) -> dict[Device, list[tuple[int, int]]]:
    """When a device was said to be lost; a card takes its instances with it."""
    said = seen.filter(pl.col("series") == GPU_UP.name, pl.col("value") == 0, pl.col("gpu_uuid") != "")
    lost: dict[Device, list[tuple[int, int]]] = {}
    for gpu_uuid, mig_uuid, start_s, end_s in said.select(*_DEVICE, "start_s", "end_s").iter_rows():
        taken = [device for device in known if device[0] == gpu_uuid] if mig_uuid == "" else [(gpu_uuid, mig_uuid)]
        for device in taken:
            lost.setdefault(device, []).append((start_s, end_s))
    return lost


def _values(seen: pl.DataFrame, lost: Mapping[Device, Iterable[tuple[int, int]]], period: Period) -> pl.DataFrame:
    """Runs of what a quantity was read to be inside the period, while the device was not lost."""
    quantity, scale = (pl.col("series").replace_strict({n: q[i] for n, q in _QUANTITIES.items()}) for i in (0, 1))
    read = seen.filter(pl.col("series").is_in(list(_QUANTITIES)), pl.col("gpu_uuid") != "", *_meets(period))
    values = read.select(
        *_DEVICE,
        "owner",
        quantity.alias("quantity"),
        *_cut(period),
        (pl.col("value") * scale).round().cast(pl.Int64).alias("value"),
    )
    if not lost:
        return values
    gone = [(*device, *stretch) for device, stretches in lost.items() for stretch in stretches]
    schema = {**dict.fromkeys(_DEVICE, pl.String), "start_s": pl.Int64, "end_s": pl.Int64}
    return without(values, pl.DataFrame(gone, schema=schema, orient="row"), _DEVICE)


def _attributed(values: pl.DataFrame, period: Period) -> Iterator[_DeviceRun]:
    """When some owner was told on a device."""
    # A node that proves no owner says "unattributed" of everything, which is not to say that others used nothing.
    told = values.filter(pl.col("quantity") == "vram_used", ~pl.col("owner").is_in(["", UNATTRIBUTED]))
    lines: dict[Device, Timeline] = {}
    for gpu_uuid, mig_uuid, _, start_s, end_s in fold(told, (*_DEVICE, "owner")).iter_rows():
        line = lines.setdefault((gpu_uuid, mig_uuid), Timeline(period.first_second, ceil_second(period.end_us)))
        line.mark([(start_s, end_s)], 1)
    return ((device, "attributed", *run) for device, line in lines.items() for run in line.runs() if run[2])


def _quarantined(refused: pl.DataFrame, period: Period) -> Iterator[_DeviceRun]:
    """How many readings of each device and second were refused."""
    if refused.is_empty():
        return
    seconds = expand(refused.filter(*_meets(period)).with_columns(*_cut(period)))
    # One that came twice is one.
    once = seconds.unique([*_SERIES, "start_s"])
    counts = once.group_by(*_DEVICE, "start_s", "end_s").len().iter_rows()
    for gpu_uuid, mig_uuid, start_s, end_s, count in counts:
        yield (gpu_uuid, mig_uuid), "quarantined", start_s, end_s, count


def _device_runs(runs: Iterable[_DeviceRun]) -> pl.DataFrame:
    """Runs of what is said of whole devices, columns as those of `_values`."""
    rows = [(*device, "", *rest) for device, *rest in runs]
    columns = zip(*rows, strict=True) if rows else [()] * len(_RUN)
    return pl.DataFrame(dict(zip(_RUN, columns, strict=True)), schema=_RUN)


def _meets(period: Period) -> tuple[pl.Expr, ...]:
    """Whether a run has a second of the period, which may have none."""
    start_s, end_s = period.first_second, ceil_second(period.end_us)
    return pl.lit(start_s < end_s), pl.col("start_s") < end_s, pl.col("end_s") > start_s


def _cut(period: Period) -> tuple[pl.Expr, pl.Expr]:
    """What of such a run lies inside it."""
    start_s, end_s = period.first_second, ceil_second(period.end_us)
    return pl.col("start_s").clip(lower_bound=start_s), pl.col("end_s").clip(upper_bound=end_s)


def _inside(runs: pl.DataFrame, period: Period) -> pl.DataFrame:
    """Device runs cut to the window; the node's own rows are left out."""
    start_s, end_s = period.first_second, ceil_second(period.end_us)
    cut_end = pl.min_horizontal(pl.col("start_s") + pl.col("seconds"), pl.lit(end_s))
    cut_start = pl.max_horizontal("start_s", pl.lit(start_s))
    return runs.filter(pl.col("gpu_uuid") != "").with_columns(
        seconds=(cut_end - cut_start).clip(lower_bound=0), start_s=cut_start
    )


def _beyond(known: Evidence, other: Evidence) -> pl.DataFrame:
    """By how many seconds the one knows `more` than the other, of each device, owner and quantity."""
    both = known.known_seconds().join(other.known_seconds(), on=list(_KEY), how="left", suffix="_there")
    more = (pl.col("seconds") - pl.col("seconds_there").fill_null(0)).clip(lower_bound=0)
    return both.with_columns(more=more)
