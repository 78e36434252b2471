"""Times in the lines of Prometheus text, which stand behind the value: milliseconds, or the seconds of OpenMetrics.

Which of the two a number is, is told by its size: as the other it would lie before this century, or thousands of
years ahead (https://prometheus.io/docs/instrumenting/exposition_formats).
"""

import re
from collections.abc import Iterable, Iterator
from fractions import Fraction

from domain.clock import MICROSECONDS

_NUMBER = re.compile(r"[+-]?[0-9]{1,30}(?:\.[0-9]{1,30})?(?:[eE]\+?[0-9]{1,2})?")
# 2001-09-09T01:46:40Z. Nothing was scraped before it.
_FIRST_S = 10**9
# The year 5138, and as milliseconds 1973.
_AFTER_S = 10**11
_MILLISECOND_US = 1_000


class ScrapeTimes:
    """The times of the lines of one file, as they are written there: in `written`, by line."""

    def __init__(self) -> None:
        self.written: dict[int, str] = {}

    def without_times(self, lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
        """The numbered lines as they would be without times, which are noted."""
        for number, line in lines:
            bare, time = _split(line)
            if time is not None:
                self.written[number] = time
            yield number, bare

    def instant_us(self, line: int) -> int:
        """The instant of a line that has one, cut to microseconds. Raises ValueError where it means none."""
        text = self.written[line]
        time = Fraction(text)
        if _FIRST_S <= time < _AFTER_S:
            return int(time * MICROSECONDS)
        if time >= _FIRST_S * (MICROSECONDS // _MILLISECOND_US):
            return int(time * _MILLISECOND_US)
        raise ValueError(f"its time {text[:40]!r} is in this century neither as milliseconds nor as seconds")


def _split(line: str) -> tuple[str, str | None]:
    """The line without its time, and the time; None where it has none, or is a comment."""
    text = line.rstrip()
    if text.lstrip().startswith("#"):
        return line, None
    _, brace, tail = text.rpartition("}")
    words = tail.split()
    # Before the time stands the value, and before that the name where there are no labels.
    least = 2 if brace else 3
    if len(words) < least or not _NUMBER.fullmatch(words[-1]):
        return line, None
    return text[: -len(words[-1])].rstrip(), words[-1]
