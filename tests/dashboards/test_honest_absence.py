"""What is not there is shown as not there: never as 0, never under another name, and never silently."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from collector.sample_runs import info_runs, one_sample
from domain.inventory import Device
from domain.samples import SampleRun
from domain.series import (
    GPU_BUSY,
    GPU_INFO,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_SM_ACTIVE,
    GPU_UP,
    GRANT_COMPUTE,
    GRANT_INFO,
    MIG_INFO,
    Series,
)
from domain.units import GIB
from tests.dashboards.conftest import Store
from tests.dashboards.fleet_samples import Scene, card, samples
from tests.dashboards.grafana import View, all_panels, ask

UP, LOST, NOT_SAMPLED = 1, 0, 2
NO_VALUE = -1


def of_card(
    node: str, seconds: range, values: Mapping[Series, float], *, index: int | None = 0, uuid: str = "GPU-1"
) -> Iterator[SampleRun]:
    """A card that says the same in each second, and describes itself at first unless it has no index."""
    if index is not None:
        yield from info_runs(node, seconds.start, [Device(uuid, index, "X", 1, 0)])
    for second_s in seconds:
        for series, value in values.items():
            yield one_sample(series, {"node": node, "gpu_uuid": uuid}, second_s, value)


def test_an_empty_store_shows_no_zero_anywhere(store: Store) -> None:
    view = View(store.new_time(), 3_600)
    for panel in all_panels(store.dashboard):
        for target in panel["targets"]:
            answer = ask(store.url, view, store.dashboard, panel, target)
            assert (answer.status, answer.lines) == (200, ()), (panel["title"], answer.text)


def test_every_panel_says_what_it_means_that_it_is_empty(dashboard: dict[str, Any]) -> None:
    assert [panel["title"] for panel in all_panels(dashboard) if not panel["fieldConfig"]["defaults"]["noValue"]] == []


@pytest.fixture(scope="module")
def trouble(store: Store) -> View:
    """Ten minutes in whose second half one card is silent, and another lost."""
    scene = Scene(
        store.new_time(),
        silent=frozenset({card("sim-4090-a", 3).device.uuid}),
        lost=frozenset({card("sim-h100", 0).device.uuid}),
    )
    store.push(samples(scene))
    return View(scene.end_s, 600)


def test_lost_and_silent_cards_are_counted_apart(store: Store, trouble: View) -> None:
    assert [store.number(1, trouble, query) for query in (0, 1)] == [18, 20]
    assert (store.number(2, trouble), store.number(3, trouble)) == (1, 1)


def test_a_card_without_a_value_keeps_its_row_and_is_not_idle(store: Store, trouble: View) -> None:
    rows = store.rows(10, trouble)
    assert len(rows) == 20
    for name in ("sim-4090-a/03 busy", "sim-h100/00"):
        assert rows[name][:300] == [0] * 300
        assert set(rows[name][301:]) == {NO_VALUE}
    assert set(rows["sim-4090-a/04 busy"]) == {0}


def test_the_states_say_which_it_is(store: Store, trouble: View) -> None:
    rows = store.rows(13, trouble)
    assert rows["sim-4090-a/03"][-1] == NOT_SAMPLED
    assert rows["sim-h100/00"][-1] == LOST
    assert set(rows["sim-4090-a/04"]) == {UP}
    assert [name for name, states in rows.items() if states[0] != UP] == []


def test_what_a_card_said_before_is_not_shown_as_now(store: Store, trouble: View) -> None:
    cards = {line.labels["card"] for line in store.ask(12, trouble).lines}
    assert not cards & {"sim-4090-a/03", "sim-h100/00"}


def test_what_a_card_missed_is_counted_and_the_others_missed_nothing(store: Store, trouble: View) -> None:
    missed = {line.labels["node"]: line.values[0] for line in store.ask(33, trouble, query=1).lines}
    assert missed == {"sim-4090-a": 301, "sim-4090-b": 0, "sim-h100": 0}


def test_a_card_is_not_missed_before_it_was_known(store: Store, trouble: View) -> None:
    rows = store.rows(13, View(trouble.end_s, 3_600))
    assert {len(states) for states in rows.values()} <= {60, 61}


def test_a_hole_in_sm_active_is_not_filled_by_busy(store: Store) -> None:
    end_s = store.new_time()
    first, second = range(end_s - 20, end_s - 10), range(end_s - 10, end_s + 1)
    store.push(of_card("n", first, {GPU_UP: 1, GPU_BUSY: 0.9, GPU_SM_ACTIVE: 0.2}))
    store.push(of_card("n", second, {GPU_UP: 1, GPU_BUSY: 0.9}))
    rows = store.rows(10, View(end_s, 20))
    assert rows == {"n/00": [0.2] * 10 + [NO_VALUE] * 11}
    assert store.number(4, View(end_s, 20)) == pytest.approx(0.2)
    assert store.number(4, View(end_s + 60, 20)) is None


def test_a_card_that_tells_neither_has_a_row_without_a_value(store: Store) -> None:
    end_s = store.new_time()
    store.push(of_card("n", range(end_s - 20, end_s + 1), {GPU_UP: 1}))
    assert set(store.rows(10, View(end_s, 20))["n/00"]) == {NO_VALUE}
    assert store.number(4, View(end_s, 20)) is None


def test_a_card_that_nothing_describes_is_shown_by_its_uuid(store: Store) -> None:
    """As of an imported log, which has no descriptions."""
    end_s = store.new_time()
    values = {GPU_UP: 1, GPU_BUSY: 0.5, GPU_MEMORY_TOTAL: 10 * GIB, GPU_MEMORY_USED: 9 * GIB}
    store.push(of_card("n", range(end_s - 20, end_s + 1), values, index=None))
    view = View(end_s, 20)
    assert set(store.rows(10, view)) == {"n/GPU-1 busy"}
    assert store.rows(11, view)["n/GPU-1"][-1] == pytest.approx(0.9)
    assert set(store.rows(13, view)["n/GPU-1"]) == {UP}
    assert store.ask(12, view).lines[0].labels["card"] == "n/GPU-1"
    assert [store.number(1, view, query) for query in (0, 1)] == [1, 1]


def test_a_granted_card_that_was_never_heard_of_is_missed(store: Store) -> None:
    end_s = store.new_time()
    labels = {"gpu_uuid": "GPU-9", "allocation": "a", "tenant": "t", "project": "p", "kind": "whole"}
    store.push(one_sample(GRANT_INFO, labels, second_s, 1) for second_s in range(end_s - 60, end_s + 1, 5))
    store.push(of_card("n", range(end_s - 60, end_s + 1), {GPU_UP: 1}))
    view = View(end_s, 60, chosen={"node": ["n"], "tenant": None})
    assert [store.number(1, view, query) for query in (0, 1)] == [1, 2]
    assert store.number(3, view) == 1
    assert set(store.rows(13, view)["unknown node/GPU-9"]) == {NOT_SAMPLED}


def test_a_card_that_is_described_twice_has_its_latest_name(store: Store) -> None:
    """After a reboot cards may be numbered in another order: two names for one card would fail the whole panel."""
    end_s = store.new_time()
    store.push(of_card("n", range(end_s - 600, end_s - 300), {GPU_UP: 1, GPU_BUSY: 0.5}, index=3))
    store.push(of_card("n", range(end_s - 300, end_s + 1), {GPU_UP: 1, GPU_BUSY: 0.5}, index=11))
    view = View(end_s, 600)
    assert set(store.rows(10, view)) == {"n/11 busy"}
    assert set(store.rows(13, view)) == {"n/11"}
    assert store.number(1, view, query=1) == 1


def test_a_card_that_got_the_number_of_a_dead_one_does_not_hide_it(store: Store) -> None:
    """A card falls off the bus, the node is started again, and the next card is numbered as it was."""
    end_s = store.new_time()
    before, after = range(end_s - 60, end_s - 30), range(end_s - 30, end_s + 1)
    store.push(of_card("n", before, {GPU_UP: 1, GPU_BUSY: 0.5}, uuid="GPU-1", index=0))
    store.push(of_card("n", before, {GPU_UP: 1, GPU_BUSY: 0.7}, uuid="GPU-2", index=1))
    store.push(of_card("n", after, {GPU_UP: 1, GPU_BUSY: 0.7}, uuid="GPU-2", index=0))
    view = View(end_s, 60)
    assert [store.number(1, view, query) for query in (0, 1)] == [1, 2]
    states = store.rows(13, view)
    assert set(states) == {"n/00", "n/GPU-1"}
    assert set(states["n/00"]) == {UP}
    assert (states["n/GPU-1"][0], states["n/GPU-1"][-1]) == (UP, NOT_SAMPLED)
    assert store.rows(10, view) == {"n/00 busy": [0.7] * 61, "n/GPU-1 busy": [0.5] * 30 + [NO_VALUE] * 31}


def test_a_card_that_moved_to_another_node_is_not_missed_on_the_first(store: Store) -> None:
    end_s = store.new_time()
    before, after = range(end_s - 120, end_s - 60), range(end_s - 60, end_s + 1)
    store.push(of_card("n1", before, {GPU_UP: 1, GPU_BUSY: 0.5}, index=0))
    store.push(of_card("n2", after, {GPU_UP: 1, GPU_BUSY: 0.5}, index=5))
    view = View(end_s, 120)
    assert [store.number(1, view, query) for query in (0, 1)] == [1, 1]
    assert store.number(3, view) == 0
    assert {name: set(states) for name, states in store.rows(13, view).items()} == {"n1/00": {UP}, "n2/05": {UP}}
    left = View(end_s, 120, chosen={"node": ["n1"], "tenant": None})
    assert (store.number(1, left, query=1), store.number(3, left)) == (None, None)


def test_cards_whose_number_nobody_told_have_a_row_each(store: Store) -> None:
    """A log may tell UUIDs and models, and no index."""
    end_s = store.new_time()
    seconds = range(end_s - 20, end_s + 1)
    for uuid, busy in (("GPU-1", 0.1), ("GPU-2", 0.9)):
        store.push(of_card("n", seconds, {GPU_UP: 1, GPU_BUSY: busy}, uuid=uuid, index=None))
        labels = {"node": "n", "gpu_uuid": uuid, "index": "", "model": "X", "driver_version": "", "pci_bus_id": ""}
        store.push([one_sample(GPU_INFO, labels, seconds.start, 1)])
    assert store.rows(10, View(end_s, 20)) == {"n/GPU-1 busy": [0.1] * 21, "n/GPU-2 busy": [0.9] * 21}


def test_mig_instances_that_nothing_describes_are_told_apart(store: Store) -> None:
    end_s = store.new_time()
    seconds = range(end_s - 20, end_s + 1)
    store.push(of_card("n", seconds, {GPU_UP: 1, GPU_MEMORY_TOTAL: 10 * GIB, GPU_MEMORY_USED: 8 * GIB}))
    for mig_uuid, used in (("MIG-1", 3 * GIB), ("MIG-2", 5 * GIB)):
        labels = {"node": "n", "gpu_uuid": "GPU-1", "mig_uuid": mig_uuid}
        for series, value in ((GPU_MEMORY_TOTAL, 5 * GIB), (GPU_MEMORY_USED, used)):
            store.push([SampleRun(series, labels, seconds, [value] * len(seconds))])
    fullest = {name: values[-1] for name, values in store.rows(11, View(end_s, 20)).items()}
    assert fullest == {"n/00": 0.8, "n/GPU-1/MIG-1": 0.6, "n/GPU-1/MIG-2": 1.0}


def test_an_instance_that_was_made_again_does_not_take_over_the_first_ones_line(store: Store) -> None:
    end_s = store.new_time()
    before, after = range(end_s - 60, end_s - 30), range(end_s - 30, end_s + 1)
    for mig_uuid, used, seconds in (("MIG-1", 3 * GIB, before), ("MIG-2", 5 * GIB, after)):
        labels = {"node": "n", "gpu_uuid": "GPU-1", "mig_uuid": mig_uuid}
        store.push(of_card("n", seconds, {GPU_UP: 1}))
        store.push([one_sample(MIG_INFO, {**labels, "gi_id": "7", "profile": "1g.10gb"}, seconds.start, 1)])
        for series, value in ((GPU_MEMORY_TOTAL, 10 * GIB), (GPU_MEMORY_USED, used)):
            store.push([SampleRun(series, labels, seconds, [value] * len(seconds))])
    rows = store.rows(11, View(end_s, 60))
    assert {name: set(values) for name, values in rows.items()} == {"n/GPU-1/MIG-1": {0.3}, "n/00/gi07": {0.5}}


def test_a_card_of_an_imported_log_answers_by_its_readings(store: Store) -> None:
    """Which has no word of whether the card is up; and what it is silent about is not known either."""
    end_s = store.new_time()
    store.push(of_card("n", range(end_s - 60, end_s - 30), {GPU_BUSY: 0.5}, uuid="GPU-1", index=0))
    store.push(of_card("n", range(end_s - 60, end_s + 1), {GPU_MEMORY_USED: GIB}, uuid="GPU-2", index=1))
    view = View(end_s, 60)
    assert [store.number(1, view, query) for query in (0, 1)] == [1, 2]
    assert (store.number(2, view), store.number(3, view)) == (0, 1)
    states = store.rows(13, view)
    assert (states["n/00"][0], states["n/00"][-1]) == (UP, NOT_SAMPLED)
    assert set(states["n/01"]) == {UP}
    assert store.ask(20, view, query=2).lines[0].values[-1] == 1


def test_of_a_fleet_that_is_silent_as_a_whole_no_card_reports(store: Store) -> None:
    end_s = store.new_time()
    store.push(of_card("n", range(end_s - 60, end_s - 30), {GPU_UP: 1}))
    view = View(end_s, 60)
    assert [store.number(1, view, query) for query in (0, 1)] == [0, 1]
    assert (store.number(2, view), store.number(3, view)) == (None, 1)


def test_what_is_granted_on_a_node_that_is_down_is_not_granted_twice(store: Store) -> None:
    """The cards that there are do not end with the node's last word: only those that are up do."""
    end_s = store.new_time()
    labels = {"gpu_uuid": "GPU-1", "allocation": "a", "tenant": "t", "project": "p", "kind": "whole"}
    store.push(one_sample(GRANT_COMPUTE, labels, second_s, 1) for second_s in range(end_s - 900, end_s + 1, 5))
    store.push(of_card("n", range(end_s - 900, end_s - 600), {GPU_UP: 1}))
    view = View(end_s, 900)
    assert store.rows(20, view)["t"][-1] == 1
    there, up = (store.ask(20, view, query).lines[0] for query in (1, 2))
    assert (there.values[-1], there.seconds[-1]) == (1, end_s)
    assert up.seconds[-1] < end_s - 500


