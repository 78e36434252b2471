"""The text of dcgm-exporter, line by line: names, labels and values as they are written, whatever they mean.

It is Prometheus' exposition format (https://prometheus.io/docs/instrumenting/exposition_formats) with two faults of
its own: words stand where a number belongs (`ERROR - FAILED TO CONVERT TO STRING`), and labels are not escaped (see
`labels.py`). The library's parser gives up a text at its first bad line; here each line is lost by itself.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from collector.dcgm.labels import read_labels

_NAME = re.compile(r"[A-Za-z_:][\w:]*", re.ASCII)
_WHOLE = re.compile(r"[+-]?[0-9]+", re.ASCII)
_NAME_BEFORE = re.compile(r"[\s{]")
# Real ones have some 500; the parser looks at every character of a line several times.
_LINE_CHARACTERS_MAX = 2**14
_SHOWN_CHARACTERS = 40
_MILLISECOND_US = 1_000


class DcgmSample(NamedTuple):
    """One line of the text that is no comment.

    `problem` says why it is no sample, else None: then `value` is None, and `labels` are empty unless they can be read.
    `time_us` is the line's own time, None where it has none.
    """

    line: int
    name: str
    labels: Mapping[str, str]
    value: int | float | None
    time_us: int | None
    problem: str | None = None


def dcgm_samples(lines: Iterable[tuple[int, str]], names: frozenset[str]) -> Iterator[DcgmSample]:
    """The samples among the numbered lines whose name, in upper case, is one of `names`; of others only the bad ones.

    What is not looked for is not parsed: a scrape has hundreds of lines, and one is made every second.
    """
    for number, line in lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        name = _NAME_BEFORE.split(text, maxsplit=1)[0]
        if len(text) > _LINE_CHARACTERS_MAX:
            problem = f"a line of {len(text)} characters"
            yield DcgmSample(number, name[:_SHOWN_CHARACTERS], {}, None, None, problem)
        elif (written := _written_value(text)) is not None:
            # What stands there may be anything, and must not steer a terminal.
            shown = "".join(each if each.isprintable() else "?" for each in name[:_SHOWN_CHARACTERS])
            problem = f"{shown}: {written[:_SHOWN_CHARACTERS]!r} is no number"
            yield DcgmSample(number, name, _labels(text), None, None, problem)
        elif name.upper() in names:
            yield _sample(number, name, text)


def _written_value(text: str) -> str | None:
    """What stands where the value belongs; None where that is a number."""
    _, brace, tail = text.rpartition("}")
    words = tail.split() if brace else tail.split()[1:]
    try:
        # Python reads "1_0" and digits of other scripts as well.
        is_number = words[0].isascii() and "_" not in words[0] and math.isfinite(float(words[0]))
    except (ValueError, IndexError):
        is_number = False
    return None if is_number else " ".join(words)


def _sample(number: int, name: str, text: str) -> DcgmSample:
    head, brace, tail = text[len(name) :].rpartition("}")
    before, _, labels_text = head.partition("{")
    value_text, *time_text = (tail if brace else text[len(name) :]).split()
    try:
        if before.strip() or len(time_text) > 1 or not _NAME.fullmatch(name):
            raise ValueError
        labels = read_labels(labels_text) if brace else {}
        # Milliseconds in the text.
        time_us = round(_number(time_text[0])) * _MILLISECOND_US if time_text else None
    except (ValueError, OverflowError):
        return DcgmSample(number, name, {}, None, None, f"{name}: no labels, value and time can be read")
    return DcgmSample(number, name, labels, _number(value_text), time_us)


def _number(text: str) -> int | float:
    """The number, exact where it is whole: a float would lose the last digits of a blank, which say why it is one."""
    if not text.isascii() or "_" in text:
        raise ValueError
    return int(text) if _WHOLE.fullmatch(text) else float(text)


def _labels(text: str) -> Mapping[str, str]:
    """The labels of a line whose value cannot be read."""
    head, brace, _ = text.partition("{")[2].rpartition("}")
    try:
        return read_labels(head) if brace else {}
    except ValueError:
        return {}
