"""The labels of a line of dcgm-exporter's text, escaped as they should be or not at all.

The exporter writes labels by a template that escapes nothing (`render_metrics.go`), so that a quote or a backslash in
the label of a pod or a job makes a line that is no valid text. Where a value ends can be told all the same: at a quote
behind which the next label begins, or nothing comes. Only where that makes a label twice is it ambiguous.
"""

import re
from collections.abc import Mapping

_NAME = r"\s*([A-Za-z_]\w*)\s*=\s*"
_ESCAPED = re.compile(_NAME + r'"((?:[^"\\]|\\[\\"n])*)"\s*(?:,\s*|\Z)', re.ASCII)
_FIRST = re.compile(_NAME + '"', re.ASCII)
_NEXT = re.compile(r'"\s*,' + _NAME + '"', re.ASCII)
_END = re.compile(r'"\s*,?\s*\Z', re.ASCII)
_ESCAPE = re.compile(r'\\([\\"n])')


def read_labels(text: str) -> Mapping[str, str]:
    """The labels between the braces of a line, which may have none; as they are written where they are not escaped.

    Raises ValueError where they cannot be told for certain.
    """
    labels: dict[str, str] = {}
    place = count = 0
    while mark := _ESCAPED.match(text, place):
        labels[mark[1]] = _ESCAPE.sub(_unescape, mark[2])
        place, count = mark.end(), count + 1
    if text[place:].strip():
        labels, count = _unescaped(text)
    if len(labels) != count:
        raise ValueError
    return labels


def _unescaped(text: str) -> tuple[dict[str, str], int]:
    """The labels as they are written, and how many there are, also where two have one name."""
    first, end = _FIRST.match(text), _END.search(text)
    if first is None or end is None or end.start() < first.end():
        raise ValueError
    # What would begin behind the last quote is part of the last value.
    marks = [first, *(mark for mark in _NEXT.finditer(text, first.end()) if mark.end() <= end.start())]
    ends = [*(mark.start() for mark in marks[1:]), end.start()]
    return {mark[1]: text[mark.end() : stop] for mark, stop in zip(marks, ends, strict=True)}, len(marks)


def _unescape(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1]
