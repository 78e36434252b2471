"""A queue is bounded by age, too: what has waited for too long becomes counted holes, and both bounds can be read."""

from pathlib import Path

from collector.delivery.holes import HoleReason
from collector.delivery.queue import MAX_AGE_S, BatchQueue
from domain.period import HOUR_S
from settings.gputab import Settings
from tests.collector.seconds import NOW_US, SECOND_S, SIZE, noise, put_all, refuse_oldest, waiting

LATER_S = SECOND_S + 2 * HOUR_S


def test_seconds_that_have_waited_for_longer_than_they_may_are_holes(tmp_path: Path) -> None:
    queue = BatchQueue(tmp_path / "queue.db", SIZE, max_age_s=2 * HOUR_S)
    put_all(queue, range(SECOND_S, SECOND_S + 10))
    put_all(queue, range(LATER_S, LATER_S + 4))
    assert queue.holes == 3
    assert waiting(queue) == [*range(SECOND_S + 3, SECOND_S + 10), *range(LATER_S, LATER_S + 4)]
    assert (queue.oldest_s, queue.complete_until_s) == (SECOND_S + 3, SECOND_S + 3)
    queue.close()
    again = BatchQueue(tmp_path / "queue.db", SIZE)
    assert (again.oldest_s, again.holes) == (SECOND_S + 3, 3)
    assert again.holes_by_reason[HoleReason.TOO_OLD] == 3
    again.close()


def test_those_that_were_delivered_are_none(tmp_path: Path) -> None:
    queue = BatchQueue(tmp_path / "queue.db", SIZE, max_age_s=2 * HOUR_S)
    put_all(queue, range(SECOND_S, SECOND_S + 10))
    queue.delivered(range(SECOND_S, SECOND_S + 10), NOW_US)
    put_all(queue, range(LATER_S + 20, LATER_S + 21))
    assert (queue.holes, queue.oldest_s) == (0, LATER_S + 20)
    queue.close()


def test_a_clock_that_is_years_ahead_for_a_moment_does_not_cost_all_that_wait(tmp_path: Path) -> None:
    """As that of a machine whose battery is empty, until it is set: a minute of what waits for each second."""
    queue = BatchQueue(tmp_path / "queue.db", SIZE, max_age_s=2 * HOUR_S)
    put_all(queue, range(SECOND_S, SECOND_S + 1_000))
    put_all(queue, range(SECOND_S + 10**8, SECOND_S + 10**8 + 3))
    assert queue.holes == 180
    assert queue.oldest_s == SECOND_S + 180
    queue.close()


def test_by_default_a_second_waits_as_long_as_its_window(queue: BatchQueue) -> None:
    fields = Settings.model_fields
    assert MAX_AGE_S == fields["queue_max_hours"].default * HOUR_S == fields["settle_deadline_hours"].default * HOUR_S
    put_all(queue, range(SECOND_S, SECOND_S + 2))
    put_all(queue, range(SECOND_S + MAX_AGE_S + 1, SECOND_S + MAX_AGE_S + 2))
    assert (queue.holes, len(queue)) == (1, 2)


def test_its_size_is_what_waits_what_may_be_sent_again_and_what_was_set_aside(queue: BatchQueue) -> None:
    assert (queue.size_bytes, queue.oldest_s) == (0, None)
    for second_s in range(SECOND_S, SECOND_S + 3):
        queue.put(second_s, noise(1_000))
    assert 3_000 < queue.size_bytes < 3_200
    queue.delivered([SECOND_S], NOW_US)
    refuse_oldest(queue)
    assert 3_000 < queue.size_bytes < 3_300
    assert queue.oldest_s == SECOND_S + 2
    queue.delivered([SECOND_S + 2], NOW_US + 120 * 1_000_000)
    assert 2_000 < queue.size_bytes < 2_200, "the first has been kept for a minute"
    assert queue.oldest_s is None
