"""`gputab victoriametrics`: a sample store on this machine, with the flags that gputab needs."""

import os
from typing import Annotated
from urllib.parse import urlsplit

import typer

from domain.errors import InputError
from gputab import composition
from gputab.output import say
from machine.programs import VICTORIA_METRICS, find_program
from victoriametrics import launcher

_LOOPBACK = ("127.0.0.1", "localhost")


def victoriametrics(
    retention: Annotated[str, typer.Option(help="how long samples are kept: 35d, 12w, 1y")] = "35d",
) -> None:
    """Run VictoriaMetrics here, until it is stopped.

    On the loopback port that `victoriametrics_url` names, with its data in `data_dir`. The program is the one that
    `victoriametrics_binary` names, else one on PATH that is new enough, else Debian's, unpacked into `data_dir`.
    """
    config = composition.settings()
    url = urlsplit(config.victoriametrics_url)
    if url.hostname not in _LOOPBACK or url.port is None:
        raise InputError(
            "cannot run VictoriaMetrics here: `victoriametrics_url` names another machine; write http://127.0.0.1:8428"
        )
    found = find_program(
        VICTORIA_METRICS, explicit=config.victoriametrics_binary, cache_folder=config.programs_path, progress=say
    )
    for note in found.passed_over:
        say(note)
    command = launcher.command(
        binary=found.path, port=url.port, data_dir=config.data_dir / "victoriametrics", retention=retention
    )
    # It takes this process's place, so that signals and exit codes are its own.
    os.execv(command[0], command)  # noqa: S606 - a list without a shell, found by machine/programs.py
