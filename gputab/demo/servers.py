"""The servers of the demo: each on a free port of loopback, and the programs of others found on this machine."""

from dataclasses import dataclass
from pathlib import Path

from machine.lock import Progress
from machine.process import free_port
from machine.programs import ALERTMANAGER, VICTORIA_METRICS, VMALERT, Program, find_program
from settings.gputab import Settings


@dataclass(frozen=True, slots=True)
class Server:
    """Where a server listens."""

    port: int

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"


@dataclass(frozen=True, slots=True)
class ForeignServer(Server):
    """One that is a program of others."""

    binary: Path


@dataclass(frozen=True, slots=True)
class Servers:
    """All of them."""

    victoriametrics: ForeignServer
    vmalert: ForeignServer
    alertmanager: ForeignServer
    allocator: Server
    explorer: Server


def find_servers(base: Settings, progress: Progress) -> Servers:
    """Every server, on a port that is free now. Raises UnavailableError where a program cannot be had."""
    progress("looking for VictoriaMetrics, vmalert and Alertmanager")
    return Servers(
        victoriametrics=_found(VICTORIA_METRICS, base.victoriametrics_binary, base, progress),
        vmalert=_found(VMALERT, base.vmalert_binary, base, progress),
        alertmanager=_found(ALERTMANAGER, base.alertmanager_binary, base, progress),
        allocator=Server(free_port()),
        explorer=Server(free_port()),
    )


def _found(program: Program, explicit: Path | None, base: Settings, progress: Progress) -> ForeignServer:
    found = find_program(program, explicit=explicit, cache_folder=base.programs_path.absolute(), progress=progress)
    for note in found.passed_over:
        progress(note)
    return ForeignServer(free_port(), found.path)
