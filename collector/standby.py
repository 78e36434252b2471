"""A collector whose node another one tells of: it delivers what it still has, and takes over when the other ends."""

from collections.abc import Callable
from functools import partial
from threading import Event

import structlog

from collector.delivery.holes import HoleReason
from collector.delivery.queue import BatchQueue
from collector.delivery.sender import Sender
from collector.node_claim import NodeClaim
from collector.steady_clock import SteadyClock
from collector.tasks import Tasks
from domain.clock import MICROSECONDS, Clock
from victoriametrics.push import Pusher

# How soon it is seen that we are to stop; that the other has ended is seen at once.
_POLL_SECONDS = 0.25
# When the other has ended, a store that hangs must not keep the node from being sampled for long.
_ANSWER_SECONDS = 2.0
_END_SECONDS = 2.5

log = structlog.get_logger()


def stand_by(
    node: str,
    claim: NodeClaim,
    queue: BatchQueue,
    pusher: Pusher,
    clock: Clock,
    stop: Event,
    *,
    check_store: Callable[[], None],
) -> bool:
    """Wait until the node is ours, True, or `stop` is set, False. Nothing is sampled, nor said of the node meanwhile.

    What was sampled before goes on to the store. The seconds of the wait are holes of this queue for a reason of their
    own: the other has sampled them, and may have ended before it delivered them all. So the mark that follows vouches
    for what was counted. `check_store` as for `collect`.

    Raises whatever broke the delivery. `queue` and `pusher` stay open.
    """
    steady = SteadyClock(clock)
    began_s = steady.now_us() // MICROSECONDS
    sender = Sender(node, queue, pusher, steady, check_store)
    over = Event()
    log.warning("standing_by", node=node, for_pid=claim.holder_pid, from_s=began_s, waiting_seconds=len(queue))
    sending = Tasks(node, [partial(sender.run, answer_s=_ANSWER_SECONDS)], over)
    try:
        while not (is_ours := claim.take()) and not stop.is_set() and not over.is_set():
            claim.wait(_POLL_SECONDS)
    finally:
        over.set()
        sender.wake()
        sending.join(_END_SECONDS, clock)
    if sending.failure is not None:
        raise sending.failure
    if is_ours:
        _count_holes(queue, began_s, steady.now_us() // MICROSECONDS + 1)
        log.warning("taking_over", node=node, waiting_seconds=len(queue))
    return is_ours


def _count_holes(queue: BatchQueue, began_s: int, next_s: int) -> None:
    """Let `next_s` be the first to be sampled, by which the other has ended."""
    for second_s, reason in ((began_s, HoleReason.NOT_RUNNING), (next_s, HoleReason.STOOD_BY)):
        # A queue without a second begins as we begin to wait.
        until_s = queue.sampled_until_s or began_s
        if second_s > until_s:
            queue.skip_to(second_s, second_s - until_s, reason)
