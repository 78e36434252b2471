"""Observations of a real VictoriaMetrics, and a window that is rated out of it."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import polars as pl
import pytest
from sqlalchemy import insert, update

from domain.clock import FrozenClock, SystemClock
from domain.errors import UnavailableError
from domain.period import Period
from domain.samples import SampleRun
from domain.series import CATALOGUE, COLLECTOR_CLOCK_SKEW, COLLECTOR_COMPLETE_UNTIL, COLLECTOR_LATENESS
from machine.process import free_port
from meter.evidence.evidence import CONTEXT_S, make_evidence
from meter.evidence.observations import SAMPLE_COLUMNS, RecordedObservations
from meter.evidence.presence import Presence
from meter.evidence.stored_observations import StoredObservations
from meter.windows.windows import Outcome
from store.database import Database
from store.tables.capacity import device_periods, nodes
from tests.meter.fixture_types import MakeGrant, MakeRater, PutGrants
from victoriametrics.encode import encode
from victoriametrics.push import Pusher
from victoriametrics.read import Reader

US = 1_000_000
DAY_S = 86_400


@pytest.fixture
def now_s() -> int:
    return SystemClock().now_us() // US


@pytest.fixture
def push(victoriametrics_url: str, unique_node: str) -> Iterator[Callable[..., None]]:
    """Pushes runs of the test's node and makes them visible; each is (series, labels, seconds, values)."""
    with Pusher(victoriametrics_url) as pusher:

        def pushed(*runs: tuple[str, dict[str, str], Any, Any]) -> None:
            pusher.push(
                encode(
                    SampleRun(CATALOGUE[name], {"node": unique_node, **labels}, list(seconds), list(values))
                    for name, labels, seconds, values in runs
                )
            )
            pusher.flush()

        yield pushed


@pytest.fixture
def stored(victoriametrics_url: str, now_s: int) -> Iterator[StoredObservations]:
    """Observations by a clock that stands at `now_s`, looking back a day for marks."""
    with Reader(victoriametrics_url) as reader:
        yield StoredObservations(victoriametrics_url, reader, lookback_s=DAY_S, clock=FrozenClock(now_s * US))


def test_samples_come_back_as_the_meter_takes_them(
    push: Callable[..., None], stored: StoredObservations, unique_node: str, now_s: int
) -> None:
    """Only the series that evidence is made of, of the one node, at seconds of the half-open stretch."""
    first = now_s - 100
    push(
        ("gpu_memory_used_bytes", {"gpu_uuid": "GPU-1"}, range(first, first + 5), [2**52 + 1] * 5),
        ("gpu_owner_memory_bytes", {"gpu_uuid": "GPU-1", "owner": 'alloc:"a1"'}, [first], [7]),
        ("gpu_busy_ratio", {"gpu_uuid": "GPU-1", "mig_uuid": "MIG-1"}, [first], [0.25]),
        ("gpu_up", {"gpu_uuid": "GPU-1"}, [first], [0]),
        ("gpu_temperature_celsius", {"gpu_uuid": "GPU-1"}, [first], [60]),
        (COLLECTOR_LATENESS.name, {}, [first, first + 3], [0.25, 0.25]),
        (COLLECTOR_COMPLETE_UNTIL.name, {}, [first], [first]),
    )
    frame = stored.samples(unique_node, first, first + 3)
    assert frame.schema == pl.Schema(SAMPLE_COLUMNS)
    assert sorted(frame.rows()) == [
        # That the collector looked, also where no card answers.
        (COLLECTOR_LATENESS.name, "", "", "", first, 0.25),
        ("gpu_busy_ratio", "GPU-1", "MIG-1", "", first, 0.25),
        *(("gpu_memory_used_bytes", "GPU-1", "", "", first + n, float(2**52 + 1)) for n in range(3)),
        ("gpu_owner_memory_bytes", "GPU-1", "", 'alloc:"a1"', first, 7.0),
        ("gpu_up", "GPU-1", "", "", first, 0.0),
    ]
    assert stored.samples(f"{unique_node}-other", first, first + 3).is_empty()


