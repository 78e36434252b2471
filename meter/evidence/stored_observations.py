"""Observations out of VictoriaMetrics."""

import polars as pl

from domain.clock import MICROSECONDS, Clock
from domain.errors import UnavailableError
from domain.series import (
    COLLECTOR_CLOCK_SKEW,
    COLLECTOR_COMPLETE_UNTIL,
    COLLECTOR_LATENESS,
    GPU_BUSY,
    GPU_MEMORY_USED,
    GPU_UP,
    OWNER_COMPUTE,
    OWNER_MEMORY,
)
from meter.evidence.observations import SAMPLE_COLUMNS
from victoriametrics.launcher import check_flags
from victoriametrics.push import VISIBLE_S
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector
from victoriametrics.store_address import StoreAddress

# What evidence is made of. The lateness of a tick says that the collector looked, even where no card answered.
_SERIES = (GPU_UP, GPU_BUSY, GPU_MEMORY_USED, OWNER_MEMORY, OWNER_COMPUTE, COLLECTOR_LATENESS)


class StoredObservations:
    """`Observations` of a VictoriaMetrics server."""

    def __init__(self, address: StoreAddress | str, reader: Reader, *, lookback_s: int, clock: Clock) -> None:
        """`lookback_s` before now is how far back a completeness mark is looked for.

        The server at `address`, which `reader` asks, is checked before the first question: one that is too old, or
        merges samples over more than a second, would make wrong bills. Raises UnavailableError then.
        """
        self._address = address
        self._is_checked = False
        self._reader = reader
        self._lookback_s = lookback_s
        self._clock = clock

    def samples(self, node: str, start_s: int, end_s: int) -> pl.DataFrame:
        """Every sample of the node's cards at seconds in [start_s, end_s).

        What is no number, or is stamped between two seconds, which no collector writes, is among them with no value: it
        is left out of evidence and counted (meter/evidence/quarantine.py). Reconciled with the server's own count:
        raises UnavailableError where it sent less than it has.
        """
        self._check()
        selector = Selector(_SERIES, {"node": node})
        # Before the samples are read: what comes meanwhile makes them more, never less.
        counted = self._reader.count(selector, start_s, end_s)
        export = self._reader.export(selector, start_s, end_s)
        if export.samples < counted:
            raise UnavailableError(
                f"cannot read the samples of {node!r} whole: VictoriaMetrics counts {counted} and sent "
                f"{export.samples}; see its log, then run again"
            )
        return pl.concat([export.frame, export.unusable]).select(list(SAMPLE_COLUMNS))

    def complete_until_s(self, node: str) -> int | None:
        """The latest mark of the node that was pushed at least `VISIBLE_S` ago, within the lookback.

        So that what it vouches for can be seen: the store shows samples late, and not in the order they came.
        """
        self._check()
        mark = Selector((COLLECTOR_COMPLETE_UNTIL,), {"node": node}).expression
        now_s = self._clock.now_us() // MICROSECONDS
        found = self._reader.instant(f"max(max_over_time({mark}[{self._lookback_s}s]))", now_s - VISIBLE_S)
        return int(found[0].values[-1]) if found else None

    def clock_skew_s(self, node: str, start_s: int, end_s: int) -> float | None:
        """The largest skew that the node's collector measured in [start_s, end_s), without its sign."""
        self._check()
        skew = Selector((COLLECTOR_CLOCK_SKEW,), {"node": node}).expression
        over = f"({skew}[{end_s - start_s}s])"
        ends = [f"max(max_over_time{over})", f"-min(min_over_time{over})"]
        # What is looked back over ends with the instant and does not hold its own beginning.
        found = [each.values[-1] for query in ends for each in self._reader.instant(query, end_s - 1)]
        return max(found, default=None)

    def _check(self) -> None:
        if not self._is_checked:
            check_flags(self._address)
            self._is_checked = True
