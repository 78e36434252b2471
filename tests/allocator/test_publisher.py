"""Open grants as series: every second they hold and no other, a zero at the end, and no harm when the store is down."""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import delete, insert, update
from structlog.testing import capture_logs

from allocator.allocation_store import create, release
from allocator.grant_series import levels_of
from allocator.publisher import GrantPublisher
from allocator.request import AllocationRequest
from domain.clock import MICROSECONDS
from domain.errors import UnavailableError
from domain.grants import Grant, GrantKind
from domain.samples import SampleRun
from domain.series import GRANT, GRANT_COMPUTE, GRANT_INFO, GRANT_VRAM
from domain.units import MIB
from store.access import Principal
from store.database import now_us
from store.tables.capacity import allocations, grants
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Ledger, Service

OPERATOR = Principal.local_operator()
Said = list[tuple[str, str, int, float]]


class MemorySink:
    """Keeps what it is given, in order, unless it is down."""

    def __init__(self) -> None:
        self.sent: list[Sequence[SampleRun]] = []
        self.is_down = False

    def send(self, runs: Iterable[SampleRun]) -> None:
        """One round."""
        if self.is_down:
            raise UnavailableError("cannot push samples: the sink is down; lift it up again")
        self.sent.append(tuple(runs))


def unchecked() -> None:
    """For a sink that is known to be good."""


def said(sink: MemorySink) -> Said:
    """(series, allocation, second, value) of the last round."""
    return [
        (run.series.name, run.labels["allocation"], run.seconds[0], run.values[0])
        for run in (sink.sent[-1] if sink.sent else ())
    ]


def record(
    ledger: "Ledger", allocation: str, start_us: int, end_us: int | None, *, gpu_uuid: str | None = "GPU-0"
) -> None:
    """A grant of 250 of 1,000 units, from another source."""
    with ledger.database.write() as connection:
        connection.execute(
            insert(allocations).values(
                allocation=allocation, tenant="acme", project="lab", source="csv", labels="{}", created_us=0
            )
        )
        connection.execute(
            insert(grants).values(
                allocation=allocation,
                ordinal=0,
                node="n1",
                gpu_uuid=gpu_uuid,
                kind="share",
                model="m",
                sku="m-1g",
                compute_units=250,
                compute_units_total=1_000,
                vram_bytes=7 * MIB,
                start_us=start_us,
                end_us=end_us,
                changed_us=0,
            )
        )


def finish(ledger: "Ledger", allocation: str, end_us: int) -> None:
    with ledger.database.write() as connection:
        connection.execute(update(grants).where(grants.c.allocation == allocation).values(end_us=end_us))


def wait_for(condition: Callable[[], object], seconds: float = 10) -> None:
    deadline_s = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)


def test_a_grant_of_any_source_is_published_as_it_is_and_gets_one_zero_at_its_end(ledger: "Ledger") -> None:
    sink = MemorySink()
    publisher = GrantPublisher(ledger.database, sink, unchecked)
    record(ledger, "a1", (ledger.now_s() - 9) * MICROSECONDS, None)
    before = ledger.now_s()
    publisher.publish()
    (second,) = {second for _, _, second, _ in said(sink)}
    assert before <= second <= ledger.now_s()
    assert said(sink) == [
        (GRANT_INFO.name, "a1", second, 1),
        (GRANT_COMPUTE.name, "a1", second, 0.25),
        (GRANT_VRAM.name, "a1", second, 7 * MIB),
    ]
    (info, *_) = sink.sent[-1]
    assert tuple(info.labels) == GRANT
    assert dict(info.labels) | {"mig_uuid": ""} == {
        "gpu_uuid": "GPU-0",
        "mig_uuid": "",
        "allocation": "a1",
        "tenant": "acme",
        "project": "lab",
        "kind": "share",
    }
    finish(ledger, "a1", ledger.now_s() * MICROSECONDS)
    publisher.publish()
    assert [(name, value) for name, _, _, value in said(sink)] == [
        (GRANT_INFO.name, 0),
        (GRANT_COMPUTE.name, 0),
        (GRANT_VRAM.name, 0),
    ]
    rounds = len(sink.sent)
    publisher.publish()
    assert len(sink.sent) == rounds


def test_only_seconds_that_a_grant_holds_are_published(ledger: "Ledger") -> None:
    """A grant that began within this second holds the next one first; one that ends within it still holds it."""
    sink = MemorySink()
    publisher = GrantPublisher(ledger.database, sink, unchecked)
    # So that the second does not change under the test.
    time.sleep(1.05 - time.time() % 1)
    second = ledger.now_s()
    record(ledger, "begun", second * MICROSECONDS + 1, None)
    record(ledger, "ending", (second - 5) * MICROSECONDS, second * MICROSECONDS + 1)
    record(ledger, "future", (second + 3_600) * MICROSECONDS, None)
    publisher.publish()
    assert {allocation for _, allocation, _, _ in said(sink)} == {"ending"}
    assert {at for _, _, at, _ in said(sink)} == {second}


