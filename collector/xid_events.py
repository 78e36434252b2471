"""XID errors of the cards: each event counted once, whether the driver, the kernel's log or both tell of it."""

import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any, NamedTuple

import structlog

from collector.node_state import NodeState
from domain.samples import DeviceReading
from domain.series import GPU_XID_EVENTS

# Both tell of the same event within so long.
_SAME_EVENT_SECONDS = 2.0

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


class _Heard(NamedTuple):
    at_s: float
    source: XidSource
    code: int
    gpu_uuid: str


class XidEvents:
    """Counts events by card and code; safe to use from several threads.

    One that both tell of is counted when the first does. Of several alike, each is matched with one of the other's.
    """

    def __init__(self, state: NodeState, now_s: Callable[[], float]) -> None:
        """`state` remembers the counts over restarts; `now_s` is a clock that never steps back."""
        self._state = state
        self._now_s = now_s
        self._lock = threading.Lock()
        # Those of which only one has told so far, in the order of time.
        self._unmatched: deque[_Heard] = deque()

    def hear(self, xid: Xid, source: XidSource, text: str = "") -> None:
        """Somebody tells of an event now; `text` is what he says of it."""
        with self._lock:
            heard = _Heard(self._now_s(), source, xid.code, xid.gpu_uuid)
            if self._is_known(heard):
                return
            self._unmatched.append(heard)
            where = {"gi_id": xid.gi_id, "ci_id": xid.ci_id}
            told: dict[str, Any] = {name: value for name, value in where.items() if value is not None}
            told |= {"text": text} if text else {}
            # Whoever sees the count finds what it is of in the log.
            log.error("xid", gpu_uuid=xid.gpu_uuid, xid=xid.code, told_by=str(source), **told)
            before = self._state.remembered.xids
            counts = Counter(before.get(xid.gpu_uuid, {}))
            counts[str(xid.code)] += 1
            self._state.keep(xids={**before, xid.gpu_uuid: dict(counts)})

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

    def _is_known(self, heard: _Heard) -> bool:
        """Whether the other has told of the event before, which is then matched."""
        while self._unmatched and heard.at_s - self._unmatched[0].at_s > _SAME_EVENT_SECONDS:
            self._unmatched.popleft()
        for each in self._unmatched:
            if each.source is not heard.source and (each.code, each.gpu_uuid) == (heard.code, heard.gpu_uuid):
                self._unmatched.remove(each)
                return True
        return False


_NONE: Mapping[str, int] = {}
