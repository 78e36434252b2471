"""A log of readings, whatever tool wrote it: its good rows in the order of the file, and every refused one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple
from zoneinfo import ZoneInfo

from domain.series import Series


@dataclass(frozen=True, slots=True)
class LogCard:
    """A card or MIG instance by what its log calls it; None is what the log does not say.

    `index` is as the log counts, the card's address on the bus where that is all it tells, and "0" where it can hold a
    single card only. An instance of which the log knows the number only is called `MIG-<card>/<number>/0`, the card by
    its UUID, or by its index where that is all there is.
    """

    index: str | None
    gpu_uuid: str | None = None
    mig_uuid: str | None = None
    model: str | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True)
class LogRow:
    """One reading: the line it begins on (from 1), its instant, and what was read.

    Base units and ratios 0..1, exact: whole bytes are `int`, what the log writes with decimals is a `Fraction`. What
    the log lacks, or the card cannot tell, has no key: it is never 0. `parts` has the series of which a device has
    several values at a time, by their label (`Series.part`).
    """

    line: int
    time_us: int
    card: LogCard
    values: Mapping[Series, int | Fraction]
    parts: Mapping[Series, Mapping[str, int | Fraction]] = field(default_factory=dict)


class RefusedRow(NamedTuple):
    """A row that is no reading: its line (from 1), and why."""

    line: int
    reason: str


@dataclass(frozen=True, slots=True)
class Log:
    """A log that has been read whole; it may be large, but it fits in memory.

    `notes` are what a person should know of how it was read, such as options that it did not need.
    """

    rows: tuple[LogRow, ...]
    refused: tuple[RefusedRow, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What a person says of a log that its text does not; None is what was not said.

    `zone` is the zone of local times (None: UTC). `start_us` is the instant of the first row, or what relative times
    count from; `step_us` is the time between rows that have none. `gpus` is the number of cards that take turns in the
    rows, where no column names them. `columns` names the columns of a CSV by nvidia-smi's query names, "-" for one to
    skip.
    """

    zone: ZoneInfo | None = None
    start_us: int | None = None
    step_us: int | None = None
    gpus: int | None = None
    columns: tuple[str, ...] | None = None
