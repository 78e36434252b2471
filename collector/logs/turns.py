"""What a log does not say of its rows and a person did: when they were read, and of which card."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from collector.logs.csv_readings import Reading
from collector.logs.log import LogCard
from collector.logs.ticks import cards_in_turn, rows_per_tick
from domain.errors import InputError


def give_cards(path: str, readings: Sequence[Reading], gpus: int | None) -> None:
    """Gives each reading that takes its turn an index, "0" to "N-1" in the order of their rows.

    A row of a tick that lacks a row is refused, since it cannot be told which. Raises InputError where the times say
    that several cards take turns and `gpus` was not said.
    """
    unnamed = [reading for reading in readings if reading.takes_turn]
    if gpus is None:
        found = rows_per_tick([reading.time_us for reading in unnamed if reading.time_us is not None])
        if found > 1:
            raise InputError(
                f"cannot read the log {path!r}: it has {found} rows at a time and no column that tells cards apart; "
                f"say --gpus {found}, or --gpus 1 for a single card"
            )
        gpus = 1
    turns = cards_in_turn([reading.time_us for reading in unnamed], gpus)
    for reading, turn in zip(unnamed, turns, strict=True):
        if turn is not None:
            reading.card = replace(reading.card, index=str(turn))
        elif reading.reason is None:
            reading.reason = f"fewer than {gpus} rows came with it: it cannot be told of which card it is"


def give_times(readings: Sequence[Reading], start_us: int, step_us: int) -> None:
    """Gives the readings of each card times from `start_us` on, in their order, refused ones too."""
    passed: Counter[LogCard] = Counter()
    for reading in readings:
        reading.time_us = start_us + passed[reading.card] * step_us
        passed[reading.card] += 1
