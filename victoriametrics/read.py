"""Reads samples back out of VictoriaMetrics: raw as a frame, or what a query makes of them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import httpx
import polars as pl

from domain.errors import InputError, UnavailableError
from victoriametrics.connection import Connection
from victoriametrics.encode import MILLISECONDS
from victoriametrics.selectors import NAME_COLUMN, Selector
from victoriametrics.store_address import StoreAddress

# By default the server moves a query back by -search.latencyOffset, even one with an explicit time, and answers
# it from a cache that does not know of late samples.
_AS_ASKED = {"nocache": "1", "latency_offset": "1ms"}


@dataclass(frozen=True, slots=True)
class Export:
    """Raw samples of an interval, and what was met but is not among them.

    `frame` has the columns `series`, the selector's label columns (String, "" where absent), `second_s` (Int64)
    and `value` (Float64), sorted by all but the last; (series, labels, second_s) is unique. gputab writes on
    whole seconds only, so a stamp between two is a stranger's: counted in `off_second`, not bent to a second it
    was not written for. `not_finite` are infinite and stale marks. `unusable` are both, as `frame` but each without its
    value (null), at the second in which it is, in no order. `duplicates` had another sample on their second, which was
    as large or larger: the rule the server merges by.
    """

    frame: pl.DataFrame
    unusable: pl.DataFrame
    off_second: int
    not_finite: int
    duplicates: int

    @property
    def samples(self) -> int:
        """How many samples the server sent: what `Reader.count` counts."""
        return self.frame.height + self.off_second + self.not_finite + self.duplicates


@dataclass(frozen=True, slots=True)
class QueryResult:
    """One line of a query's answer: floats at whole seconds, as many as `seconds`; the name is a label."""

    labels: dict[str, str]
    seconds: list[int]
    values: list[float]


