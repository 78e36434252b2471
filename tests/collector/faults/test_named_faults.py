"""Each fault by itself, on a real `gputab collect`: a slice of its length in `make test`, all of it in `make soak`.

After each: every second that was read is in the store once, holes are counted and have a reason, and nothing is 0, or
anything else, that was not so. `README.md` says which test is about which fault.
"""

import random
import resource
import signal
from contextlib import ExitStack
from pathlib import Path

import pytest

from collector.delivery.holes import HoleReason
from domain.series import COLLECTOR_CLOCK_STEPS, GPU_FIELD_STATE, GPU_UP, GPU_XID_EVENTS
from tests.collector.faults.evidence import Evidence
from tests.collector.faults.node import Node, running_node
from tests.collector.faults.schedule import door_resets, store_killed, store_stopped
from tests.collector.patience import CLOCK, PATIENCE_S, now_s, wait_until
from tests.collector.stores import own_store
from tests.side_by_side import side_by_side

IMPORT = "/api/v1/import"


def _begin(node: Node, seconds: int) -> int:
    """Let it work for so long at least, wait until it has delivered something, and say when it began."""
    began_s = now_s()
    node.work.run(range(began_s - 40, began_s + seconds + 240))
    node.begin()
    wait_until(node.is_delivered)
    return began_s


def _answer_imports(node: Node, status: int | None) -> None:
    """Let the door answer to every push, or pass it on."""
    node.door.answers = lambda path, _body: (status, {}) if status and path == IMPORT else None


@pytest.mark.long
@side_by_side
def test_whatever_the_store_does_no_second_is_missing(
    folder: Path, nvml_library: Path, victoriametrics_binary: Path, *, is_soak: bool
) -> None:
    """It answers 400, 429 and 503, resets connections, hangs for 60 s, is down for 60 s and back (in a slice: 3 s)."""
    short_s, long_s = (15, 60) if is_soak else (1.5, 3)
    with own_store(victoriametrics_binary, folder) as store, running_node(folder, nvml_library, store) as node:
        began_s = _begin(node, 300)
        for status in (400, 429, 503):
            _answer_imports(node, status)
            CLOCK.sleep_s(short_s)
        _answer_imports(node, None)
        wait_until(node.is_delivered)
        for fault, seconds in ((door_resets, short_s), (store_stopped, long_s), (store_killed, long_s)):
            with fault(node, random.Random(0)):
                CLOCK.sleep_s(seconds)
            wait_until(node.is_delivered)
        node.end()
        evidence = Evidence(node, began_s)
    assert len(evidence.sampled) > 3 * short_s + 2 * long_s, node.log()
    assert node.log().count("store_unavailable") >= 3
    assert not any(card.lost for card in evidence.cards.values()), node.log()


@pytest.mark.long
@side_by_side
def test_a_card_that_hangs_and_one_that_is_lost_cost_the_others_nothing_and_a_new_driver_is_followed(
    folder: Path, nvml_library: Path, victoriametrics_binary: Path, *, is_soak: bool
) -> None:
    """L1, L2, L4: a call hangs for 60 s (in a slice: 6 s), meanwhile a card is lost; then the driver is another."""
    seconds = 60 if is_soak else 6
    with own_store(victoriametrics_binary, folder) as store, running_node(folder, nvml_library, store) as node:
        began_s = _begin(node, seconds)
        hanging, lost, *others = node.uuids
        fault = node.driver.fault(0, "nvmlDeviceGetMemoryInfo_v2", hanging, hang=True)
        wait_until(lambda: fault.waiting > 0)
        node.driver.lose(lost)
        struck_s = now_s()
        CLOCK.sleep_s(seconds)
        mended_s = now_s()
        fault.take_back()
        node.driver.find(lost)
        wait_until(lambda: _is_up(node, {hanging, lost}))
        swapped_s = now_s()
        node.driver.exchange("610.57.04")
        wait_until(lambda: node.log().count("collector_started") == 2)
        wait_until(lambda: _is_up(node, set(node.uuids)))
        node.end()
        evidence = Evidence(node, began_s)
        states = node.samples(struck_s, mended_s, GPU_FIELD_STATE)

    before = {second_s for second_s in evidence.sampled if second_s < swapped_s}
    # Either may have answered in the second in which it was struck.
    struck = before & set(range(struck_s + 1, mended_s))
    for uuid in others:
        # Where the machine is busy, one may be late now and then.
        assert len(evidence.untold(uuid) & struck) <= len(struck) // 4, node.log()
    assert struck <= evidence.untold(hanging), node.log()
    assert not struck & evidence.cards[hanging].up.keys(), "mute is not lost"
    assert struck <= evidence.cards[lost].lost, node.log()
    assert not evidence.cards[lost].lost - set(range(struck_s, swapped_s)), node.log()
    assert "lost" in set(states.filter((states["gpu_uuid"] == lost) & (states["value"] == 1))["state"])


def _is_up(node: Node, uuids: set[str]) -> bool:
    """Whether each of these cards was up in a second of just now."""
    frame = node.samples(now_s() - 2, now_s() + 1, GPU_UP)
    return uuids <= set(frame.filter(frame["value"] == 1)["gpu_uuid"])


