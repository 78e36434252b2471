"""Events of which two tell are counted once; those of which one tells twice are two."""

import pytest
from structlog.testing import capture_logs

from collector.node_state import NodeState
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
