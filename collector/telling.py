"""A second of a device while it is put together, and as it was said."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from domain.samples import Basis, FieldState
from domain.series import Series


class Said(NamedTuple):
    """What a device said in one second, as in `DeviceReading`.

    `values` has None for what it cannot tell and nothing for what is not asked in that second. `missing` and `bases`
    are the same objects as in the second before while nothing changes.
    """

    values: Mapping[Series, int | float | None]
    parts: Mapping[Series, Mapping[str, int | float]]
    missing: Mapping[Series, FieldState]
    bases: Mapping[Series, Basis]


class Telling:
    """What has been told so far."""

    def __init__(self) -> None:
        self.values: dict[Series, int | float | None] = {}
        self.parts: dict[Series, Mapping[str, int | float]] = {}
        self.missing: dict[Series, FieldState] = {}
        self.bases: dict[Series, Basis] = {}

    def tell(self, series: Series, answer: Any, *, times: int = 1, per: int = 1, basis: Basis | None = None) -> None:
        """An answer as a value in base units, or a FieldState as the reason why there is none; the last one stands.

        `basis` is told with a value only.
        """
        if isinstance(answer, FieldState):
            self.values[series] = None
            self.missing[series] = answer
            self.bases.pop(series, None)
            return
        self.missing.pop(series, None)
        self.values[series] = answer * times / per if per != 1 else answer * times
        if basis is not None:
            self.bases[series] = basis

    def tell_parts(self, series: Series, answers: Mapping[str, Any], *, times: int = 1, per: int = 1) -> None:
        """The values of a series by its part; where none of them has one, the reason that the first gives.

        Nothing is told of a series without a part.
        """
        told = {
            part: answer * times / per if per != 1 else answer * times
            for part, answer in answers.items()
            if not isinstance(answer, FieldState)
        }
        if told:
            self.parts[series] = told
        elif answers:
            self.missing[series] = next(iter(answers.values()))

    def said(self, before: Said | None) -> Said:
        """All of it, with the mappings of `before` where they are equal."""
        if before is None:
            return Said(self.values, self.parts, self.missing, self.bases)
        missing = before.missing if before.missing == self.missing else self.missing
        bases = before.bases if before.bases == self.bases else self.bases
        return Said(self.values, self.parts, missing, bases)
