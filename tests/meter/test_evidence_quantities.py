"""What was read is kept to the last byte, and nothing is kept that was not read."""

from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.units import GIB
from meter.evidence.evidence import RUN_COLUMNS
from meter.evidence.observations import SAMPLE_COLUMNS, RecordedObservations
from tests.meter.fixture_types import MakeSamples, Observe, UseOf
from tests.meter.hour import HOUR_S
from tests.meter.runs import SAMPLES, known_seconds, values_of


def test_a_hole_is_not_a_zero(observe: Observe, use_of: UseOf) -> None:
    """Seconds without a reading have no run of the quantity; a reading of zero has one."""
    evidence = observe([*use_of(range(5)), *use_of(range(8, 10), 0)])
    assert values_of(evidence, "vram_used") == [("GPU-1", "", "", 0, 5, GIB), ("GPU-1", "", "", 8, 2, 0)]


def test_quantities_lie_inside_the_window(observe: Observe, use_of: UseOf) -> None:
    evidence = observe(use_of(range(-5, 20)), end=10)
    assert values_of(evidence, "vram_used") == [("GPU-1", "", "", 0, 10, GIB)]
    assert known_seconds(evidence) == {("presence", ""): 10, ("looked", ""): 10, ("vram_used", ""): 10}


def test_owners_and_instances_are_kept_apart(observe: Observe, use_of: UseOf) -> None:
    rows = [*use_of([0], 5), *use_of([0], 3, owner="alloc:a1"), *use_of([0], 7, mig="MIG-1")]
    assert sorted(values_of(observe(rows), "vram_used")) == [
        ("GPU-1", "", "", 0, 1, 5),
        ("GPU-1", "", "alloc:a1", 0, 1, 3),
        ("GPU-1", "MIG-1", "", 0, 1, 7),
    ]


def test_an_owner_that_was_not_named_used_nothing_only_where_owners_were_told_apart(
    observe: Observe, use_of: UseOf
) -> None:
    """Missing is not zero: seconds in which the collector proved some owner are on record, and no others.

    A node that proves none says "unattributed" of everything, in second 4 and as long as it lives.
    """
    rows = [*use_of(range(6)), *use_of([1, 2], 3, owner="alloc:a1"), *use_of([2, 4], 0, owner="unattributed")]
    attributed = values_of(observe(rows), "attributed")
    assert attributed == [("GPU-1", "", "", 1, 2, 1)]
    compute = ("gpu_owner_compute_ratio", "GPU-1", "", "alloc:a1", 4, 0.5)
    assert values_of(observe([*rows, compute]), "attributed") == attributed


def test_owners_are_not_told_apart_while_their_card_is_lost(observe: Observe, use_of: UseOf) -> None:
    """What was read of them then is not valid, so neither is that others used nothing."""
    rows = [*use_of([0, 1, 2], 3, owner="alloc:a1"), ("gpu_up", "GPU-1", "", "", 1, 0.0)]
    evidence = observe([row for row in rows if row[4] != 1 or row[-1] != 1])
    assert values_of(evidence, "attributed") == [("GPU-1", "", "", 0, 1, 1), ("GPU-1", "", "", 2, 1, 1)]
    assert [run[3:5] for run in values_of(evidence, "vram_used")] == [(0, 1), (2, 1)]


def test_a_ratio_is_kept_in_millionths(observe: Observe) -> None:
    rows = [("gpu_busy_ratio", "GPU-1", "", "", 0, 0.123456), ("gpu_owner_compute_ratio", "GPU-1", "", "x", 0, 1)]
    values = values_of(observe(rows), "busy")
    assert [value for *_, value in values] == [123_456, 1_000_000]


def test_bytes_are_kept_to_the_last_one(observe: Observe, use_of: UseOf) -> None:
    """Nine digits of precision would give ...890."""
    for used in (1_234_567_891, 2**50 - 1):
        assert values_of(observe(use_of([0], used)), "vram_used")[0][-1] == used


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), -1.0, 2.0**63, 1.8e19])
def test_a_value_no_card_can_have_is_not_a_reading(observe: Observe, use_of: UseOf, garbage: float) -> None:
    """A sentinel is neither a number nor 0, and does not stop the meter (dcgm-exporter 216)."""
    rows = [*use_of([0, 2]), ("gpu_memory_used_bytes", "GPU-1", "", "", 1, garbage), ("gpu_up", "GPU-1", "", "", 1, 1)]
    evidence = observe(rows, end=3)
    assert values_of(evidence, "vram_used") == [("GPU-1", "", "", 0, 1, GIB), ("GPU-1", "", "", 2, 1, GIB)]


