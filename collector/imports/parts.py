"""A part of a series of which a device has several values at a time, as a series of its own.

Rows have one value by series. So a reason or a link goes the way of any series, and gets its label where it is sent.
"""

from dataclasses import dataclass
from functools import cache

from domain.series import Series


@dataclass(frozen=True, slots=True, eq=False)
class OnePart(Series):
    """The series as far as its label `part` has the value `told`."""

    told: str = ""


@cache
def one_part(series: Series, told: str) -> OnePart:
    """The same object for the same part, since series are compared as objects."""
    return OnePart(
        series.name, series.unit, series.kind, series.help, series.labels, series.whole, series.part, told=told
    )


def part_label(series: Series) -> dict[str, str]:
    """The label by which a part is told from the others; none of any other series."""
    return {str(series.part): series.told} if isinstance(series, OnePart) else {}