def test_the_mark_is_the_latest_that_was_said(
    push: Callable[..., None], stored: StoredObservations, unique_node: str, now_s: int
) -> None:
    """Looked for as far back as a window may wait, however long the collector has been silent."""
    assert stored.complete_until_s(unique_node) is None
    name = COLLECTOR_COMPLETE_UNTIL.name
    push((name, {}, [now_s - DAY_S - 60], [now_s - DAY_S - 60]))
    assert stored.complete_until_s(unique_node) is None
    push((name, {}, [now_s - 50_000, now_s - 40_000], [now_s - 50_001, now_s - 40_001]))
    assert stored.complete_until_s(unique_node) == now_s - 40_001
    # A collector that started again with an older mark does not take anything back.
    push((name, {}, [now_s - 30_000], [now_s - 45_000]))
    assert stored.complete_until_s(unique_node) == now_s - 40_001


def test_the_skew_of_an_hour_is_the_largest_of_it_to_either_side(
    push: Callable[..., None], stored: StoredObservations, unique_node: str, now_s: int
) -> None:
    """Of the half-open stretch: what was measured in its first second counts, what was after its last does not."""
    start, end = now_s - 7_200, now_s - 3_600
    name = COLLECTOR_CLOCK_SKEW.name
    assert stored.clock_skew_s(unique_node, start, end) is None
    push((name, {}, [start - 1, end], [8.0, -9.0]))
    assert stored.clock_skew_s(unique_node, start, end) is None
    push((name, {}, [start + 60, start + 120], [0.25, -0.5]))
    assert stored.clock_skew_s(unique_node, start, end) == 0.5
    push((name, {}, [start], [-2.5]))
    assert stored.clock_skew_s(unique_node, start, end) == 2.5
    push((name, {}, [end - 1], [3.5]))
    assert stored.clock_skew_s(unique_node, start, end) == 3.5


def test_a_server_that_is_down_is_not_an_empty_one(unique_node: str, now_s: int) -> None:
    """One line with the address; a window is never taken for empty (CEEMS commits such a window as done)."""
    url = f"http://127.0.0.1:{free_port()}"
    with Reader(url) as reader:
        stored = StoredObservations(url, reader, lookback_s=DAY_S, clock=FrozenClock(now_s * US))
        for ask in (
            lambda: stored.samples(unique_node, 0, 1),
            lambda: stored.complete_until_s(unique_node),
            lambda: stored.clock_skew_s(unique_node, 0, 1),
        ):
            with pytest.raises(UnavailableError, match=url) as refused:
                ask()
            assert "\n" not in str(refused.value)


