"""The rule of a log's usage: a reading stands until the next one of its card."""

from collections.abc import Sequence
from fractions import Fraction
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from collector.logs.log import LogCard, LogRow
from domain.period import Period
from domain.series import GPU_BUSY, GPU_MEMORY_TOTAL, GPU_MEMORY_USED
from domain.units import GIB
from gputab.load_line import load_line
from gputab.log_usage import CardUsage, card_usages

SECOND_US = 10**6


def rows(*readings: tuple[float, int | None, int | None], card: str = "0") -> list[LogRow]:
    """One row for each (second, busy percent, GiB used)."""
    made = []
    for line, (second, percent, gib) in enumerate(readings, start=2):
        values: dict[object, int | Fraction] = {}
        if percent is not None:
            values[GPU_BUSY] = Fraction(percent, 100)
        if gib is not None:
            values[GPU_MEMORY_USED] = gib * GIB
        made.append(LogRow(line, round(second * SECOND_US), LogCard(card), values))  # type: ignore[arg-type]
    return made


def usage(log: Sequence[LogRow]) -> CardUsage:
    (found,) = card_usages(log)
    return found


def figures(found: CardUsage) -> tuple[int | Fraction | None, ...]:
    return (
        found.covered_us,
        found.busy_us,
        found.vram_byte_us,
        found.readings,
        len(found.gaps),
        sum(gap.end_us - gap.start_us for gap in found.gaps),
    )


def test_a_reading_stands_until_the_next_and_the_last_has_no_duration() -> None:
    found = usage(rows((0, 50, 1), (2, 100, 3), (5, 0, 7)))
    assert figures(found) == (5 * SECOND_US, 4 * SECOND_US, 11 * GIB * SECOND_US, 3, 0, 0)
    assert found.vram_peak_bytes == 7 * GIB


def test_a_step_of_more_than_three_times_the_median_is_a_gap() -> None:
    found = usage(rows((0, 100, 1), (1, 100, 1), (2, 100, 1), (5, 100, 1), (8.001, 100, 1)))
    # The median of 1, 1, 3 and 3.001 is 2.
    assert found.gaps == ()
    found = usage(rows((0, 100, 1), (1, 100, 1), (2, 100, 1), (3, 100, 1), (6, 100, 1), (9.001, 100, 1)))
    assert found.gaps == (Period(6 * SECOND_US, 9_001_000),)
    assert found.covered_us == 6 * SECOND_US


def test_the_median_is_of_positive_steps_only() -> None:
    found = usage(rows((0, 0, 1), (0, 0, 1), (0, 0, 1), (1, 0, 1), (1, 0, 1), (2, 0, 1), (3, 0, 1)))
    assert found.gaps == ()
    assert (found.readings, found.equal_times, found.covered_us) == (7, 3, 3 * SECOND_US)


def test_of_equal_times_the_last_counts() -> None:
    assert usage(rows((0, 10, 1), (0, 90, 5), (1, 0, 0))).busy_us == Fraction(9, 10) * SECOND_US
    # The last in the file, not the largest.
    assert usage(rows((0, 90, 5), (1, 0, 0), (0, 10, 1))).busy_us == Fraction(1, 10) * SECOND_US


def test_rows_out_of_order_are_sorted_and_counted() -> None:
    found = usage(rows((0, 10, 1), (2, 30, 1), (1, 20, 1), (3, 0, 1)))
    assert (found.out_of_order, found.busy_us) == (1, Fraction(60, 100) * SECOND_US)


def test_a_column_that_is_not_there_is_none_and_never_zero() -> None:
    found = usage(rows((0, None, None), (1, None, None)))
    assert (found.covered_us, found.busy_us, found.vram_byte_us, found.vram_peak_bytes) == (SECOND_US, None, None, None)


def test_what_is_missing_now_and_then_is_counted() -> None:
    found = usage(rows((0, 50, 1), (1, None, 1), (2, 50, None), (4, 0, 0)))
    assert (found.busy_us, found.busy_unknown_us) == (Fraction(3, 2) * SECOND_US, SECOND_US)
    assert (found.vram_byte_us, found.vram_unknown_us) == (2 * GIB * SECOND_US, 2 * SECOND_US)


def test_one_reading_covers_nothing() -> None:
    assert figures(usage(rows((7, 50, 1)))) == (0, 0, 0, 1, 0, 0)


def test_cards_are_apart_and_in_order() -> None:
    log = [row for card in ("10", "2", "0") for row in rows((0, 0, 1), (1, 0, 1), card=card)]
    assert [found.name for found in card_usages(log)] == ["0", "2", "10"]


