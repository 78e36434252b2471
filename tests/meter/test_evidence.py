"""What is frozen of a window: every second of every card, and nothing that was not there."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from domain.errors import UnavailableError
from domain.period import Period
from domain.series import COLLECTOR_LATENESS
from meter.evidence import CONTEXT_S, RUN_COLUMNS, Evidence, read_evidence, write_evidence
from meter.observations import SAMPLE_COLUMNS, RecordedObservations
from meter.presence import Presence

GIB = 2**30
LATENESS = COLLECTOR_LATENESS.name
Observe = Callable[..., Evidence]
UseOf = Callable[..., list[Any]]


@pytest.fixture
def presence(hour_s: int) -> Callable[..., dict[int, Presence]]:
    """Presence by second, as offset into the hour, of a card ('' for the node)."""

    def of(evidence: Evidence, gpu: str = "GPU-1", mig: str = "") -> dict[int, Presence]:
        runs = evidence.presence().filter((pl.col("gpu_uuid") == gpu) & (pl.col("mig_uuid") == mig))
        return {
            second - hour_s: Presence(run["value"])
            for run in runs.iter_rows(named=True)
            for second in range(run["start_s"], run["start_s"] + run["seconds"])
        }

    return of


def _values(evidence: Evidence, quantity: str, hour_s: int) -> list[tuple[str, str, str, int, int, int]]:
    return [
        (run["gpu_uuid"], run["mig_uuid"], run["owner"], run["start_s"] - hour_s, run["seconds"], run["value"])
        for run in evidence.quantity(quantity).iter_rows(named=True)
    ]


def test_a_hole_is_not_a_zero(observe: Observe, use_of: UseOf, hour_s: int) -> None:
    """Promise 5: seconds without a reading have no run of the quantity; a reading of zero has one."""
    evidence = observe([*use_of(range(5)), *use_of(range(8, 10), 0)])
    assert _values(evidence, "vram_used", hour_s) == [("GPU-1", "", "", 0, 5, GIB), ("GPU-1", "", "", 8, 2, 0)]


def test_a_reading_of_a_lost_card_is_not_valid(
    observe: Observe, use_of: UseOf, hour_s: int, presence: Callable[..., Any]
) -> None:
    """Whatever a lost card still says of its memory, and whatever its instances say."""
    rows = [*use_of(range(3)), *use_of(range(3), mig="MIG-1"), ("gpu_up", "GPU-1", "", "", 1, 0)]
    evidence = observe(rows, end=3)
    assert presence(evidence)[1] is Presence.LOST
    assert presence(evidence, mig="MIG-1")[1] is Presence.LOST
    assert {(start, seconds) for *_, start, seconds, _ in _values(evidence, "vram_used", hour_s)} == {(0, 1), (2, 1)}


def test_one_lost_instance_costs_its_card_and_the_others_nothing(
    observe: Observe, use_of: UseOf, presence: Callable[..., Any]
) -> None:
    """Promise 8, inside a card."""
    rows = [*use_of([0]), *use_of([0], mig="MIG-1"), ("gpu_up", "GPU-1", "MIG-2", "", 0, 0)]
    evidence = observe(rows, end=1)
    seen = {mig: presence(evidence, mig=mig)[0] for mig in ("", "MIG-1", "MIG-2")}
    assert seen == {"": Presence.SAMPLED, "MIG-1": Presence.SAMPLED, "MIG-2": Presence.LOST}


def test_one_sick_card_costs_the_others_nothing(observe: Observe, use_of: UseOf, presence: Callable[..., Any]) -> None:
    evidence = observe([*use_of(range(3), gpu="GPU-2"), ("gpu_up", "GPU-1", "", "", 1, 0)], end=3)
    assert [presence(evidence, "GPU-2")[second] for second in range(3)] == [Presence.SAMPLED] * 3


@pytest.mark.parametrize(
    ("rows", "heard", "expected"),
    [
        # Others of the node were sampled, this one was not.
        ([("gpu_up", "GPU-2", "", "", 5, 1)], [], Presence.ABSENT),
        ([("gpu_up", "GPU-2", "", "", 5, 1)], [(0, 100)], Presence.ABSENT),
        # A lost card was heard from, so its node's collector works.
        ([("gpu_up", "GPU-2", "", "", 5, 0)], [], Presence.ABSENT),
        ([], [(0, 100)], Presence.COLLECTOR_DOWN),
        # A heartbeat stands for ten seconds from its own on.
        ([], [(0.7, 4.9)], Presence.COLLECTOR_DOWN),
        ([], [(5.9, 5.9)], Presence.COLLECTOR_DOWN),
        ([], [(6, 9)], Presence.HOST_UNREACHABLE),
        ([], [(-50, -4)], Presence.COLLECTOR_DOWN),
        ([], [(-50, -5)], Presence.HOST_UNREACHABLE),
        ([], [], Presence.HOST_UNREACHABLE),
        # A sample of whatever card stands for as long as a heartbeat does.
        ([("gpu_up", "GPU-1", "", "", -4, 1)], [], Presence.COLLECTOR_DOWN),
        ([("gpu_up", "GPU-2", "", "", -4, 1)], [], Presence.COLLECTOR_DOWN),
        ([("gpu_up", "GPU-1", "MIG-1", "", 4, 0)], [], Presence.COLLECTOR_DOWN),
        ([(LATENESS, "", "", "", -4, 0.001)], [], Presence.COLLECTOR_DOWN),
        ([("gpu_up", "GPU-1", "", "", -5, 1)], [], Presence.HOST_UNREACHABLE),
        ([("gpu_up", "GPU-1", "", "", 6, 1)], [], Presence.HOST_UNREACHABLE),
        # The collector looked and no card answered: it is the card that is missing.
        ([(LATENESS, "", "", "", 5, 0.001)], [], Presence.ABSENT),
        ([(LATENESS, "", "", "", 5, 0.0)], [(0, 100)], Presence.ABSENT),
        ([(LATENESS, "", "", "", 5, 0.001), ("gpu_up", "GPU-1", "", "", 5, 0)], [], Presence.LOST),
        ([("gpu_up", "GPU-1", "", "", 5, 0)], [(0, 100)], Presence.LOST),
        ([("gpu_busy_ratio", "GPU-1", "", "", 5, 0)], [], Presence.SAMPLED),
    ],
)
def test_why_a_second_was_not_sampled_is_told_apart(
    observe: Observe,
    presence: Callable[..., Any],
    rows: list[Any],
    heard: list[tuple[float, float]],
    expected: Presence,
) -> None:
    evidence = observe(rows, end=10, heard=heard, devices=[("GPU-1", "")])
    assert presence(evidence)[5] is expected


def test_a_card_of_the_inventory_that_never_spoke_is_there(observe: Observe, presence: Callable[..., Any]) -> None:
    evidence = observe([], end=10, devices=[("GPU-9", ""), ("GPU-9", "MIG-1")])
    assert set(presence(evidence, "GPU-9").values()) == {Presence.HOST_UNREACHABLE}
    assert set(presence(evidence, "GPU-9", "MIG-1").values()) == {Presence.HOST_UNREACHABLE}


def test_presence_covers_every_second_with_its_context(
    observe: Observe, use_of: UseOf, presence: Callable[..., Any]
) -> None:
    """So that a hole across the seam of two windows is seen whole from either."""
    evidence = observe(use_of([-CONTEXT_S, 3599 + CONTEXT_S]))
    seconds = range(-CONTEXT_S, 3600 + CONTEXT_S)
    for card in ("GPU-1", ""):
        assert list(presence(evidence, card)) == list(seconds)
    sampled = [second for second, what in presence(evidence).items() if what is Presence.SAMPLED]
    assert sampled == [-CONTEXT_S, 3599 + CONTEXT_S]


def test_quantities_lie_inside_the_window(observe: Observe, use_of: UseOf, hour_s: int) -> None:
    evidence = observe(use_of(range(-5, 20)), end=10)
    assert _values(evidence, "vram_used", hour_s) == [("GPU-1", "", "", 0, 10, GIB)]
    assert _known(evidence) == {("presence", ""): 10, ("looked", ""): 10, ("vram_used", ""): 10}


def test_owners_and_instances_are_kept_apart(observe: Observe, use_of: UseOf, hour_s: int) -> None:
    rows = [*use_of([0], 5), *use_of([0], 3, owner="alloc:a1"), *use_of([0], 7, mig="MIG-1")]
    assert sorted(_values(observe(rows), "vram_used", hour_s)) == [
        ("GPU-1", "", "", 0, 1, 5),
        ("GPU-1", "", "alloc:a1", 0, 1, 3),
        ("GPU-1", "MIG-1", "", 0, 1, 7),
    ]


def test_an_owner_that_was_not_named_used_nothing_only_where_owners_were_told_apart(
    observe: Observe, use_of: UseOf, hour_s: int
) -> None:
    """Missing is not zero: seconds in which the collector proved some owner are on record, and no others.

    A node that proves none says "unattributed" of everything, in second 4 and as long as it lives.
    """
    rows = [*use_of(range(6)), *use_of([1, 2], 3, owner="alloc:a1"), *use_of([2, 4], 0, owner="unattributed")]
    attributed = _values(observe(rows), "attributed", hour_s)
    assert attributed == [("GPU-1", "", "", 1, 2, 1)]
    compute = ("gpu_owner_compute_ratio", "GPU-1", "", "alloc:a1", 4, 0.5)
    assert _values(observe([*rows, compute]), "attributed", hour_s) == attributed


def test_a_ratio_is_kept_in_millionths(observe: Observe, hour_s: int) -> None:
    rows = [("gpu_busy_ratio", "GPU-1", "", "", 0, 0.123456), ("gpu_owner_compute_ratio", "GPU-1", "", "x", 0, 1)]
    values = _values(observe(rows), "busy", hour_s)
    assert [value for *_, value in values] == [123_456, 1_000_000]


def test_bytes_are_kept_to_the_last_one(observe: Observe, use_of: UseOf, hour_s: int) -> None:
    """metering.md D47: nine digits of precision would give ...890."""
    for used in (1_234_567_891, 2**50 - 1):
        assert _values(observe(use_of([0], used)), "vram_used", hour_s)[0][-1] == used


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), -1.0, 2.0**63, 1.8e19])
def test_a_value_no_card_can_have_is_not_a_reading(
    observe: Observe, use_of: UseOf, hour_s: int, garbage: float
) -> None:
    """metering.md A15: a sentinel is neither a number nor 0, and does not stop the meter."""
    rows = [*use_of([0, 2]), ("gpu_memory_used_bytes", "GPU-1", "", "", 1, garbage), ("gpu_up", "GPU-1", "", "", 1, 1)]
    evidence = observe(rows, end=3)
    assert _values(evidence, "vram_used", hour_s) == [("GPU-1", "", "", 0, 1, GIB), ("GPU-1", "", "", 2, 1, GIB)]


_RUN_OF_ROWS = st.lists(
    st.tuples(
        st.sampled_from(["gpu_up", "gpu_memory_used_bytes", "gpu_busy_ratio", "gpu_owner_memory_bytes"]),
        st.sampled_from(["GPU-1", "GPU-2"]),
        st.sampled_from(["", "MIG-1"]),
        st.just(""),
        st.integers(-40, 60),
        st.sampled_from([0.0, 1.0]),
    ),
    max_size=60,
    unique_by=lambda row: row[:5],
).map(lambda rows: [(*row[:3], "alloc:a1" if "owner" in row[0] else "", *row[4:]) for row in rows])


@given(rows=_RUN_OF_ROWS, seed=st.integers())
@settings(
    max_examples=settings().max_examples * 60 // 100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_order_and_duplicates_of_samples_change_nothing(observe: Observe, rows: list[Any], seed: int) -> None:
    """metering.md C29 and C31: a pair of collectors, or a re-send, gives the same evidence to the byte."""
    shuffled = [*rows, *rows, *rows]
    random.Random(seed).shuffle(shuffled)
    heard = [(0, 20), (31, 40)]
    again = observe(shuffled, end=50, heard=heard[::-1], devices=[("GPU-2", ""), ("GPU-1", "")])
    evidence = observe(rows, end=50, heard=heard, devices=[("GPU-1", ""), ("GPU-2", "")])
    assert again.digest == evidence.digest
    assert again.runs.equals(evidence.runs)


def test_of_two_different_readings_of_one_second_the_larger_counts(
    observe: Observe, use_of: UseOf, hour_s: int
) -> None:
    """The rule by which VictoriaMetrics merges a pair of collectors, so that both ways give one answer."""
    rows = [*use_of([0], 5), *use_of([0], 7), *use_of([0], 6)]
    assert _values(observe(rows), "vram_used", hour_s) == [("GPU-1", "", "", 0, 1, 7)]


@given(rows=_RUN_OF_ROWS, cut=st.integers(1, 49))
@settings(
    max_examples=settings().max_examples * 40 // 100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_runs_say_what_the_seconds_said_and_are_as_long_as_can_be(
    observe: Observe, rows: list[Any], cut: int, hour_s: int
) -> None:
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


def _known(evidence: Evidence) -> dict[tuple[str, str], int]:
    """Known seconds of GPU-1 by quantity and owner."""
    rows = evidence.known_seconds().filter(gpu_uuid="GPU-1").iter_rows(named=True)
    return {(row["quantity"], row["owner"]): row["seconds"] for row in rows}


_UP = [("gpu_up", "GPU-1", "", "", second, 1) for second in range(10)]
_LOST = [("gpu_up", "GPU-1", "", "", second, 0) for second in range(5)]
_LOOKED = [(LATENESS, "", "", "", second, 0.0) for second in range(10)]


@pytest.mark.parametrize(
    ("better", "poorer"),
    [
        (lambda use_of: use_of(range(10)), lambda use_of: use_of(range(9))),
        # Every second was sampled as before, and less is known of what was read in it.
        (lambda use_of: [*_UP, *use_of(range(10))], lambda use_of: _UP),
        (lambda use_of: [*_UP, *use_of(range(10))], lambda use_of: [*_UP, *use_of(range(9))]),
        (
            lambda use_of: [*use_of(range(10)), *use_of(range(10), owner="alloc:a1")],
            lambda use_of: [*use_of(range(10)), *use_of(range(9), owner="alloc:a1")],
        ),
        (
            lambda use_of: [*use_of(range(10)), *use_of(range(10), mig="MIG-1")],
            lambda use_of: [*use_of(range(10)), *use_of(range(9), mig="MIG-1")],
        ),
        # One card more than before does not make up for another.
        (
            lambda use_of: [*use_of(range(10)), *use_of(range(2), gpu="GPU-2")],
            lambda use_of: [*use_of(range(2)), *use_of(range(10), gpu="GPU-2")],
        ),
        (lambda use_of: use_of(range(10)), lambda use_of: use_of(range(10), gpu="GPU-2")),
        (
            lambda use_of: [*_UP, ("gpu_busy_ratio", "GPU-1", "", "", 3, 0.5)],
            lambda use_of: _UP,
        ),
        # That a card was lost or absent is knowledge too: without it the seconds would be billed.
        (lambda use_of: _LOST, lambda use_of: []),
        (lambda use_of: [*_LOST, *_UP[5:]], lambda use_of: _UP[5:]),
        (lambda use_of: _LOOKED, lambda use_of: []),
        (lambda use_of: [*_UP, *_LOOKED], lambda use_of: _LOOKED),
    ],
)
def test_evidence_lacks_what_another_knows_more_of(
    observe: Observe, use_of: UseOf, better: Callable[..., Any], poorer: Callable[..., Any]
) -> None:
    """By device, owner and quantity; neither lacks anything that is equal."""
    known = {"end": 10, "heard": [(0, 10)], "devices": [("GPU-1", "")]}
    one, other = observe(better(use_of), **known), observe(poorer(use_of), **known)
    assert other.lacks(one)
    assert not one.lacks(one)
    assert not other.lacks(other)
    both = observe([*better(use_of), *poorer(use_of)], **known)
    assert not both.lacks(other)


def test_evidence_lacks_nothing_outside_its_window(observe: Observe, use_of: UseOf) -> None:
    """The context is read anew each time, and may have left the store."""
    around = observe([*use_of(range(-20, 30)), *use_of(range(10), gpu="GPU-2")], end=10)
    inside = observe([*use_of(range(10)), *use_of(range(10), gpu="GPU-2")], end=10)
    assert not inside.lacks(around)


def test_the_digest_tells_every_difference(observe: Observe, use_of: UseOf) -> None:
    base = use_of(range(5))
    others = [
        observe(base, end=10),
        observe([*base, *use_of([6])], end=10),
        observe([*base, *use_of(range(5), 1, gpu="GPU-2")], end=10),
        observe(use_of(range(5), GIB + 1), end=10),
        observe(base, end=10, heard=[(0, 9)]),
        observe(base, end=10, devices=[("GPU-3", "")]),
    ]
    assert len({each.digest for each in others}) == len(others)


def test_what_was_written_is_what_is_read(observe: Observe, use_of: UseOf, tmp_path: Path) -> None:
    evidence = observe([*use_of(range(100)), *use_of(range(50), owner="alloc:é/1")], heard=[(0, 9)])
    path = tmp_path / "2026-03-01" / "10" / "n1.r1.parquet"
    assert write_evidence(evidence, path) == path.stat().st_size
    back = read_evidence(path, "n1", evidence.period, evidence.digest)
    assert back.runs.equals(evidence.runs)
    assert back.digest == evidence.digest
    assert [file.name for file in path.parent.iterdir()] == ["n1.r1.parquet"]


def test_evidence_that_was_touched_or_lost_is_refused(observe: Observe, use_of: UseOf, tmp_path: Path) -> None:
    evidence, other = observe(use_of(range(5))), observe(use_of(range(6)))
    path = tmp_path / "n1.parquet"
    write_evidence(other, path)
    with pytest.raises(UnavailableError, match=r"^cannot use the evidence '.*n1.parquet': its digest is .*backup$"):
        read_evidence(path, "n1", evidence.period, evidence.digest)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(UnavailableError, match=r"^cannot read the evidence '.*n1.parquet'.*from a backup$") as refused:
        read_evidence(path, "n1", evidence.period, other.digest)
    assert "\n" not in str(refused.value)
    with pytest.raises(UnavailableError, match=r"^cannot read the evidence '.*nowhere'"):
        read_evidence(tmp_path / "nowhere", "n1", evidence.period, evidence.digest)


def test_a_folder_that_cannot_be_written_is_said_in_one_line(observe: Observe, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(UnavailableError, match=r"^cannot write evidence to '.*n1.parquet': "):
        write_evidence(observe(), tmp_path / "file" / "n1.parquet")


def test_recorded_observations_give_half_open_stretches_of_a_node(make_samples: Any, hour_s: int) -> None:
    frame = make_samples([("gpu_up", "GPU-1", "", "", second, 1) for second in range(5)])
    recorded = RecordedObservations({"n1": frame}, {"n1": 7})
    assert recorded.samples("n1", hour_s + 1, hour_s + 3)["second_s"].to_list() == [hour_s + 1, hour_s + 2]
    assert recorded.samples("n2", hour_s, hour_s + 9).schema == pl.Schema(SAMPLE_COLUMNS)
    assert (recorded.complete_until_s("n1"), recorded.complete_until_s("n2")) == (7, None)


def test_an_empty_window_of_an_empty_node_has_evidence(observe: Observe) -> None:
    evidence = observe([])
    assert evidence.known_seconds().is_empty()
    assert evidence.period.seconds == 3600
    assert evidence.presence()["value"].to_list() == [Presence.HOST_UNREACHABLE]
    assert isinstance(evidence.period, Period)
