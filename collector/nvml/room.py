"""Room for a list that the driver fills: how much it takes is known only when it has been asked."""

from collections.abc import Callable
from typing import TypeVar

from collector.nvml.driver import INSUFFICIENT_SIZE, DriverError

_ENTRIES_MAX = 4_096

_Answer = TypeVar("_Answer")


class Room:
    """How many entries there is room for in the next call; it grows with what the driver has."""

    def __init__(self, entries: int) -> None:
        self.entries = entries

    def take(self, count: int) -> int:
        """How many there was room for in the last call, where the driver says that it has `count`."""
        taken = min(count, self.entries)
        self.entries = min(max(self.entries, 2 * count), _ENTRIES_MAX)
        return taken

    def ask(self, call: Callable[[], _Answer]) -> _Answer:
        """What `call` answers. Where the driver wants more room, which `call` has taken by then, it is called again.

        Raises what `call` raises.
        """
        try:
            return call()
        except DriverError as error:
            if error.code != INSUFFICIENT_SIZE:
                raise
        return call()