def test_cards_are_called_by_what_tells_them_apart() -> None:
    same_index = [LogCard("0", "GPU-a"), LogCard("0", "GPU-b")]
    assert names(same_index) == ["GPU-a", "GPU-b"]
    assert names([LogCard(None, "GPU-a")]) == ["GPU-a"]
    assert names([LogCard("0", "GPU-a", "MIG-a"), LogCard("0", "GPU-a")]) == ["GPU-a", "MIG-a"]
    assert names([LogCard("0", node="n1"), LogCard("0", node="n2")]) == ["n1/0", "n2/0"]
    # What it is called may change in the middle of a log; the card is the same.
    assert names([LogCard("0", model="GPU"), LogCard("0", model="NVIDIA L4")]) == ["0"]


def test_a_card_is_its_uuid_whatever_its_index() -> None:
    """After a restart the driver may count the cards anew."""
    log = [LogRow(second, second * SECOND_US, LogCard(str(second // 2), "GPU-a"), {}) for second in range(4)]
    assert (usage(log).name, usage(log).covered_us) == ("0", 3 * SECOND_US)


def names(cards: Sequence[LogCard]) -> list[str]:
    return [found.name for found in card_usages([LogRow(1, 0, card, {}) for card in cards])]


def test_model_and_size_are_the_last_that_were_said() -> None:
    log = [
        LogRow(1, 0, LogCard("0"), {GPU_MEMORY_TOTAL: 24 * GIB}),
        LogRow(2, 1, LogCard("0", model="NVIDIA L4"), {}),
    ]
    assert (usage(log).card.model, usage(log).vram_total_bytes) == ("NVIDIA L4", 24 * GIB)


READINGS = st.lists(
    st.tuples(st.integers(0, 500), st.none() | st.integers(0, 100), st.none() | st.integers(0, 80)),
    min_size=1,
    max_size=40,
    unique_by=lambda reading: reading[0],
)


@given(READINGS, st.randoms(use_true_random=False))
def test_the_order_of_the_rows_changes_nothing(
    readings: list[tuple[int, int | None, int | None]], random: Random
) -> None:
    log = rows(*readings)
    shuffled = random.sample(log, len(log))
    assert figures(usage(shuffled)) == figures(usage(log))


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 80)), min_size=3, max_size=40), st.data())
def test_a_log_in_two_pieces_comes_to_the_same(readings: list[tuple[int, int]], data: st.DataObject) -> None:
    """Where the first row of the second piece is the last of the first, and steps are even."""
    log = rows(*((second, percent, gib) for second, (percent, gib) in enumerate(readings)))
    cut = data.draw(st.integers(1, len(log) - 2))
    whole, first, second = usage(log), usage(log[: cut + 1]), usage(log[cut:])
    assert whole.covered_us == first.covered_us + second.covered_us
    assert whole.busy_us == (first.busy_us or 0) + (second.busy_us or 0)
    assert whole.vram_byte_us == (first.vram_byte_us or 0) + (second.vram_byte_us or 0)


@given(READINGS, st.integers(-10, 510))
def test_what_lies_in_two_periods_sums_to_the_whole(
    readings: list[tuple[int, int | None, int | None]], cut_s: int
) -> None:
    found = usage(rows(*readings))
    cut_us = min(max(cut_s * SECOND_US, found.span.start_us), found.span.end_us)
    halves = (Period(found.span.start_us, cut_us), Period(cut_us, found.span.end_us))
    assert sum(found.covered_in_us(half) for half in halves) == found.covered_us
    assert sum(found.vram_in_byte_us(half) for half in halves) == (found.vram_byte_us or 0)


@given(READINGS)
def test_covered_time_and_gaps_make_the_span(readings: list[tuple[int, int | None, int | None]]) -> None:
    found = usage(rows(*readings))
    assert found.covered_us + sum(gap.end_us - gap.start_us for gap in found.gaps) == found.span_us


def test_the_line_of_the_load_tells_idle_from_unknown() -> None:
    steps = [(second, 100 if second < 10 else 0, 1) for second in range(21)]
    found = usage(rows(*steps, (40, 100, 1), (41, None, 1), (42, 0, 1)))
    assert load_line(found, Period(0, 40 * SECOND_US), 4) == "█▁··"
    assert load_line(found, Period(0, 40 * SECOND_US), 8) == "██▁▁····"
    assert load_line(found, Period(0, 30 * SECOND_US), 2) == "▅▁"
    assert load_line(found, found.span, 42) == "█" * 10 + "▁" * 10 + "·" * 20 + "█·"
