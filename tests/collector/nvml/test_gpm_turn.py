"""Turns of asking the driver for performance metrics."""

import threading
import time

from collector.nvml.gpm_turn import GpmTurn


def test_a_card_that_hangs_in_its_turn_is_waited_for_once_and_then_not_at_all() -> None:
    """One thread at a time may ask, since drivers have crashed; the deadline of the others is their own."""
    turns = GpmTurn(time.monotonic)
    assert turns.take() is not None

    waits = []
    for _ in range(6):
        began_s = time.monotonic()
        assert turns.take() is None
        waits.append(time.monotonic() - began_s)
    assert 0.05 < waits[0] < 5
    assert min(waits[1:]) < 0.05


def test_a_card_that_hangs_loses_its_turn_and_takes_no_other_with_it() -> None:
    """One sick card costs the others two seconds of their metrics; when it comes back it ends nobody's turn."""
    now_s = 100.0
    turns = GpmTurn(lambda: now_s)
    hanging = turns.take()
    assert hanging is not None
    now_s += 1.9
    assert turns.take() is None
    now_s += 0.1
    other = turns.take()
    assert other is not None

    turns.give(hanging)
    now_s += 0.1
    assert turns.take() is None, "the other has it still"
    turns.give(other)
    assert turns.take() is not None


def test_turns_are_taken_one_at_a_time() -> None:
    turns = GpmTurn(time.monotonic)
    inside, most, taken = 0, 0, 0

    def work() -> None:
        nonlocal inside, most, taken
        for _ in range(50):
            turn = turns.take()
            if turn is not None:
                inside += 1
                most = max(most, inside)
                taken += 1
                inside -= 1
                turns.give(turn)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert taken > 4
