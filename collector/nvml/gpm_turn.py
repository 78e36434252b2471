"""Who may ask the driver for performance metrics: one thread at a time, but none waits for one that hangs."""

import threading
from collections.abc import Callable
from functools import partial

# A healthy card takes a few milliseconds.
_HOLD_SECONDS = 0.1
# For all that are before it.
_WAIT_SECONDS = 0.3
# A call that has not come back after so long waits in the kernel, where it is in nobody's way.
_HANG_SECONDS = 2.0


class GpmTurn:
    """A lock with a wait that is bounded twice, by how long who has it has had it and in all, and that a card that
    hangs loses: its own metrics are gone anyhow, those of the others are not.
    """

    def __init__(self, now_s: Callable[[], float]) -> None:
        """`now_s` is a clock that never steps back."""
        self._now_s = now_s
        self._condition = threading.Condition()
        self._turns = 0
        self._current: int | None = None
        self._taken_s = 0.0

    def take(self) -> int | None:
        """The caller's turn, to be given back; None where it would have to wait for too long.

        Who has it is waited for until he has had it for 0.1 s, then not at all, and after 2 s he loses it.
        """
        with self._condition:
            give_up_s = self._now_s() + _WAIT_SECONDS
            while self._current is not None and self._now_s() - self._taken_s < _HANG_SECONDS:
                patience_s = min(self._taken_s + _HOLD_SECONDS, give_up_s) - self._now_s()
                before = self._current
                # Who wakes too late to be told of it may find his turn there all the same.
                if patience_s <= 0 or not self._condition.wait_for(partial(self._is_over, before), patience_s):
                    return None
            self._turns += 1
            self._current, self._taken_s = self._turns, self._now_s()
            return self._current

    def _is_over(self, turn: int | None) -> bool:
        return self._current != turn

    def give(self, turn: int) -> None:
        """Let the next one have it; nothing where the turn was lost meanwhile."""
        with self._condition:
            if turn == self._current:
                self._current = None
                self._condition.notify()
