"""Seconds without samples, counted by why they have none, as the label `reason` of `collector_holes_total`."""

from collections import Counter
from enum import StrEnum

import structlog

# A queue that is full gives up a second for each that it takes: said once a minute.
_SAY_SECONDS = 60
_COUNT = "holes_"

log = structlog.get_logger()


class HoleReason(StrEnum):
    """Why there is nothing of a second."""

    LATE = "late"
    """It could not be read in time: the machine was too busy, or its clock was moved by less than a step."""
    CLOCK = "clock"
    """The node's clock was in doubt, or stepped over it, as it does where the machine slept."""
    NOT_RUNNING = "not_running"
    """It lies before a process's first second: none had this queue, or it was killed while the disk took nothing."""
    STOOD_BY = "stood_by"
    """Another collector told of the node: it may well have sampled it."""
    QUEUE_FULL = "queue_full"
    """It waited for the store and made room for a newer one."""
    TOO_OLD = "too_old"
    """It waited for the store for too long."""
    DISK = "disk"
    """It waited for a disk that took nothing for a minute."""
    UNRECORDED = "unrecorded"
    """It was counted by a gputab that told no reasons."""


class Holes:
    """The holes of one queue, in the counts that it writes; for the queue, which holds its lock meanwhile."""

    def __init__(self, counts: dict[str, int], path: str) -> None:
        """`counts` are the queue's own, by name; `path` is where they are kept, to be told with what is given up."""
        self._counts = counts
        self._path = path
        self._unsaid: Counter[HoleReason] = Counter()
        self._said_at_s: dict[HoleReason, int] = {}

    @property
    def by_reason(self) -> dict[HoleReason, int]:
        """How many there are for each reason, 0 too."""
        return {reason: self._counts.get(_COUNT + reason, 0) for reason in HoleReason}

    def add(self, seconds: int, reason: HoleReason) -> None:
        """So many seconds are holes for that reason."""
        self._counts[_COUNT + reason] = self._counts.get(_COUNT + reason, 0) + seconds

    def give_up(self, reason: HoleReason) -> None:
        """A second that was sampled has become one."""
        self.add(1, reason)
        self._unsaid[reason] += 1

    def say(self, now_s: int | None = None) -> None:
        """Log what was given up: the first at once, what follows once a minute; all of it where no `now_s` follows."""
        for reason, seconds in list(self._unsaid.items()):
            said_at_s = self._said_at_s.get(reason)
            # A clock that was set back must not silence it.
            if now_s is None or said_at_s is None or not 0 <= now_s - said_at_s < _SAY_SECONDS:
                log.error("seconds_given_up", path=self._path, seconds=seconds, reason=str(reason))
                del self._unsaid[reason]
                if now_s is not None:
                    self._said_at_s[reason] = now_s
