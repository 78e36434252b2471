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
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import polars as pl

from domain.period import Period, ceil_second
from domain.samples import UNATTRIBUTED
from domain.series import GPU_BUSY, GPU_MEMORY_USED, GPU_UP, OWNER_COMPUTE, OWNER_MEMORY
from meter.evidence.folding import apart, differing, stretches_of, without
from meter.evidence.presence import Device, Presence, Stretches, Timeline, presence
from meter.evidence.quarantine import sift
from meter.evidence.series_runs import SeriesName, SeriesRuns, fold_series

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
Run = tuple[int, int, int]
"""(start_s, end_s, value), half-open."""
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

    def line(self, device: Device, quantity: str, owner: str = "") -> list[Run]:
        """The runs of one quantity of one device and owner, in order."""
        runs = self.runs.slice(*self._places.get((*device, owner, quantity), (0, 0)))
        spans = zip(*(runs[column].to_list() for column in ("start_s", "seconds", "value")), strict=True)
        return [(start_s, start_s + seconds, value) for start_s, seconds, value in spans]

    @cached_property
    def _places(self) -> dict[tuple[str, ...], tuple[int, int]]:
        """The first row and the number of rows of each device, owner and quantity."""
        columns = [self.runs[column] for column in _KEY]
        first, last = stretches_of(differing(*columns), self.runs.height)
        keys = zip(*(column[first] for column in columns), strict=True)
        return {key: (row, end - row) for key, row, end in zip(keys, first, last + 1, strict=True)}

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
    seen, refused = sift(fold_series(samples), vram_total_bytes)
    sampled: dict[Device, list[tuple[int, int]]] = {device: [] for device in devices}
    # A tick says the same of the node as a sample of some card.
    for name, stretches in zip(seen.names, seen.stretches, strict=True):
        if stretches:
            sampled.setdefault(name.device, []).extend(stretches)
    lost = _lost(seen, sampled)
    of_devices = [
        *_attributed(seen, lost, period),
        *(
            (device, "presence", *run)
            for device, line in presence(from_s, to_s, sampled, lost, contacts)
            for run in line.runs()
        ),
        *_quarantined(refused, period),
    ]
    keys = [_key_of(name) for name in seen.names]
    known = sorted({*filter(None, keys), *((*device, "", quantity) for device, quantity, *_ in of_devices)})
    numbers = {key: number for number, key in enumerate(known)}
    runs = [_values(seen, [numbers[key] if key else None for key in keys], period)]
    if lost:
        runs = [without(runs[0], _lost_runs(numbers, lost))]
    rows = [(numbers[*device, "", quantity], *run) for device, quantity, *run in of_devices]
    runs.append(pl.DataFrame(rows, schema=runs[0].schema, orient="row"))
    whole = apart(pl.concat(runs))
    labels = pl.DataFrame(known, schema=dict.fromkeys(_KEY, pl.String), orient="row")[whole["key"]]
    seconds = (whole["end_s"] - whole["start_s"]).alias("seconds")
    return Evidence(node, period, labels.hstack([whole["start_s"], seconds, whole["value"]]))


def _key_of(name: SeriesName) -> tuple[str, str, str, str] | None:
    """Device, owner and quantity that a series has values of; None where it has none."""
    quantity, _ = _QUANTITIES.get(name.series, (None, 0))
    return (name.gpu_uuid, name.mig_uuid, name.owner, quantity) if quantity and name.gpu_uuid else None


def _lost(seen: SeriesRuns, known: Iterable[Device]) -> dict[Device, list[tuple[int, int]]]:
    """When a device was said to be lost; a card takes its instances with it."""
    saying = [number for number, name in enumerate(seen.names) if name.series == GPU_UP.name and name.gpu_uuid]
    lost: dict[Device, list[tuple[int, int]]] = {}
    if not saying:
        return lost
    said = seen.runs.filter(pl.col("value") == 0, pl.col("key").is_in(saying))
    for key, start_s, end_s, _ in said.iter_rows():
        gpu_uuid, mig_uuid = seen.names[key].device
        taken = [device for device in known if device[0] == gpu_uuid] if mig_uuid == "" else [(gpu_uuid, mig_uuid)]
        for device in taken:
            lost.setdefault(device, []).append((start_s, end_s))
    return lost


def _values(seen: SeriesRuns, keys: Sequence[int | None], period: Period) -> pl.DataFrame:
    """Runs of what a quantity was read to be inside the period; `keys` are by series, None where there is none."""
    start_s, end_s = period.first_second, ceil_second(period.end_us)
    scales = [_QUANTITIES.get(name.series, (None, 1))[1] for name in seen.names]
    of_series = seen.runs["key"]
    values = seen.runs.select(
        pl.Series("key", keys, dtype=pl.Int64)[of_series],
        pl.col("start_s").clip(lower_bound=start_s),
        pl.col("end_s").clip(upper_bound=end_s),
        (pl.col("value") * pl.Series(scales, dtype=pl.Int64)[of_series]).round().cast(pl.Int64),
    )
    return values.filter(values["key"].is_not_null() & (values["start_s"] < values["end_s"]))


def _lost_runs(numbers: Mapping[tuple[str, str, str, str], int], lost: Mapping[Device, Stretches]) -> pl.DataFrame:
    """Runs of being lost, of every key of the device."""
    gone = [(number, *stretch) for key, number in numbers.items() for stretch in lost.get(key[:2], ())]
    return pl.DataFrame(gone, schema=dict.fromkeys(("key", "start_s", "end_s"), pl.Int64), orient="row")


def _attributed(
    seen: SeriesRuns, lost: Mapping[Device, Iterable[tuple[int, int]]], period: Period
) -> Iterator[_DeviceRun]:
    """When some owner was told on a device that was not lost."""
    lines: dict[Device, Timeline] = {}
    for name, stretches in zip(seen.names, seen.stretches, strict=True):
        key = _key_of(name)
        # A node that proves no owner says "unattributed" of everything, which is not to say that others used nothing.
        if key and key[3] == "vram_used" and name.owner not in ("", UNATTRIBUTED):
            line = lines.setdefault(name.device, Timeline(period.first_second, ceil_second(period.end_us)))
            line.mark(stretches, 1)
    for device, line in lines.items():
        line.mark(lost.get(device, ()), 0)
    return ((device, "attributed", *run) for device, line in lines.items() for run in line.runs() if run[2])


def _quarantined(refused: SeriesRuns, period: Period) -> Iterator[_DeviceRun]:
    """How many readings of each device and second were refused."""
    from_s, to_s = period.first_second, ceil_second(period.end_us)
    rows = refused.runs.iter_rows()
    # One that came twice is one.
    once = {(key, at_s) for key, start_s, end_s, _ in rows for at_s in range(max(start_s, from_s), min(end_s, to_s))}
    counts = Counter((refused.names[key].gpu_uuid, refused.names[key].mig_uuid, at_s) for key, at_s in once)
    for (gpu_uuid, mig_uuid, at_s), count in counts.items():
        yield (gpu_uuid, mig_uuid), "quarantined", at_s, at_s + 1, count


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