def test_a_sink_that_is_down_is_told_the_zero_later(ledger: "Ledger") -> None:
    sink = MemorySink()
    publisher = GrantPublisher(ledger.database, sink, unchecked)
    record(ledger, "a1", 0, None)
    publisher.publish()
    finish(ledger, "a1", ledger.now_s() * MICROSECONDS)
    sink.is_down = True
    for _ in range(2):
        with pytest.raises(Exception, match="the sink is down"):
            publisher.publish()
    sink.is_down = False
    publisher.publish()
    assert {value for _, _, _, value in said(sink)} == {0}


def test_a_new_process_says_the_end_of_what_ended_while_nobody_published(ledger: "Ledger") -> None:
    now = ledger.now_s()
    record(ledger, "lately", 0, (now - 20) * MICROSECONDS)
    record(ledger, "long ago", 0, (now - 4_000) * MICROSECONDS)
    sink = MemorySink()
    GrantPublisher(ledger.database, sink, unchecked).publish()
    assert {(allocation, value) for _, allocation, _, value in said(sink)} == {("lately", 0)}


def test_a_grant_whose_record_is_taken_back_gets_its_zero(ledger: "Ledger") -> None:
    sink = MemorySink()
    publisher = GrantPublisher(ledger.database, sink, unchecked)
    record(ledger, "a1", 0, None, gpu_uuid=None)
    publisher.publish()
    assert {value for name, _, _, value in said(sink) if name == GRANT_INFO.name} == {1}
    with ledger.database.write() as connection:
        connection.execute(delete(grants))
    publisher.publish()
    assert {value for _, _, _, value in said(sink)} == {0}


def test_grants_that_no_label_tells_apart_are_one_sum() -> None:
    one = Grant("a", 0, "acme", "lab", "n1", "GPU-0", None, GrantKind.SHARE, "m", "m", 250, 1_000, 5, 0, None)
    two = Grant("a", 1, "acme", "lab", "n1", "GPU-0", None, GrantKind.SHARE, "m", "m", 500, 1_000, 6, 0, None)
    ((_, level),) = levels_of([one, two]).items()
    assert level == (0.75, 11)


def test_the_thread_publishes_a_change_with_the_next_second_and_survives_a_sink_that_is_down(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    """Down, it is logged once; the service is not harmed, and goes on by itself."""
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    sink = MemorySink()
    publisher = GrantPublisher(ledger.database, sink, unchecked)
    publisher.start()
    try:
        with ledger.database.write() as connection:
            allocation, _ = create(connection, OPERATOR, AllocationRequest("acme", "lab", GrantKind.WHOLE))
        publisher.changed()
        wait_for(lambda: (GRANT_INFO.name, allocation, 1) in [(name, of, value) for name, of, _, value in said(sink)])
        assert said(sink)[0][2] * MICROSECONDS >= ledger.rows(grants)[0].start_us
        with capture_logs() as logged:
            sink.is_down = True
            with ledger.database.write() as connection:
                release(connection, OPERATOR, allocation)
            publisher.changed()
            wait_for(lambda: logged)
            sink.is_down = False
            publisher.changed()
            wait_for(lambda: (GRANT_INFO.name, 0) in [(name, value) for name, _, _, value in said(sink)])
        assert [entry["event"] for entry in logged][:1] == ["grants not published"]
    finally:
        publisher.stop()


def test_a_real_store_gives_the_grants_back(ledger: "Ledger", victoriametrics_url: str, unique_node: str) -> None:
    allocation = unique_node
    with ledger.database.read() as connection:
        second = now_us(connection) // MICROSECONDS
    record(ledger, allocation, (second - 3) * MICROSECONDS, None)
    with Pusher(victoriametrics_url) as pusher, Reader(victoriametrics_url) as reader:
        publisher = GrantPublisher(ledger.database, pusher, unchecked)
        publisher.publish()
        finish(ledger, allocation, ledger.now_s() * MICROSECONDS)
        time.sleep(1.05 - time.time() % 1)
        publisher.publish()
        pusher.flush()
        selector = Selector((GRANT_INFO, GRANT_VRAM), {"allocation": allocation})
        frame = reader.export(selector, second - 5, second + 10).frame
    values = frame.sort("series", "second_s")["value"].to_list()
    assert values == [1, 0, 7 * MIB, 0]
