"""Events of which two tell are counted once; those of which one tells twice are two."""

import pytest
from structlog.testing import capture_logs

from collector.node_state import HeardLog, NodeState
from collector.xid_events import Xid, XidEvents, XidSource
from domain.clock import MICROSECONDS, FrozenClock

DRIVER, LOG = XidSource.DRIVER, XidSource.KERNEL_LOG


@pytest.mark.parametrize(
    ("told", "count"),
    [
        ([(0.0, DRIVER), (0.1, LOG)], 1),
        ([(0.0, LOG), (1.9, DRIVER)], 1),
        ([(0.0, DRIVER), (2.5, LOG)], 2),
        ([(0.0, LOG), (0.0, LOG)], 2),
        ([(0.0, LOG), (0.1, LOG), (0.2, DRIVER)], 2),
        ([(0.0, LOG), (0.1, LOG), (0.2, LOG), (0.3, DRIVER), (0.4, DRIVER), (0.5, DRIVER)], 3),
        ([(0.0, DRIVER), (0.1, LOG), (0.2, DRIVER), (0.3, LOG)], 2),
    ],
)
def test_each_telling_is_matched_with_one_of_the_others(told: list[tuple[float, XidSource]], count: int) -> None:
    """R11: the same XID of a card from both within 2 s is one event."""
    clock = FrozenClock(0)
    events = XidEvents(NodeState(None), clock.monotonic_s)
    for at_s, source in told:
        clock.advance_us(round(at_s * MICROSECONDS) - clock.now_us())
        events.hear(Xid(31, "GPU-1"), source)
    assert dict(events.counts("GPU-1")) == {"31": count}


def test_another_card_or_code_is_another_event() -> None:
    events = XidEvents(NodeState(None), FrozenClock(0).monotonic_s)
    with capture_logs() as logs:
        events.hear(Xid(31, "GPU-1", 3, 0), DRIVER)
        events.hear(Xid(31, "GPU-2"), LOG, "MMU Fault")
        events.hear(Xid(13, "GPU-1"), LOG)
    assert dict(events.counts("GPU-1")) == {"31": 1, "13": 1}
    assert dict(events.counts("GPU-2")) == {"31": 1}
    assert dict(events.counts("GPU-3")) == {}
    assert [(log["gpu_uuid"], log["xid"], log.get("gi_id"), log.get("text")) for log in logs] == [
        ("GPU-1", 31, 3, None),
        ("GPU-2", 31, None, "MMU Fault"),
        ("GPU-1", 13, None, None),
    ]


def test_how_far_the_log_was_heard_is_remembered_with_each_xid_else_once_a_minute() -> None:
    """What is remembered is written: a log that says much must not keep the disk busy."""
    clock, state = FrozenClock(0), NodeState(None)
    events = XidEvents(state, clock.monotonic_s)

    def heard(until: int, *, is_end: bool = False) -> HeardLog | None:
        events.heard_log(until, is_end=is_end)
        return state.remembered.log

    assert heard(10) == HeardLog(10)
    clock.advance_us(59 * MICROSECONDS)
    assert heard(20) == HeardLog(10)
    clock.advance_us(MICROSECONDS)
    assert heard(30) == HeardLog(30)
    assert events.hear(Xid(31, "GPU-1"), LOG, log_until=40)
    assert (state.remembered.log, state.remembered.xids) == (HeardLog(40), {"GPU-1": {"31": 1}})
    assert not events.hear(Xid(31, "GPU-1"), DRIVER)
    assert heard(50) == HeardLog(40)
    assert heard(60, is_end=True) == HeardLog(60)


def test_what_the_driver_told_of_is_awaited_from_the_log_for_two_seconds() -> None:
    """R11: by whoever comes next, too."""
    clock, state = FrozenClock(0), NodeState(None)
    events = XidEvents(state, clock.monotonic_s)
    events.heard_log(10)
    events.hear(Xid(31, "GPU-1"), DRIVER)
    events.hear(Xid(79, "GPU-1"), DRIVER)
    assert state.remembered.log == HeardLog(10, (("GPU-1", 31), ("GPU-1", 79)))

    events = XidEvents(state, clock.monotonic_s)
    assert events.log_heard_until == 10
    clock.advance_us(60 * MICROSECONDS)
    assert not events.hear(Xid(31, "GPU-1"), LOG, log_until=20), "it takes as long as it takes to start"
    assert state.remembered.log == HeardLog(20, (("GPU-1", 79),))
    events.heard_log(20)
    assert state.remembered.log == HeardLog(20), "all that was there is heard"
    assert events.hear(Xid(79, "GPU-1"), LOG, log_until=30)

    events.lose_log()
    assert events.log_heard_until is None
