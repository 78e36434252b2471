"""The watermarks in order, and which of them a card has reached."""

from itertools import pairwise

import pytest

from domain.watermarks import WATERMARKS, reached


def test_each_mark_is_above_the_one_before_and_below_full() -> None:
    ratios = [0, *(mark.used_ratio for mark in WATERMARKS), 1]
    assert all(lower < higher for lower, higher in pairwise(ratios))


@pytest.mark.parametrize("index", range(len(WATERMARKS)))
def test_a_mark_is_reached_from_its_own_ratio_on(index: int) -> None:
    mark = WATERMARKS[index]
    below = WATERMARKS[index - 1] if index else None
    assert reached(mark.used_ratio) == mark
    assert reached(mark.used_ratio - 1e-9) == below


def test_a_card_that_keeps_nine_tenths_for_itself_is_no_news() -> None:
    """As serving programs do that take their memory at the start (vLLM: `gpu_memory_utilization`, 0.9 by default)."""
    assert reached(0.92) is None
