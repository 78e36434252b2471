"""Sample runs as the JSON lines of `/api/v1/import`.

Format: one object a line, `{"metric": {label: value}, "values": [...], "timestamps": [milliseconds, ...]}`
(VictoriaMetrics, "How to import data in JSON line format"). The server answers 204 to lines it drops and to
values it bends, so what it cannot hold is refused here, before anything is sent.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from domain.errors import InputError
from domain.samples import SampleRun
from domain.series import Series
from victoriametrics.limits import Unusable

MILLISECONDS = 1_000
# The server's own limits: -maxLabelValueLen, -maxLabelsPerTimeseries (the name counts), -import.maxLineLen 10 MiB.
LABEL_VALUE_BYTES = 4_096
LABELS_PER_SERIES = 40
SAMPLES_PER_LINE = 100_000

# Beyond it neighbouring whole numbers share one float.
WHOLE_LIMIT = 2**53
# The drivers' marks for "no value" begin at 2^63-16. One decimal exponent serves a whole block of samples, so a
# single such mark would round its neighbours away.
VALUE_LIMIT = 2**62

_JSON = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False)
# What is known to be good of a series is said in the same words in every second; some thousand series a node.
_HEADS_MAX = 16_384
_heads: dict[tuple[object, ...], str] = {}
_SHOWN_CHARACTERS = 300


def encode(runs: Iterable[SampleRun]) -> bytes:
    """The body of an import: lines that each end in a newline, labels with an empty value left out.

    Whole numbers stay whole numbers. Raises InputError, and returns nothing, where the store could not give
    a sample back: NaN, infinite, a driver's mark, a whole series with a fraction or at 2^53 and beyond; a
    label that the catalogue row lacks or whose value is above 4,096 bytes; as many as 40 labels; a run whose
    lengths differ.
    """
    return _encoded(runs, _raise)


def encode_usable(runs: Iterable[SampleRun]) -> tuple[bytes, list[Unusable]]:
    """The body of those runs that `encode` would not raise for, and each other one, which costs itself only."""
    unusable: list[Unusable] = []

    def set_aside(run: SampleRun, error: InputError) -> None:
        shown = f"{run.series.name}{dict(run.labels)} {list(run.values)}"[:_SHOWN_CHARACTERS]
        unusable.append(Unusable(shown.encode(errors="replace"), str(error)))

    return _encoded(runs, set_aside), unusable


def _encoded(runs: Iterable[SampleRun], on_error: Callable[[SampleRun, InputError], None]) -> bytes:
    lines: list[str] = []
    seconds: Sequence[int] = ()
    stamps: list[str] = []
    for run in runs:
        # The runs of one batch mostly share their seconds.
        if run.seconds != seconds:
            seconds, stamps = run.seconds[:], list(_stamps(run.seconds))
        try:
            lines += _lines(run, stamps)
        except InputError as error:
            on_error(run, error)
    return "".join(lines).encode()


def _raise(_run: SampleRun, error: InputError) -> None:
    raise error


def _stamps(seconds: Sequence[int]) -> Iterator[str]:
    if len(seconds) == 1:
        yield f"[{seconds[0] * MILLISECONDS}]"
        return
    for start in range(0, len(seconds), SAMPLES_PER_LINE):
        yield _JSON.encode([second * MILLISECONDS for second in seconds[start : start + SAMPLES_PER_LINE]])


def _lines(run: SampleRun, stamps: Sequence[str]) -> Iterable[str]:
    # One value a run is what a node sends each second, so it is spared what long runs need.
    if len(run.values) == len(run.seconds) == 1:
        (value,) = run.values
        if _is_good(run.series, value) and type(value) in (int, float):
            return (f'{_head(run.series, run.labels)}[{value!r}],"timestamps":{stamps[0]}}}\n',)
    return _long_lines(run, stamps)


def _is_good(series: Series, value: int | float) -> bool:
    """Whether the store gives it back. A comparison with NaN is false, so NaN is not good either."""
    if series.whole:
        return -WHOLE_LIMIT < value < WHOLE_LIMIT and not value % 1
    return -VALUE_LIMIT < value < VALUE_LIMIT


def _long_lines(run: SampleRun, stamps: Sequence[str]) -> Iterator[str]:
    if len(run.seconds) != len(run.values):
        raise InputError(
            f"cannot push {run.series.name}: {len(run.seconds)} seconds for {len(run.values)} values; "
            "each value needs its second"
        )
    _refuse_values(run.series, run.values)
    head = _head(run.series, run.labels)
    for part, timestamps in enumerate(stamps):
        start = part * SAMPLES_PER_LINE
        # Plus makes a bool the number it stands for: the server drops a line with `true` in it.
        values = _JSON.encode([+value for value in run.values[start : start + SAMPLES_PER_LINE]])
        yield f'{head}{values},"timestamps":{timestamps}}}\n'


def _head(series: Series, labels: Mapping[str, str]) -> str:
    """A line up to its first value."""
    key = (series.name, series.labels, *labels.items())
    head = _heads.get(key)
    if head is None:
        head = f'{{"metric":{_JSON.encode({"__name__": series.name, **_checked_labels(series, labels)})},"values":'
        if len(_heads) >= _HEADS_MAX:
            _heads.clear()
        _heads[key] = head
    return head


def _checked_labels(series: Series, labels: Mapping[str, str]) -> dict[str, str]:
    name = series.name
    labels = {label: value for label, value in labels.items() if value}
    for label, value in labels.items():
        if label not in series.labels:
            raise InputError(
                f"cannot push {name}: it has no label {label!r}; domain/series/ allows {', '.join(series.labels)}"
            )
        try:
            length = len(value.encode())
        except UnicodeEncodeError as error:
            raise InputError(f"cannot push {name}: {label}={value!r} is not valid Unicode; mend the text") from error
        if length > LABEL_VALUE_BYTES:
            raise InputError(
                f"cannot push {name}: {label}='{value[:40]}...' is {length} bytes long; "
                f"shorten it to {LABEL_VALUE_BYTES}"
            )
    if len(labels) >= LABELS_PER_SERIES:
        raise InputError(f"cannot push {name}: {len(labels)} labels and the name; use at most {LABELS_PER_SERIES}")
    return labels


def _refuse_values(series: Series, values: Sequence[int | float]) -> None:
    bad = next((value for value in values if not _is_good(series, value)), None)
    if bad is None:
        return
    limit = WHOLE_LIMIT if series.whole else VALUE_LIMIT
    if -limit < bad < limit:
        raise InputError(f"cannot push {series.name}: the value '{bad}' is not a whole number; round it first")
    raise InputError(
        f"cannot push {series.name}: the value '{bad}' is not a number between -2^{limit.bit_length() - 1} and "
        f"2^{limit.bit_length() - 1}; leave the sample out where there is no reading"
    )
