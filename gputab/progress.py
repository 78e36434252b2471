"""Progress of what takes long: a bar on stderr, where that is a terminal."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

_Item = TypeVar("_Item")


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A bar that is gone when the `with` block ends; it is told what is done by now, and how much there is."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(what, total=None)
        yield lambda done, whole: progress.update(task, completed=done, total=whole)


def steps(items: Sequence[_Item], what: str) -> Iterator[_Item]:
    """The items, with a bar that moves on with each that was asked for."""
    with progress_bar(what) as on_progress:
        for done, item in enumerate(items):
            on_progress(done, len(items))
            yield item


def counted(on_progress: Callable[[int, int], None], total: int) -> Callable[[int], None]:
    """The same for who is told how much more is done at each call."""
    done = 0

    def advance(count: int) -> None:
        nonlocal done
        done += count
        on_progress(done, total)

    return advance