def test_a_window_out_of_the_store_is_the_window_out_of_memory(
    ledger: Database,
    make_rater: MakeRater,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    push: Callable[..., None],
    stored: StoredObservations,
    unique_node: str,
    now_s: int,
) -> None:
    """The same samples by both ways: equal charges and equal evidence; a third of a second's bytes come back whole."""
    start_s = (now_s // 3_600 - 2) * 3_600
    with ledger.write() as connection:
        connection.execute(insert(nodes).values(node=unique_node, created_us=0, inventory_us=now_s * US))
        connection.execute(update(device_periods).values(node=unique_node, start_us=start_s * US))
    put_grants(
        make_grant(
            node=unique_node,
            vram_bytes=10**9,
            start_us=start_s * US,
            end_us=(start_s + 3_000) * US,
        )
    )
    seconds = [start_s + second for second in range(3_600) if second % 100 != 99]
    used = [1_234_567_891 + second % 7 for second in seconds]
    push(
        ("gpu_up", {"gpu_uuid": "GPU-1"}, seconds, [1] * len(seconds)),
        ("gpu_memory_used_bytes", {"gpu_uuid": "GPU-1"}, seconds, used),
        (COLLECTOR_COMPLETE_UNTIL.name, {}, [start_s + 3_700], [start_s + 3_700]),
    )
    frame = pl.DataFrame(
        [
            (name, "GPU-1", "", "", second, float(value))
            for name, values in (("gpu_up", [1] * len(seconds)), ("gpu_memory_used_bytes", used))
            for second, value in zip(seconds, values, strict=True)
        ],
        schema=SAMPLE_COLUMNS,
        orient="row",
    )
    in_memory = RecordedObservations({unique_node: frame}, {unique_node: start_s + 3_600 + CONTEXT_S})
    results = [
        make_rater(observations).rate_window(unique_node, start_s * US, now_s * US)
        for observations in (stored, in_memory)
    ]
    assert results[0] == results[1]
    assert results[0].outcome is Outcome.SETTLED
    (vram,) = [each for each in results[0].charges if each.dimension == "vram"]
    overuse = sum(value - 10**9 for second, value in zip(seconds, used, strict=True) if second < start_s + 3_000)
    assert vram.quantity == 3_000 * 10**9 + overuse
    assert (vram.measured_seconds, vram.bridged_seconds, vram.covered_seconds) == (2_970, 30, 2_970)


@pytest.mark.parametrize("lines_lost", [0, 1])
def test_an_answer_that_is_cut_short_is_no_answer(
    push: Callable[..., None], victoriametrics_url: str, unique_node: str, now_s: int, lines_lost: int
) -> None:
    """What the server sends is reconciled with what it counts; duplicates, stale marks and strangers count as sent."""
    first = now_s - 100
    push(
        ("gpu_memory_used_bytes", {"gpu_uuid": "GPU-1"}, range(first, first + 50), range(50)),
        ("gpu_up", {"gpu_uuid": "GPU-1"}, range(first, first + 50), [1] * 50),
    )
    push(("gpu_up", {"gpu_uuid": "GPU-1"}, range(first, first + 50), [1] * 50))

    def through(request: httpx.Request) -> httpx.Response:
        answer = httpx.request(request.method, request.url, content=request.read(), headers=request.headers)
        lines = answer.content.splitlines(keepends=True)
        cut = request.url.path == "/api/v1/export" and lines_lost
        return httpx.Response(answer.status_code, content=b"".join(lines[:-1] if cut else lines))

    with Reader(victoriametrics_url, httpx.Client(transport=httpx.MockTransport(through))) as reader:
        clock = FrozenClock(now_s * US)
        observations = StoredObservations(victoriametrics_url, reader, lookback_s=DAY_S, clock=clock)
        if lines_lost:
            with pytest.raises(
                UnavailableError, match=r"^cannot read the samples of .* counts 100 and sent 50; see its"
            ):
                observations.samples(unique_node, first, first + 50)
        else:
            assert observations.samples(unique_node, first, first + 50).height == 100


def test_what_is_no_number_or_between_two_seconds_is_counted_and_left_out(
    stored: StoredObservations, unique_node: str, now_s: int, victoriametrics_url: str
) -> None:
    """A stranger's push; the store itself takes no NaN."""
    first = now_s - 100
    said = ((0, "5"), (1_000, "+Inf"), (2_000, "-Inf"), (3_500, "7"), (5_000, "-7"), (6_000, str(2**50)))
    name = f'gpu_memory_used_bytes{{node="{unique_node}",gpu_uuid="GPU-1"}}'
    lines = "".join(f"{name} {value} {first * 1_000 + offset_ms}\n" for offset_ms, value in said)
    httpx.post(f"{victoriametrics_url}/api/v1/import/prometheus", content=lines).raise_for_status()
    with Pusher(victoriametrics_url) as pusher:
        pusher.flush()
    period = Period(first * US, (first + 10) * US)
    found = make_evidence(unique_node, period, stored.samples(unique_node, first - 30, first + 40), [], [("GPU-1", "")])
    quarantined = found.quantity("quarantined").select("start_s", "seconds", "value").rows()
    assert quarantined == [(first + 1, 3, 1), (first + 5, 2, 1)]
    assert found.quarantined_samples == 5
    assert found.quantity("vram_used").select("start_s", "seconds", "value").rows() == [(first, 1, 5)]
    sampled = found.presence().filter(gpu_uuid="GPU-1", value=int(Presence.SAMPLED))
    assert sampled.select("start_s", "seconds").rows() == [(first, 1)]
