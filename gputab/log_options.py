"""What a person can say of a log that its text does not, as options of the commands that read logs."""

from typing import Annotated

import typer

from collector.logs.log import LogOptions
from collector.logs.log_times import seconds_us
from domain.clock import MICROSECONDS
from domain.errors import InputError
from domain.period import billing_zone, parse_instant
from gputab.whole_numbers import whole_option

_STEP_MAX_US = 366 * 86_400 * MICROSECONDS
_GPUS_MAX = 1_024

Timezone = Annotated[str | None, typer.Option("--timezone", help="IANA zone of local times; default: UTC")]
Start = Annotated[
    str | None,
    typer.Option("--start", help="when the log began, where it does not say: ISO 8601 with offset, or epoch seconds"),
]
Step = Annotated[str | None, typer.Option("--step", help="seconds between readings, where they have no times")]
Gpus = Annotated[
    int | None, whole_option("cards that take turns in the rows, where no column names them", most=_GPUS_MAX)
]
Columns = Annotated[
    str | None,
    typer.Option("--columns", help="the columns by nvidia-smi's query names, or dmon's, with commas, - to skip one"),
]


def log_options(
    timezone: str | None, start: str | None, step: str | None, gpus: int | None, columns: str | None
) -> LogOptions:
    """The options as the readers take them. Raises InputError for one that cannot be read."""
    if step is not None and start is None:
        raise InputError("cannot use --step without --start: say when the first row was read as well")
    return LogOptions(
        zone=None if timezone is None else billing_zone(timezone),
        start_us=None if start is None else _start_us(start),
        step_us=None if step is None else _step_us(step),
        gpus=gpus,
        columns=None if columns is None else tuple(name.strip() for name in columns.split(",")),
    )


def _start_us(start: str) -> int:
    start_us = parse_instant(start)
    if start_us < 0:
        raise InputError(f"cannot use the start {start[:40]!r}: it is before 1970; write a later one")
    return start_us


def _step_us(step: str) -> int:
    try:
        step_us = seconds_us(step)
    except ValueError:
        step_us = 0
    if not 0 < step_us <= _STEP_MAX_US:
        raise InputError(
            f"cannot use the step {step[:40]!r}: write seconds with at most six decimals, such as 1 or 0.5"
        )
    return step_us
