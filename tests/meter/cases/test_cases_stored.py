"""What a store is told twice, oddly or not at all: public bugs with a right answer, rated out of a VictoriaMetrics."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from sqlalchemy import insert, update

from domain.clock import FrozenClock, SystemClock
from domain.errors import UnavailableError
from domain.samples import SampleRun
from domain.series import CATALOGUE, COLLECTOR_COMPLETE_UNTIL
from domain.units import GIB
from machine.process import free_port
from meter.evidence.stored_observations import StoredObservations
from meter.rating.charges import Charge
from meter.windows.windows import Outcome, WindowResult
from store.database import Database
from store.tables.capacity import device_periods, nodes
from tests.meter.charges import gpu_charges
from tests.meter.facts import make_grant
from tests.meter.fixture_types import MakeRater, PutGrants
from tests.victoriametrics_server import start
from victoriametrics.encode import encode
from victoriametrics.push import Pusher
from victoriametrics.read import Reader

US = 1_000_000
HOUR = 3_600
SECONDS = 100
RatedFrom = Callable[[str], WindowResult]
BYTES = 25 * GIB


@pytest.fixture
def now_s() -> int:
    return SystemClock().now_us() // US


@pytest.fixture
def hour_s(now_s: int) -> int:
    """An hour that has passed, which the store still takes samples of."""
    return (now_s // HOUR - 2) * HOUR


@pytest.fixture
def rated_from(
    ledger: Database, make_rater: MakeRater, put_grants: PutGrants, unique_node: str, hour_s: int, now_s: int
) -> Iterator[RatedFrom]:
    """One pass over the hour out of the store at an address; GPU-1 of the node was granted for its first 100 s."""
    with ledger.write() as connection:
        connection.execute(insert(nodes).values(node=unique_node, created_us=0, inventory_us=now_s * US))
        connection.execute(update(device_periods).values(node=unique_node, start_us=hour_s * US))
    put_grants(make_grant(node=unique_node, start_us=hour_s * US, end_us=(hour_s + SECONDS) * US))
    readers: list[Reader] = []

    def rated(url: str) -> WindowResult:
        reader = Reader(url)
        readers.append(reader)
        observations = StoredObservations(url, reader, lookback_s=24 * HOUR, clock=FrozenClock(now_s * US))
        return make_rater(observations).rate_window(unique_node, hour_s * US, now_s * US)

    yield rated
    for reader in readers:
        reader.close()


def _collected(node: str, hour_s: int) -> bytes:
    """What the node's collector sends of the hundred seconds, with its mark."""
    seconds = [hour_s + second for second in range(SECONDS)]
    runs = [
        SampleRun(CATALOGUE["gpu_up"], {"node": node, "gpu_uuid": "GPU-1"}, seconds, [1] * SECONDS),
        SampleRun(CATALOGUE["gpu_memory_used_bytes"], {"node": node, "gpu_uuid": "GPU-1"}, seconds, [BYTES] * SECONDS),
        SampleRun(COLLECTOR_COMPLETE_UNTIL, {"node": node}, [hour_s + HOUR + 60], [hour_s + HOUR + 60]),
    ]
    return encode(runs)


def _push(url: str, *bodies: bytes) -> None:
    with Pusher(url) as pusher:
        for body in bodies:
            pusher.push(body)
        pusher.flush()


def _push_lines(url: str, lines: Iterable[dict[str, Any]]) -> None:
    """As others send: any labels, any stamp."""
    body = "\n".join(map(json.dumps, lines))
    httpx.post(f"{url}/api/v1/import", content=body, trust_env=False).raise_for_status()
    httpx.get(f"{url}/internal/force_flush", trust_env=False).raise_for_status()


def _seconds_and_use(charges: Iterable[Charge]) -> list[tuple[int, int, int | None, int]]:
    return [(each.granted_seconds, each.measured_seconds, each.covered_seconds, each.quantity) for each in charges]


ONCE = [(SECONDS, SECONDS, SECONDS, SECONDS * 1_000), (SECONDS, SECONDS, SECONDS, SECONDS * BYTES)]