def test_used_vram_is_of_the_cards_that_tell_their_size(store: Store) -> None:
    """A log may tell what is used and not of how much."""
    end_s = store.new_time()
    seconds = range(end_s - 20, end_s + 1)
    store.push(of_card("n", seconds, {GPU_MEMORY_TOTAL: 10 * GIB, GPU_MEMORY_USED: 4 * GIB}, uuid="GPU-1", index=1))
    store.push(of_card("n", seconds, {GPU_MEMORY_USED: 30 * GIB}, uuid="GPU-2", index=2))
    store.push(of_card("n", seconds, {GPU_MEMORY_TOTAL: 10 * GIB}, uuid="GPU-3", index=3))
    assert store.number(5, View(end_s, 20)) == pytest.approx(0.4)


def test_a_node_with_a_dot_in_its_name_is_chosen_alone(store: Store) -> None:
    end_s = store.new_time()
    seconds = range(end_s - 20, end_s + 1)
    store.push(of_card("rack.1", seconds, {GPU_UP: 1}, uuid="GPU-1"))
    store.push(of_card("rack-1", seconds, {GPU_UP: 1}, uuid="GPU-2"))
    assert store.number(1, View(end_s, 20, chosen={"node": ["rack.1"]})) == 1
    assert store.number(1, View(end_s, 20, chosen={"node": ["rack.1", "rack-1"]})) == 2


def test_a_driver_that_tells_no_reserve_reserves_nothing(store: Store) -> None:
    end_s = store.new_time()
    seconds = range(end_s - 20, end_s + 1)
    told = {GPU_MEMORY_TOTAL: 10 * GIB, GPU_MEMORY_USED: 4 * GIB}
    store.push(of_card("n", seconds, told, uuid="GPU-1", index=1))
    store.push(of_card("n", seconds, {**told, GPU_MEMORY_RESERVED: 2 * GIB}, uuid="GPU-2", index=2))
    rows = store.rows(11, View(end_s, 20))
    assert {name: values[-1] for name, values in rows.items()} == {"n/01": 0.4, "n/02": 0.5}
    assert store.number(5, View(end_s, 20)) == pytest.approx(8 / 18)
