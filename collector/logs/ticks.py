"""Cards that take turns in the rows of a log which does not name them."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median_low

from domain.clock import MICROSECONDS

# Rows of one tick are written together: nearer to each other than this part of the mean step, and than half a second.
_NEAR_PART = 10
_NEAR_US = MICROSECONDS // 2
# In how many of ten ticks the number of rows must be the same.
_ALIKE_OF_TEN = 9


def rows_per_tick(times_us: Sequence[int]) -> int:
    """How many rows are written together in most ticks of the log, by the times of its rows in their order.

    1 where there is no such number: the rows are of a single card.
    """
    if len(times_us) < 2:
        return 1
    span_us = times_us[-1] - times_us[0]
    if span_us == 0 and len(set(times_us)) == 1:
        return len(times_us)
    lengths = [1]
    for earlier, later in pairwise(times_us):
        step_us = later - earlier
        if 0 <= step_us < _NEAR_US and step_us * _NEAR_PART * (len(times_us) - 1) < span_us:
            lengths[-1] += 1
        else:
            lengths.append(1)
    # A log that was cut ends within a tick.
    if len(lengths) > 2 and lengths[-1] < lengths[-2]:
        lengths.pop()
    ((usual, times),) = Counter(lengths).most_common(1)
    return usual if times * 10 >= len(lengths) * _ALIKE_OF_TEN else 1


def cards_in_turn(times_us: Sequence[int | None], cards: int) -> list[int | None]:
    """Which of the cards, from 0, each row is of, where they take turns; None where that cannot be told.

    A time is None where the row has none that can be read, or the log has no times. It cannot be told in a tick of
    fewer rows than cards; that a tick is over is known by a step of more than half of the usual one.
    """
    known = [time_us for time_us in times_us if time_us is not None]
    steps = [later - earlier for earlier, later in zip(known, known[cards:], strict=False)]
    usual_us = median_low(steps) if steps else None
    found: list[int | None] = []
    turn = 0
    previous_us: int | None = None
    for time_us in times_us:
        is_over = False
        if time_us is not None and previous_us is not None and usual_us is not None:
            is_over = (time_us - previous_us) * 2 > usual_us
        if turn == cards or is_over:
            if turn < cards:
                found[len(found) - turn :] = [None] * turn
            turn = 0
        found.append(turn)
        turn += 1
        previous_us = previous_us if time_us is None else time_us
    if turn < cards:
        found[len(found) - turn :] = [None] * turn
    return found