class Reader:
    """Questions to one server over one keep-alive client.

    Methods raise UnavailableError where there is no whole answer, InputError where the server refuses the
    question. Samples pushed a moment ago may not be seen yet: `Pusher.flush` makes them. A second may be below 0:
    nothing lies before 1970, and what is asked from there on is answered from second 0 on.
    """

    def __init__(self, address: StoreAddress | str, client: httpx.Client | None = None) -> None:
        """A `client` that is given is not closed here, and trusts whom it trusts."""
        self._connection = Connection(address, client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def limit_answers(self, seconds: float) -> None:
        """From now on wait at most that long for each step of an answer."""
        self._connection.limit_answers(seconds)

    def export(self, selector: Selector, start_s: int, end_s: int) -> Export:
        """Every raw sample of [start_s, end_s). Takes about 150 bytes of memory a sample: ask hour by hour."""
        start_s = _from_1970_on(start_s, end_s)
        if start_s >= end_s:
            return _export_of([], selector)
        form = {"match[]": selector.expression, "start": str(start_s), "end": _last_instant(end_s)}
        with self._connection.stream_lines("/api/v1/export", "read samples", form) as lines:
            return _export_of(lines, selector)

    def count(self, selector: Selector, start_s: int, end_s: int) -> int:
        """How many samples of [start_s, end_s) the server has, by its own count, duplicates merged."""
        start_s = _from_1970_on(start_s, end_s)
        if start_s >= end_s:
            return 0
        # A window is open on the left, so one that ends a millisecond early is half-open our way.
        query = f"sum(count_over_time({selector.expression}[{end_s - start_s}s]))"
        data = self._query("/api/v1/query", {"query": query, "time": _last_instant(end_s)})
        return int(float(data["result"][0]["value"][1])) if data["result"] else 0

    def instant(self, query: str, at_s: int) -> list[QueryResult]:
        """The answer to a MetricsQL query at a second. A plain selector looks back for its latest sample."""
        if at_s < 0:
            return []
        data = self._query("/api/v1/query", {"query": query, "time": str(at_s)})
        return [_result(line["metric"], [line["value"]]) for line in data["result"]]

    def range(self, query: str, start_s: int, end_s: int, step_s: int) -> list[QueryResult]:
        """The answer to a MetricsQL query at start_s, start_s + step_s, ... below end_s."""
        start_s = _from_1970_on(start_s, end_s, step_s)
        if start_s >= end_s:
            return []
        times = {"start": str(start_s), "end": _last_instant(end_s), "step": f"{step_s}s"}
        data = self._query("/api/v1/query_range", {"query": query, **times})
        return [_result(line["metric"], line["values"]) for line in data["result"]]

    def _query(self, path: str, form: dict[str, str]) -> dict[str, Any]:
        response = self._connection.post(path, "query samples", {**form, **_AS_ASKED})
        try:
            data: dict[str, Any] = response.json()["data"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UnavailableError(
                f"cannot query samples: {self._connection.url!r} answers {response.text[:200]!r}; let "
                "'victoriametrics_url' point at VictoriaMetrics"
            ) from error
        return data


def _from_1970_on(start_s: int, end_s: int, step_s: int = 1) -> int:
    """The first of start_s, start_s + step_s, ... that is not below 0: the server takes "-30" for 30 s before now."""
    if end_s < start_s:
        raise InputError(f"cannot read from second {start_s} to second {end_s}: swap the two")
    return max(start_s, start_s % step_s)


def _last_instant(end_s: int) -> str:
    """The last millisecond before `end_s`, which is above 0: the server's own ends are closed, and it cuts a whole
    second short."""
    return f"{end_s - 1}.999"


def _result(labels: dict[str, str], points: list[tuple[float, str]]) -> QueryResult:
    return QueryResult(labels, [int(second) for second, _ in points], [float(value) for _, value in points])


def _export_of(lines: Iterable[bytes], selector: Selector) -> Export:
    series: list[tuple[str, ...]] = []
    # One column a line, concatenated once: a list of every sample would be ten times as large.
    stamps, values = [pl.Series(dtype=pl.Int64)], [pl.Series(dtype=pl.Float64)]
    for line in lines:
        try:
            block = json.loads(line)
            metric = block["metric"]
            series.append((metric["__name__"], *(metric.get(label, "") for label in selector.label_columns)))
            stamps.append(pl.Series(block["timestamps"], dtype=pl.Int64))
            # Not strict: an infinite value comes as text, a stale mark as null.
            values.append(pl.Series(block["values"], dtype=pl.Float64, strict=False))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise UnavailableError(
                f"cannot read samples: VictoriaMetrics sends '{line[:200].decode(errors='replace')}'; try again"
            ) from error
    columns = dict.fromkeys((NAME_COLUMN, *selector.label_columns), pl.String())
    keys = pl.DataFrame(sorted(set(series)), schema=columns, orient="row")
    number_of = {key: number for number, key in enumerate(keys.iter_rows())}
    samples = pl.DataFrame(
        {
            "key": _repeated([number_of[key] for key in series], [column.len() for column in stamps[1:]]),
            "stamp_ms": pl.concat(stamps),
            "value": pl.concat(values),
        }
    )
    return _sifted(samples, keys)


def _repeated(numbers: list[int], times: list[int]) -> pl.Series:
    table = pl.DataFrame({"number": numbers, "times": times}, schema={"number": pl.UInt32, "times": pl.UInt32})
    return table.filter(pl.col("times") > 0).select(pl.col("number").repeat_by("times").explode())["number"]


def _sifted(samples: pl.DataFrame, keys: pl.DataFrame) -> Export:
    """The samples that count, and how many do not. `key` numbers the rows of `keys`."""
    is_finite = pl.col("value").is_finite().fill_null(value=False)
    is_on_second = pl.col("stamp_ms") % MILLISECONDS == 0
    finite = samples.filter(is_finite)
    on_second = finite.filter(is_on_second).sort("key", "stamp_ms", "value")
    unusable = samples.filter(~(is_finite & is_on_second)).with_columns(value=pl.lit(None, pl.Float64))
    follows_equal = (pl.col("key") == pl.col("key").shift(-1)) & (pl.col("stamp_ms") == pl.col("stamp_ms").shift(-1))
    kept = on_second.filter(~follows_equal.fill_null(value=False))
    return Export(
        _named(kept, keys),
        _named(unusable, keys),
        off_second=finite.height - on_second.height,
        not_finite=samples.height - finite.height,
        duplicates=on_second.height - kept.height,
    )


def _named(samples: pl.DataFrame, keys: pl.DataFrame) -> pl.DataFrame:
    return keys.select(pl.all().gather(samples["key"])).with_columns(
        second_s=samples["stamp_ms"] // MILLISECONDS, value=samples["value"]
    )
