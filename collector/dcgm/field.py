"""One field of DCGM: what its numbers mean, and what stands in their place where there is none.

Blanks are those of `dcgm_structs.h` (NVIDIA/DCGM): a blank is at least its constant, and what is above it says why.
They are told apart by the type of the value before any unit is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from math import isfinite

from collector.ranges import counted_ratio
from domain.samples import FieldState
from domain.series import Series

BLANK_32_BITS = range(0x7FFFFFF0, 0x80000000)
_BLANK_64_BITS = 0x7FFFFFFFFFFFFFF0
_BLANK_DOUBLE = 2**47
# Above the constant: +1 not found, +2 not supported, +3 no permission; +0, "blank", is also what a first period has.
_REASONS = {2: FieldState.UNSUPPORTED, 3: FieldState.NO_PERMISSION}
# What DCGM writes where a field is text, and older exporters as they find it.
_BLANK_TEXTS = {
    "<<<NULL>>>": FieldState.NOT_READY,
    "<<<NOT_FOUND>>>": FieldState.NOT_READY,
    "<<<NOT_SUPPORTED>>>": FieldState.UNSUPPORTED,
    "<<<NOT_PERM>>>": FieldState.NO_PERMISSION,
}


class Scope(Enum):
    """Of what a field can be told."""

    ANY = "card and MIG instance"
    CARD = "card"
    CARD_WITHOUT_MIG = "card without MIG"


class Watch(Enum):
    """Fields that a host engine is asked to watch together: one that it does not know costs all of its group."""

    DEVICE = "what every version of DCGM has"
    NEW_DEVICE = "what a version of it brought"
    PROFILING = "what the profiling module or the driver's own counters measure"
    NEW_PROFILING = "counters of cycles and bytes, of Hopper and later"


# Each is what it is, and none is like another: they are compared and hashed as objects.
@dataclass(frozen=True, slots=True, eq=False)
class DcgmField:
    """A field: its number, every name it had, in upper case, newest last, and the series it is.

    `series` is None where it only helps another. `part` is which of a series' parts it is, `bits` the parts that its
    bits are. `unit` is what one of the field's units is in ours. `is_long` marks what grows beyond 32 bits, so that
    such blanks are numbers there. `zero_means` is why a 0 is no value, of what is never 0 where it is measured.
    """

    number: int
    names: tuple[str, ...]
    series: Series | None
    unit: Fraction = Fraction(1)
    scope: Scope = Scope.ANY
    watch: Watch = Watch.DEVICE
    is_long: bool = False
    zero_means: FieldState | None = None
    part: str | None = None
    bits: Mapping[int, str] = field(default_factory=dict)

    def exact(self, value: int | float) -> int | Fraction | FieldState:
        """The value in base units, exactly as written, or why there is none. What is counted in wholes is an `int`."""
        # What a double can be and a number is not.
        reason = self._blank(value) if isfinite(value) else FieldState.GARBAGE
        if reason is not None:
            return reason
        if value == 0 and self.zero_means is not None:
            return self.zero_means
        # A float's shortest text is what was written: the exporter prints six decimals.
        exact = Fraction(str(value)) * self.unit
        if self.watch is Watch.PROFILING:
            exact = counted_ratio(exact)
        return int(exact) if self.series is None or self.series.whole else exact

    def is_capped(self, value: int | float) -> bool:
        """Whether `exact` takes the value as 1, and it was a little more."""
        return self.watch is Watch.PROFILING and value > 1 and self.exact(value) == 1

    def parts(self, exact: int | Fraction) -> Iterator[tuple[str, int | Fraction]]:
        """The parts of the series that a value tells: its own, or one for each known bit, 1 or 0."""
        if self.part is not None:
            yield self.part, exact
        for bit, part in self.bits.items():
            yield part, 1 if int(exact) & bit else 0

    def _blank(self, value: int | float) -> FieldState | None:
        if value >= _BLANK_64_BITS:
            return _reason(value - _BLANK_64_BITS)
        # A whole number of 64 bits may well be as large as the blank of a double.
        if value >= _BLANK_DOUBLE and (isinstance(value, float) or not self.is_long):
            return _reason(value - _BLANK_DOUBLE)
        if value in BLANK_32_BITS and not self.is_long:
            return _reason(value - BLANK_32_BITS.start)
        return None


def blank_text(text: str) -> FieldState | None:
    """Why a field has no value, where DCGM says it in words; None for any other text."""
    return _BLANK_TEXTS.get(text)


def _reason(above: int | float) -> FieldState:
    return _REASONS.get(int(above), FieldState.NOT_READY)