@side_by_side
def test_a_clock_that_is_set_is_followed_once_it_is_believed(
    folder: Path, nvml_library: Path, victoriametrics_binary: Path
) -> None:
    """O5: five seconds back on one node, thirty ahead on another, for good; no second is stamped twice."""
    steps = {"back": -5, "ahead": 30}
    with ExitStack() as stack:
        store = stack.enter_context(own_store(victoriametrics_binary, folder))
        nodes = {}
        for name in steps:
            (folder / name).mkdir()
            nodes[name] = stack.enter_context(running_node(folder / name, nvml_library, store, name))
        began_s = {name: _begin(node, 60) for name, node in nodes.items()}
        for name, node in nodes.items():
            node.set_clock(steps[name])
        evidence = {}
        for name, node in nodes.items():
            wait_until(lambda log=node.log: "clock_step_believed" in log())  # type: ignore[misc]
            node.end()
            evidence[name] = Evidence(node, began_s[name])
            frame = node.samples(began_s[name], now_s() + 120, COLLECTOR_CLOCK_STEPS).sort("second_s")
            assert frame["value"][-1] == 1, node.log()
            assert not any(card.lost for card in evidence[name].cards.values()), node.log()
    # Ten seconds pass before a step is believed. Set back by five, five of them come again and are not sampled twice.
    by_clock = {name: its.holes_by_reason[HoleReason.CLOCK] for name, its in evidence.items()}
    assert 4 <= by_clock["back"] <= evidence["back"].holes < 30
    assert 38 <= by_clock["ahead"] <= evidence["ahead"].holes < 70


@side_by_side
def test_two_collectors_of_a_node_are_as_good_as_one(
    folder: Path, nvml_library: Path, victoriametrics_binary: Path
) -> None:
    """One stands by. It takes over when the other is killed, which then stands by itself and delivers what it had.

    What each counts goes on with the next.
    """
    with own_store(victoriametrics_binary, folder) as store, running_node(folder, nvml_library, store) as node:
        began_s = _begin(node, 60)
        other = node.start("other", "standing_by")
        _let_xid_happen(node)
        _let_xid_happen(node)
        _answer_imports(node, 503)
        CLOCK.sleep_s(2)
        node.kill()
        wait_until(lambda: node.log().count("collector_started") == 2)
        _answer_imports(node, None)
        node.collector = node.start("data", "standing_by")
        _let_xid_happen(node)
        CLOCK.sleep_s(3)
        other.send_signal(signal.SIGTERM)
        assert other.wait(PATIENCE_S) == 0, node.log()
        wait_until(lambda: node.log().count("collector_started") == 3)
        _let_xid_happen(node)
        node.deliver("other")
        node.end()
        evidence = Evidence(node, began_s, ["other"])
        xids = node.samples(began_s, now_s() + 10, GPU_XID_EVENTS).sort("second_s")["value"].to_list()
    assert xids == sorted(xids), "what was counted is not counted again"
    assert xids[-1] == node.log().count("event='xid'") >= 4
    assert evidence.holes_by_reason[HoleReason.STOOD_BY] >= 3, "the other has sampled those"
    assert not any(card.lost for card in evidence.cards.values()), node.log()


def _let_xid_happen(node: Node) -> None:
    """On the first card, until one has been counted: what happens before anybody listens is lost."""
    told = node.log().count("event='xid'")
    while node.log().count("event='xid'") == told:
        node.driver.event(node.uuids[0], 8, 31)
        CLOCK.sleep_s(1)
    # What was let happen once more may be counted yet.
    CLOCK.sleep_s(2)


@pytest.mark.long
@side_by_side
def test_a_full_disk_costs_what_the_last_minute_does_not_hold(
    folder: Path, nvml_library: Path, victoriametrics_binary: Path, *, is_soak: bool
) -> None:
    """Neither queue nor log can grow, while the store is away; then `kill -9` (in soak: full for 90 s)."""
    seconds = 90 if is_soak else 4
    with own_store(victoriametrics_binary, folder) as store, running_node(folder, nvml_library, store) as node:
        began_s = _begin(node, seconds)
        assert node.collector is not None
        journal = node.queue_path().with_name(f"{node.queue_path().name}-wal")
        _answer_imports(node, 503)
        wait_until(lambda: "store_unavailable" in node.log())
        # What has a size already is above it, but for the log, which gets not one byte more.
        limit = (folder / "log-0").stat().st_size
        assert limit < journal.stat().st_size
        resource.prlimit(node.collector.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        size = journal.stat().st_size
        CLOCK.sleep_s(seconds)
        assert journal.stat().st_size == size, "nothing was written"
        assert node.collector.poll() is None, node.log()
        _answer_imports(node, None)
        wait_until(node.is_delivered)
        assert journal.stat().st_size == size
        resource.prlimit(node.collector.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        wait_until(lambda: "queue_written_again" in node.log())
        _answer_imports(node, 503)
        CLOCK.sleep_s(2)
        node.kill()
        _answer_imports(node, None)
        node.begin()
        node.end()
        evidence = Evidence(node, began_s)
    # Those that memory did not hold, and those in which no collector ran.
    assert evidence.holes_by_reason[HoleReason.DISK] >= (25 if is_soak else 0)
    assert not any(card.lost for card in evidence.cards.values()), node.log()
