"""What an import reads: a log that gives its rows as often as it is asked, and says whether it is still the same."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from collector.imports.sample_rows import Row
from domain.errors import InputError, UnavailableError
from domain.problems import SHOWN_PROBLEMS, listed


class SampleLog(Protocol):
    """A log on its way into the store.

    `path` names it in messages. `problems` and `cut_cells` (fractions of bytes that were cut) are of the latest
    reading and grow with it; whoever reads the rows adds to the problems what only several rows show together.
    """

    path: Path
    problems: list[str]

    @property
    def cut_cells(self) -> int:
        """Of the latest reading so far."""
        ...

    def rows(self, advance: Callable[[int], None]) -> Iterator[Row]:
        """Every good row, those of a device and its owners in the order of time.

        `advance` is told how far it came since its last call, in units of the log's own.
        """
        ...

    def is_changed(self) -> bool:
        """Whether the log is no longer what its first reading found good."""
        ...


def refuse_problems(log: SampleLog) -> None:
    """Raise InputError with every problem that was met."""
    if log.problems:
        more = " and more" if len(log.problems) > SHOWN_PROBLEMS else ""
        found = listed(log.problems[:SHOWN_PROBLEMS])
        raise InputError(f"cannot import {str(log.path)!r}: {found}{more}. Nothing was sent; mend these cells")


def refuse_change(log: SampleLog, sent: int) -> None:
    """Raise what `changed` says, where the log has changed."""
    if log.is_changed():
        raise changed(log, sent)


def changed(log: SampleLog, sent: int) -> UnavailableError:
    """That the log changed, after so many of its samples had been sent."""
    told = f"{sent} samples of it were sent" if sent else "nothing was sent"
    return UnavailableError(
        f"cannot import {str(log.path)!r}: it changed while it was read, and {told}; import it again when nothing "
        "writes to it any more"
    )