def test_a_pair_of_collectors_with_equal_stamps_is_billed_once(
    victoriametrics_url: str, rated_from: RatedFrom, unique_node: str, hour_s: int
) -> None:
    """metering C29, metering C33: a sum over time counts both (VictoriaMetrics 6553, 1308, 86); a re-run adds none.

    A second run over the hour, and one after everything was sent again, leave the rows of the first (Koku COST-7820).
    """
    body = _collected(unique_node, hour_s)
    _push(victoriametrics_url, body, body)
    first = rated_from(victoriametrics_url)
    assert first.outcome is Outcome.SETTLED
    assert _seconds_and_use(first.charges) == ONCE
    assert rated_from(victoriametrics_url) == first
    _push(victoriametrics_url, body)
    assert rated_from(victoriametrics_url) == first


def test_a_pair_whose_stamps_are_apart_is_billed_once(
    victoriametrics_url: str, rated_from: RatedFrom, unique_node: str, hour_s: int
) -> None:
    """metering C30: at .193 and .313 of one second are two samples (VictoriaMetrics 8309, 6424; Lago 5359).

    gputab writes on whole seconds. What a stranger writes between two takes no sample's place, and is no second: it
    goes on for 100 s beyond the collector's last, and more than the card has is never used.
    """
    labels: dict[str, str] = {"node": unique_node, "gpu_uuid": "GPU-1"}
    stranger: list[dict[str, Any]] = [
        {
            "metric": labels | {"__name__": name},
            "values": [value] * (4 * SECONDS),
            "timestamps": [
                (hour_s + second) * 1_000 + shift_ms for second in range(2 * SECONDS) for shift_ms in (193, 313)
            ],
        }
        for name, value in (("gpu_up", 0), ("gpu_memory_used_bytes", 2 * BYTES))
    ]
    _push(victoriametrics_url, _collected(unique_node, hour_s))
    _push_lines(victoriametrics_url, stranger)
    assert _seconds_and_use(rated_from(victoriametrics_url).charges) == ONCE


def test_a_label_that_is_new_in_each_second_makes_no_second_card(
    victoriametrics_url: str, rated_from: RatedFrom, unique_node: str, hour_s: int
) -> None:
    """metering C31: of two collectors each gave every reading an id of its own (OpenMeter's Kubernetes preset).

    The identity of a reading is its card, instance and second; whatever else is written beside it is not.
    """
    _push(victoriametrics_url, _collected(unique_node, hour_s))
    _push_lines(
        victoriametrics_url,
        (
            {
                "metric": {"__name__": name, "node": unique_node, "gpu_uuid": "GPU-1", "event": uuid4().hex},
                "values": [value],
                "timestamps": [(hour_s + second) * 1_000],
            }
            for second in range(SECONDS)
            for name, value in (("gpu_up", 1), ("gpu_memory_used_bytes", BYTES))
            for _ in range(2)
        ),
    )
    assert _seconds_and_use(rated_from(victoriametrics_url).charges) == ONCE


def test_a_window_waits_for_a_store_that_is_down_and_for_one_that_is_empty(
    victoriametrics_binary: Path, rated_from: RatedFrom, unique_node: str, hour_s: int, tmp_path: Path
) -> None:
    """metering C38: an hour without a store was done with (CEEMS), and so was an empty answer (CloudKitty).

    It stays open, and is filled as soon as the samples are there.
    """
    port, folder = free_port(), tmp_path / "store"
    folder.mkdir()
    url = f"http://127.0.0.1:{port}"
    with start(binary=victoriametrics_binary, port=port, folder=folder):
        assert rated_from(url) == WindowResult(unique_node, hour_s * US, Outcome.WAITING, None, ())
        _push(url, _collected(unique_node, hour_s))
    with pytest.raises(UnavailableError, match=url):
        rated_from(url)
    with start(binary=victoriametrics_binary, port=port, folder=folder):
        found = rated_from(url)
    assert found.outcome is Outcome.SETTLED
    assert [each.measured_seconds for each in gpu_charges(found.charges)] == [SECONDS]
