"""The world file: how a driver of workloads tells simulated collectors, while they run, what happens on the cards.

JSON lines: first `{"world": {"seed": .., "started_s": ..}}`, then one line per `tenancy`, `end` or `incident`, each
written by one append, so that any number of processes may read while one writes. A line is about the future only:
a collector that has read a second must find the same second in the file for ever.
"""

import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Self

from collector.simulation.fleet import demo_fleet
from collector.simulation.workloads import Workload
from collector.simulation.world import Incident, IncidentKind, Tenancy, World
from domain.clock import MICROSECONDS, Clock
from domain.errors import InputError, UnavailableError

# A collector reads the file at the beginning of a second; a line must be there before that.
NOTICE_SECONDS = 2


class WorldFile:
    """The writer's end."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    @classmethod
    def create(cls, path: Path, seed: int, clock: Clock) -> Self:
        """Begin a world at the present second. Raises InputError where the file is there already."""
        started_s = clock.now_us() // MICROSECONDS
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            path.touch(exist_ok=False)
        except FileExistsError as error:
            raise InputError(f"cannot begin a world in {str(path)!r}: it is there already; remove it") from error
        file = cls(path, clock)
        file._append({"world": {"seed": seed, "started_s": started_s}})
        return file

    @property
    def earliest_s(self) -> int:
        """The first second that a new line may speak of."""
        return self._clock.now_us() // MICROSECONDS + NOTICE_SECONDS

    def add_tenancy(self, tenancy: Tenancy) -> None:
        """Let a workload run. Raises InputError where it would begin before `earliest_s`."""
        self._refuse_past(tenancy.start_s)
        self._append({"tenancy": asdict(tenancy)})

    def end_tenancies(self, allocation: str, end_s: int) -> None:
        """Let every open workload of the allocation stop before `end_s`, which is `earliest_s` or later."""
        self._refuse_past(end_s)
        self._append({"end": {"allocation": allocation, "end_s": end_s}})

    def add_incident(self, incident: Incident) -> None:
        """Let something happen to a card, from `earliest_s` or later on."""
        self._refuse_past(incident.start_s)
        self._append({"incident": asdict(incident)})

    def _refuse_past(self, second_s: int) -> None:
        if second_s < self.earliest_s:
            raise InputError(
                f"cannot change the world in second {second_s}: collectors may have read it; use {self.earliest_s} "
                "or later"
            )

    def _append(self, line: dict[str, Any]) -> None:
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(descriptor, data)
        finally:
            os.close(descriptor)


class WorldReader:
    """The readers' end: the world so far, read on from where the last look ended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._header: tuple[int, int] | None = None
        self._tenancies: list[Tenancy] = []
        self._incidents: list[Incident] = []
        self._world: World | None = None

    def world(self) -> World:
        """The world as the file has it now; a last line that is not yet whole is left for the next look.

        Raises UnavailableError where there is no file or it has not begun, InputError for a line of no meaning.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError as error:
            raise UnavailableError(
                f"cannot read the world {str(self._path)!r}: {error.strerror}; start what writes it first"
            ) from error
        whole = data[: data.rfind(b"\n") + 1]
        for line in whole.splitlines():
            self._take(line)
        self._offset += len(whole)
        if self._header is None:
            raise UnavailableError(f"cannot read the world {str(self._path)!r}: it has no first line yet; try again")
        if whole or self._world is None:
            seed, started_s = self._header
            self._world = World(demo_fleet(seed), started_s, self._tenancies, self._incidents)
        return self._world

    def _take(self, line: bytes) -> None:
        try:
            ((kind, fields),) = json.loads(line).items()
            if kind == "world":
                self._header = int(fields["seed"]), int(fields["started_s"])
            elif kind == "tenancy":
                self._tenancies.append(Tenancy(**{**fields, "workload": Workload(fields["workload"])}))
            elif kind == "incident":
                self._incidents.append(Incident(**{**fields, "kind": IncidentKind(fields["kind"])}))
            elif kind == "end":
                self._end(str(fields["allocation"]), int(fields["end_s"]))
            else:
                raise ValueError(f"no such kind: {kind}")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            shown = line[:200].decode(errors="replace")
            raise InputError(
                f"cannot read the line {shown!r} of the world {str(self._path)!r}: {error}; remove it"
            ) from error

    def _end(self, allocation: str, end_s: int) -> None:
        for index, tenancy in enumerate(self._tenancies):
            if tenancy.allocation == allocation and tenancy.end_s is None:
                self._tenancies[index] = replace(tenancy, end_s=max(tenancy.start_s, end_s))


def load_world(path: Path) -> World:
    """The whole world of the file, for comparing with what was billed. Errors as for `WorldReader.world`."""
    return WorldReader(path).world()
