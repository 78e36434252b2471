"""One part of a hardware report."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Section:
    """A heading, the answer in a sentence, and the numbers behind it."""

    title: str
    answer: str
    headings: Sequence[str] = ()
    rows: Iterable[Sequence[object]] = ()

    def markdown(self) -> str:
        """The section as the report has it."""
        lines = [f"## {self.title}", "", self.answer, ""]
        rows = [[str(cell) for cell in row] for row in self.rows]
        if rows:
            table = (self.headings, ["---"] * len(self.headings), *rows)
            lines += [*(f"| {' | '.join(row)} |" for row in table), ""]
        return "\n".join(lines)
