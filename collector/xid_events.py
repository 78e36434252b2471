"""XID errors of the cards: each event counted once, whether the driver, the kernel's log or both tell of it."""

import math
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple

import structlog

from collector.node_state import HeardLog, NodeState
from domain.samples import DeviceReading
from domain.series import GPU_XID_EVENTS

# Both tell of the same event within so long.
_SAME_EVENT_SECONDS = 2.0
# How far the kernel's log was heard is remembered with each XID, and so often where there is none: by then the kernel
# may have overwritten the last that told of one.
_KEEP_SECONDS = 60.0

log = structlog.get_logger()


class XidSource(StrEnum):
    """Who tells of an event."""

    DRIVER = "driver"
    KERNEL_LOG = "kernel_log"


class Xid(NamedTuple):
    """One telling of an event: the code, the card, and the numbers of GPU and compute instance where they are told."""

    code: int
    gpu_uuid: str
    gi_id: int | None = None
    ci_id: int | None = None


class _Told(NamedTuple):
    """A kind of event, and who tells of it."""

    source: XidSource
    gpu_uuid: str
    code: int


class XidEvents:
    """Counts events by card and code; safe to use from several threads.

    One that both tell of is counted when the first does. Of several alike, each is matched with one of the other's.
    The counts, and how much of the kernel's log they are of, are remembered in one: whoever is killed in between is
    followed by one who counts all of it or has nothing left to count.
    """

    def __init__(self, state: NodeState, now_s: Callable[[], float]) -> None:
        """`state` remembers the counts over restarts; `now_s` is a clock that never steps back."""
        self._state = state
        self._now_s = now_s
        self._lock = threading.Lock()
        # When those were told of of which only one has told so far; by kind, since an absence may have had thousands.
        self._unmatched: defaultdict[_Told, deque[float]] = defaultdict(deque)
        heard = state.remembered.log
        self._log_until = None if heard is None else heard.until
        # Those that the driver told a collector of that ended before it came to the log's record.
        self._awaited = [] if heard is None else list(heard.awaited)
        self._kept_at_s = -math.inf

    @property
    def log_heard_until(self) -> int | None:
        """The place in the kernel's log up to which the counts are of it; None where that is not known."""
        return self._log_until

    def hear(self, xid: Xid, source: XidSource, text: str = "", *, log_until: int | None = None) -> bool:
        """Somebody tells of an event; `text` is what he says of it, `log_until` the place behind it in the log.

        Says whether it was counted: nobody had told of it before.
        """
        with self._lock:
            self._log_until = self._log_until if log_until is None else log_until
            told, now_s = _Told(source, xid.gpu_uuid, xid.code), self._now_s()
            is_new = not self._is_known(told, now_s)
            xids = self._state.remembered.xids
            if is_new:
                self._recent(told, now_s).append(now_s)
                _say(xid, source, text)
                counts = Counter(xids.get(xid.gpu_uuid, {}))
                counts[str(xid.code)] += 1
                xids = {**xids, xid.gpu_uuid: dict(counts)}
            until = self._log_until
            heard_log = None if until is None else HeardLog(until, self._told_by_driver_only(now_s))
            self._state.keep(xids=xids, log=heard_log)
            return is_new

    def heard_log(self, until: int, *, is_end: bool = False) -> None:
        """The kernel's log was heard up to there; `is_end`: for the last time."""
        with self._lock:
            self._log_until = until
            self._awaited.clear()
            now_s = self._now_s()
            kept, now = self._state.remembered.log, HeardLog(until, self._told_by_driver_only(now_s))
            is_due = is_end or now_s - self._kept_at_s >= _KEEP_SECONDS
            if is_due or kept is None or kept.awaited != now.awaited:
                self._state.keep(log=now)
                self._kept_at_s = now_s

    def lose_log(self) -> None:
        """Nobody listens to the kernel's log: what the driver tells of from now on will be in it, and is counted."""
        with self._lock:
            self._log_until = None
            self._awaited.clear()
            self._state.keep(log=None)

    def counts(self, gpu_uuid: str) -> Mapping[str, int]:
        """How many events there were on a card, by code; the same object while there is no other."""
        return self._state.remembered.xids.get(gpu_uuid, _NONE)

    def told_with(self, gpu_uuid: str, readings: list[DeviceReading]) -> list[DeviceReading]:
        """The readings of a card, the first of which also has its events."""
        counts = self.counts(gpu_uuid)
        if not counts:
            return readings
        first, *rest = readings
        return [replace(first, parts={**first.parts, GPU_XID_EVENTS: counts}), *rest]

    def _told_by_driver_only(self, now_s: float) -> tuple[tuple[str, int], ...]:
        told = list(self._awaited)
        for each in list(self._unmatched):
            if each.source is XidSource.DRIVER:
                told += [(each.gpu_uuid, each.code)] * len(self._recent(each, now_s))
        return tuple(told)

    def _is_known(self, told: _Told, now_s: float) -> bool:
        """Whether the other has told of the event before, which is then matched."""
        event = told.gpu_uuid, told.code
        if told.source is XidSource.KERNEL_LOG and event in self._awaited:
            self._awaited.remove(event)
            return True
        other = next(each for each in XidSource if each is not told.source)
        times = self._recent(_Told(other, *event), now_s)
        if times:
            times.popleft()
            return True
        return False

    def _recent(self, told: _Told, now_s: float) -> deque[float]:
        """When such an event was told of that the other may still tell of, the oldest first."""
        times = self._unmatched[told]
        while times and now_s - times[0] > _SAME_EVENT_SECONDS:
            times.popleft()
        return times


def _say(xid: Xid, source: XidSource, text: str) -> None:
    """Whoever sees the count finds what it is of in the log."""
    where = {"gi_id": xid.gi_id, "ci_id": xid.ci_id}
    told: dict[str, Any] = {name: value for name, value in where.items() if value is not None}
    told |= {"text": text} if text else {}
    log.error("xid", gpu_uuid=xid.gpu_uuid, xid=xid.code, told_by=str(source), **told)


_NONE: Mapping[str, int] = {}