def test_garbage_that_came_twice_is_counted_once(observe: Observe) -> None:
    garbage = ("gpu_memory_used_bytes", "GPU-1", "", "", 1, -1.0)
    other = ("gpu_busy_ratio", "GPU-1", "", "", 1, 7.0)
    assert observe([garbage, garbage], end=3).quarantined_samples == 1
    assert observe([garbage, other], end=3).quarantined_samples == 2


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), -0.1, 1.001, 100.0, 1e14, 2.0**63])
@pytest.mark.parametrize(("series", "owner"), [("gpu_busy_ratio", ""), ("gpu_owner_compute_ratio", "x")])
def test_a_ratio_no_card_can_have_is_not_a_reading(observe: Observe, garbage: float, series: str, owner: str) -> None:
    """In millionths some of them would be beyond 64 bits."""
    rows = [(series, "GPU-1", "", owner, 0, garbage), (series, "GPU-1", "", owner, 1, 1.0)]
    assert values_of(observe(rows, end=3), "busy") == [("GPU-1", "", owner, 1, 1, 1_000_000)]


def test_of_two_different_readings_of_one_second_the_larger_counts(observe: Observe, use_of: UseOf) -> None:
    """The rule by which VictoriaMetrics merges a pair of collectors, so that both ways give one answer."""
    rows = [*use_of([0], 5), *use_of([0], 7), *use_of([0], 6)]
    assert values_of(observe(rows), "vram_used") == [("GPU-1", "", "", 0, 1, 7)]


@given(rows=SAMPLES, cut=st.integers(1, 49))
@settings(
    max_examples=settings().max_examples * 40 // 100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_runs_say_what_the_seconds_said_and_are_as_long_as_can_be(observe: Observe, rows: list[Any], cut: int) -> None:
    evidence = observe(rows, end=50)
    previous: dict[str, Any] = {}
    for run in evidence.runs.iter_rows(named=True):
        key = [run[column] for column in ("gpu_uuid", "mig_uuid", "owner", "quantity")]
        assert run["seconds"] > 0
        if previous and key == previous["key"]:
            assert run["start_s"] >= previous["end_s"]
            assert run["start_s"] > previous["end_s"] or run["value"] != previous["value"]
        previous = {"key": key, "end_s": run["start_s"] + run["seconds"], "value": run["value"]}
    halves = [observe(rows, end=cut), observe(rows, start=cut, end=50)]
    parts = [half.known_seconds() for half in halves]
    key = ["gpu_uuid", "mig_uuid", "owner", "quantity"]
    summed = pl.concat(parts).group_by(key).agg(pl.col("seconds").sum()).filter(pl.col("seconds") > 0)
    whole = evidence.known_seconds().filter(pl.col("seconds") > 0)
    assert sorted(summed.iter_rows()) == sorted(whole.iter_rows())
    assert {name: str(kind) for name, kind in evidence.runs.schema.items()} == {
        name: str(kind()) for name, kind in RUN_COLUMNS.items()
    }


def test_recorded_observations_give_half_open_stretches_of_a_node(make_samples: MakeSamples) -> None:
    frame = make_samples([("gpu_up", "GPU-1", "", "", second, 1) for second in range(5)])
    recorded = RecordedObservations({"n1": frame}, {"n1": 7})
    assert recorded.samples("n1", HOUR_S + 1, HOUR_S + 3)["second_s"].to_list() == [HOUR_S + 1, HOUR_S + 2]
    assert recorded.samples("n2", HOUR_S, HOUR_S + 9).schema == pl.Schema(SAMPLE_COLUMNS)
    assert (recorded.complete_until_s("n1"), recorded.complete_until_s("n2")) == (7, None)
