"""The command line in-process: its exit code and what it prints, in a working directory of its own."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gputab.cli import run
from tests.databases import Databases

BOOK = """
book: retail
currency: CNY
rates:
  - {dimension: gpu, sku: rtx4090-24g, price: "2.20", unit: GPU-hour, from: 2026-01-01T00:00:00+08:00}
  - {dimension: vram, sku: "*", price: "0.03", unit: GiB-hour, from: 2026-01-01T00:00:00+08:00}
"""


@dataclass(frozen=True)
class Printed:
    """What a command left: its exit code, its data, and its words."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        """The JSON it printed."""
        return json.loads(self.out)

    @property
    def line(self) -> str:
        """The one line it said on stderr."""
        (line,) = self.err.splitlines()
        return line


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory and an environment without settings."""
    for name in [name for name in os.environ if name.upper().startswith("GPUTAB_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def gputab(place: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Printed]:
    """Runs a command in `place`."""

    def ran(*words: str) -> Printed:
        capsys.readouterr()
        code = run(list(words))
        captured = capsys.readouterr()
        return Printed(code, captured.out, captured.err)

    return ran


@pytest.fixture(scope="session")
def template(databases: Databases, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A ledger made by commands once, to be copied."""
    folder = tmp_path_factory.mktemp("template")
    (folder / "retail.yaml").write_text(BOOK, "utf-8")
    with databases.empty() as url:
        # The settings of the session are nobody else's.
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.upper().startswith("GPUTAB_")]:
                patch.delenv(name)
            patch.setenv("GPUTAB_DATABASE_URL", url)
            patch.chdir(folder)
            for words in (
                "db upgrade",
                "tenant create acme --currency CNY --zone Asia/Shanghai --project vision",
                "prices load retail.yaml",
                "tenant assign acme retail --from 2026-01-01T00:00:00Z",
            ):
                assert run(words.split()) == 0
        yield url


@pytest.fixture
def ledger(databases: Databases, template: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Where a ledger with the tenant acme, in UTC+8, rated by `retail`, is; the file of the book is retail.yaml.

    The settings of `place` name it.
    """
    (place / "retail.yaml").write_text(BOOK, "utf-8")
    with databases.copy(template) as url:
        monkeypatch.setenv("GPUTAB_DATABASE_URL", url)
        yield url


@pytest.fixture
def record(gputab: Callable[..., Printed], place: Path) -> Callable[..., None]:
    """Imports allocation rows of acme, each a mapping of columns to cells."""
    columns = (
        *("allocation", "tenant", "project", "node", "gpu_uuid", "model", "kind"),
        *("milli_gpu", "vram_mib", "mig_profile", "start", "end"),
    )
    plain = {
        "tenant": "acme",
        "project": "vision",
        "model": "NVIDIA GeForce RTX 4090",
        "kind": "whole",
        "vram_mib": "24564",
    }

    def recorded(*rows: dict[str, str]) -> None:
        lines = [",".join(columns), *(",".join({**plain, **row}.get(column, "") for column in columns) for row in rows)]
        (place / "allocations.csv").write_text("\n".join(lines) + "\n", "utf-8")
        done = gputab("allocations", "import", "allocations.csv")
        assert done.code == 0, done.err

    return recorded
