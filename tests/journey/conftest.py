"""A place of one's own: a folder, a ledger, a VictoriaMetrics, and the gputab command to run there."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gputab.cli import run
from machine.process import free_port
from tests.victoriametrics_server import start

Gputab = Callable[..., Any]


@pytest.fixture
def place(
    tmp_path: Path, database_url: str, victoriametrics_binary: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """An empty folder whose settings name its own ledger and its own VictoriaMetrics, migrated."""
    port = free_port()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gputab.toml").write_text(
        f'database_url = "{database_url}"\nvictoriametrics_url = "http://127.0.0.1:{port}"\n'
    )
    with start(binary=victoriametrics_binary, port=port, folder=tmp_path / "vm"):
        assert run(["db", "upgrade"]) == 0
        yield tmp_path


@pytest.fixture
def gputab(place: Path, capsys: pytest.CaptureFixture[str]) -> Gputab:
    """Run a command that must succeed; its JSON where `--format json` is asked for, else its text."""

    def command(*arguments: str) -> Any:
        capsys.readouterr()
        code = run(list(arguments))
        said = capsys.readouterr()
        assert code == 0, said.err
        return json.loads(said.out) if "json" in arguments else said.out

    return command
