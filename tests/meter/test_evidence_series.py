"""Samples become runs of their series, wherever one series ends and the next begins."""

import random

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from meter.evidence.evidence import make_evidence
from meter.evidence.observations import SAMPLE_COLUMNS
from meter.evidence.series_runs import fold_series
from tests.meter.facts import Row, make_samples, observe, use_of
from tests.meter.hour import HOUR_S, stretch
from tests.meter.runs import SAMPLES


def runs_of(rows: list[Row]) -> list[tuple[str, int, int, float | None]]:
    """(labels, first second, second after the last, value) of each run, as folded."""
    folded = fold_series(make_samples(rows))
    return [
        (" ".join(folded.names[key]), start_s - HOUR_S, end_s - HOUR_S, value)
        for key, start_s, end_s, value in folded.runs.iter_rows()
    ]


def test_a_series_that_begins_where_another_ends_is_another_though_it_says_the_same() -> None:
    rows = [
        ("gpu_memory_used_bytes", "GPU-1", "", "", 0, 5.0),
        ("gpu_memory_used_bytes", "GPU-1", "", "", 1, 5.0),
        ("gpu_memory_used_bytes", "GPU-2", "", "", 2, 5.0),
        ("gpu_memory_used_bytes", "GPU-2", "MIG-1", "", 3, 5.0),
        ("gpu_owner_memory_bytes", "GPU-2", "MIG-1", "", 4, 5.0),
        ("gpu_owner_memory_bytes", "GPU-2", "MIG-1", "x", 5, 5.0),
    ]
    assert runs_of(rows) == [
        ("gpu_memory_used_bytes GPU-1  ", 0, 2, 5),
        ("gpu_memory_used_bytes GPU-2  ", 2, 3, 5),
        ("gpu_memory_used_bytes GPU-2 MIG-1 ", 3, 4, 5),
        ("gpu_owner_memory_bytes GPU-2 MIG-1 ", 4, 5, 5),
        ("gpu_owner_memory_bytes GPU-2 MIG-1 x", 5, 6, 5),
    ]


def test_a_sample_without_a_number_is_in_no_run_with_one() -> None:
    """A store that sends none is not believed to have meant the number before, nor the one after."""
    seconds = [HOUR_S, HOUR_S + 1, HOUR_S + 2]
    samples = pl.DataFrame(
        {"series": "gpu_memory_used_bytes", "gpu_uuid": "GPU-1", "mig_uuid": "", "owner": "", "second_s": seconds}
    ).with_columns(value=pl.Series([7.0, None, 7.0]))
    evidence = make_evidence("n1", stretch(0, 10), samples, [], [])
    assert evidence.line(("GPU-1", ""), "vram_used") == [(HOUR_S, HOUR_S + 1, 7), (HOUR_S + 2, HOUR_S + 3, 7)]
    assert evidence.line(("GPU-1", ""), "quarantined") == [(HOUR_S + 1, HOUR_S + 2, 1)]


def test_no_samples_are_no_series() -> None:
    folded = fold_series(pl.DataFrame(schema=SAMPLE_COLUMNS))
    assert (folded.names, folded.runs.height, folded.stretches) == ([], 0, [])


@given(SAMPLES, st.lists(st.integers(0, 59), max_size=9), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_samples_in_another_order_and_some_twice_are_the_same_evidence(
    rows: list[Row], again: list[int], chance: random.Random
) -> None:
    """Promise 2, down to the first step; what comes again and is smaller changes nothing."""
    evidence = observe(rows, end=50)
    shuffled = [*rows, *((*rows[each][:-1], rows[each][-1] / 2) for each in again if each < len(rows))]
    # A card of which somebody says that it is half there is not lost, and not there twice.
    shuffled = [row for row in shuffled if row[0] != "gpu_up" or row in rows]
    chance.shuffle(shuffled)
    assert observe(shuffled, end=50).runs.equals(evidence.runs)


def test_a_line_is_of_one_device_owner_and_quantity_and_of_nothing_where_nothing_is_known() -> None:
    rows = [*use_of(range(3), 5), *use_of(range(1, 3), 3, owner="x"), *use_of([0, 2], 7, mig="MIG-1")]
    evidence = observe(rows, end=10)
    at_s = HOUR_S
    assert evidence.line(("GPU-1", ""), "vram_used") == [(at_s, at_s + 3, 5)]
    assert evidence.line(("GPU-1", ""), "vram_used", "x") == [(at_s + 1, at_s + 3, 3)]
    assert evidence.line(("GPU-1", "MIG-1"), "vram_used") == [(at_s, at_s + 1, 7), (at_s + 2, at_s + 3, 7)]
    assert evidence.line(("GPU-1", ""), "attributed") == [(at_s + 1, at_s + 3, 1)]
    assert evidence.line(("GPU-1", "MIG-1"), "vram_used", "x") == evidence.line(("GPU-2", ""), "vram_used") == []
