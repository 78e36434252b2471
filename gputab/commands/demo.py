"""`gputab demo`: the whole pipe on this machine."""

import signal
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console

from gputab import composition
from gputab.demo.run import run_demo
from gputab.whole_numbers import whole_option


def demo(
    duration: Annotated[int | None, whole_option("live seconds; default: until Ctrl-C")] = None,
) -> None:
    """Run the whole pipe on this machine and prove its bill.

    On the machine's own cards where a driver finds some, else on a simulated fleet. Ctrl-C stops everything.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    code = run_demo(composition.settings(), duration, composition.clock(), Console())
    raise typer.Exit(code)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt
