"""A store that these tests have for themselves, and the dashboard as Grafana gets it."""

import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dashboards.committed import texts
from domain.samples import SampleRun
from machine.process import free_port
from tests.dashboards.grafana import Answer, View, all_panels, ask
from tests.victoriametrics_server import start
from victoriametrics.push import Pusher

_FIRST_S = 1_700_000_400
# Nothing that a dashboard asks looks back so far, so that what is pushed at one time is not seen at the next.
_APART_S = 20 * 86_400


class Store:
    """A real VictoriaMetrics, at times of its own for each test, and a dashboard that asks it."""

    def __init__(self, url: str, dashboard: dict[str, Any]) -> None:
        self.url = url
        self.dashboard = dashboard
        self._times = itertools.count(_FIRST_S, _APART_S)

    def new_time(self) -> int:
        """A second around which the store has nothing yet."""
        return next(self._times)

    def push(self, runs: Iterable[SampleRun]) -> None:
        """Put the samples where the next query sees them."""
        with Pusher(self.url) as pusher:
            pusher.send(runs)
            pusher.flush()

    def ask(self, number: int, view: View, query: int = 0) -> Answer:
        """What one query of a panel finds; the store must have taken the question."""
        panel = next(panel for panel in all_panels(self.dashboard) if panel["id"] == number)
        answer = ask(self.url, view, self.dashboard, panel, panel["targets"][query])
        assert answer.status == 200, answer.text
        return answer

    def number(self, number: int, view: View, query: int = 0) -> float | None:
        """The value of an instant query that finds one; None where it finds nothing."""
        lines = self.ask(number, view, query).lines
        assert len(lines) <= 1
        return lines[0].values[0] if lines else None

    def rows(self, number: int, view: View) -> dict[str, list[float]]:
        """The values of each line, by its name in the legend, in the order of the answer."""
        return {line.legend: list(line.values) for line in self.ask(number, view).lines}


@pytest.fixture(scope="session")
def dashboard() -> dict[str, Any]:
    """The Fleet dashboard, parsed."""
    parsed: dict[str, Any] = json.loads(texts()["fleet.json"])
    return parsed


@pytest.fixture(scope="session")
def store(
    victoriametrics_binary: Path, tmp_path_factory: pytest.TempPathFactory, dashboard: dict[str, Any]
) -> Iterator[Store]:
    """One server for the folder."""
    port = free_port()
    with start(binary=victoriametrics_binary, port=port, folder=tmp_path_factory.mktemp("store")):
        yield Store(f"http://127.0.0.1:{port}", dashboard)
