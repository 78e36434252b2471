"""Which series a question is about, as text in the server's query language."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from domain.errors import InputError
from domain.series import Series

NAME_COLUMN = "series"


@dataclass(frozen=True, slots=True)
class Selector:
    """Series of the catalogue, all labels equal to what `labels` says.

    A label with the value "" must be absent: `{"mig_uuid": ""}` is whole cards only. Raises InputError where
    a label is not in the catalogue row of each series, since such a question would find nothing and say so
    of everything.
    """

    series: tuple[Series, ...]
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.series:
            raise InputError("cannot select samples of no series: name at least one")
        for series in self.series:
            unknown = next((label for label in self.labels if label not in series.labels), None)
            if unknown is not None:
                raise InputError(
                    f"cannot select {series.name} by {unknown!r}: it has the labels {', '.join(series.labels)}"
                )
            if NAME_COLUMN in series.labels:
                raise InputError(
                    f"cannot read {series.name} as a frame: its label {NAME_COLUMN!r} has the name of a column"
                )

    @property
    def expression(self) -> str:
        """The selector in MetricsQL."""
        names = "|".join(series.name for series in self.series)
        pairs = [f"{label}={quote(value)}" for label, value in self.labels.items()]
        return "{" + ",".join([f"__name__=~{quote(names)}", *pairs]) + "}"

    @property
    def label_columns(self) -> tuple[str, ...]:
        """Every label that the catalogue allows on the selected series, in its order."""
        return tuple(dict.fromkeys(label for series in self.series for label in series.labels))


def quote(value: str) -> str:
    """A string literal of MetricsQL, which has Go's rules; any Unicode text survives it.

    JSON's escapes are a part of Go's as long as no surrogate pair is written, hence `ensure_ascii=False`.
    """
    return json.dumps(value, ensure_ascii=False)
