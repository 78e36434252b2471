"""The whole journey: the demo as a person runs it, with an hour of past instead of a day."""

import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from rich.console import Console
from sqlalchemy import func, select

from domain.clock import SystemClock
from domain.units import MIB
from gputab.demo.run import run_demo
from machine.programs import VICTORIA_METRICS
from settings.gputab import load_settings
from store.database import Database
from store.tables.billing import charges
from tests.fakes.nvml.driver import FakeDriver

# A demo samples its cards every second; of two at once on a small machine each would miss some.
pytestmark = pytest.mark.xdist_group("demo")


@pytest.fixture
def own_folder(
    tmp_path: Path,
    victoriametrics_binary: Path,
    vmalert_binary: Path,
    alertmanager_binary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """An empty folder to run the demo in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_BINARY", str(victoriametrics_binary))
    monkeypatch.setenv("GPUTAB_VMALERT_BINARY", str(vmalert_binary))
    monkeypatch.setenv("GPUTAB_ALERTMANAGER_BINARY", str(alertmanager_binary))
    return tmp_path


def test_the_bill_of_the_demo_is_proved(own_folder: Path) -> None:
    """Invoices for everyone, residual 0, and every billed second and byte as the simulator says."""
    said = io.StringIO()
    console = Console(file=said, width=200)
    code = run_demo(load_settings(), 20, SystemClock(), console, past_s=3_600)
    assert code == 0, said.getvalue()
    assert " 0 differences; 0 granted seconds were not sampled" in said.getvalue()
    assert "0 compute-unit-seconds, 0 VRAM byte-seconds" in said.getvalue()
    assert _processes_of(own_folder) == []


@pytest.mark.parametrize("databases", ["postgresql"], indirect=True)
def test_the_bill_is_proved_on_postgresql_too(
    own_folder: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the shortest past in which every tenant has had something."""
    monkeypatch.setenv("GPUTAB_DATABASE_URL", database_url)
    said = io.StringIO()
    code = run_demo(load_settings(), 5, SystemClock(), Console(file=said, width=200), past_s=600)
    assert code == 0, said.getvalue()
    assert " 0 differences; 0 granted seconds were not sampled" in said.getvalue()
    assert not list(own_folder.rglob("gputab.db"))
    with closing(Database(database_url)) as database, database.read() as connection:
        assert connection.execute(select(func.count()).select_from(charges)).scalar_one() > 0
    assert _processes_of(own_folder) == []


def test_a_machine_with_cards_is_metered_on_its_own_cards(own_folder: Path, build_nvml: Callable[..., Path]) -> None:
    """The driver's two cards are collected, rented and billed; nothing of the simulator is there."""
    driver = FakeDriver(build_nvml(own_folder))
    for index in range(2):
        driver.card(index, used=MIB * 1_024, busy_percent=40, milliwatts=210_000)
    demo = subprocess.run(
        [sys.executable, "-m", "gputab", "demo", "--duration", "12"],
        env={**os.environ, **driver.env(), "GPUTAB_NODE": "box-1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert demo.returncode == 0, demo.stdout
    assert "of 2 cards in use" in demo.stdout
    assert "sim-" not in demo.stdout
    assert " 0 differences" in demo.stdout
    assert _processes_of(own_folder) == []


def test_a_program_that_cannot_start_ends_the_demo_in_its_own_words(
    own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = "".join(f"  -{flag} value\\n" for flag in VICTORIA_METRICS.required_flags)
    broken = own_folder / "broken-store"
    broken.write_text(
        f"#!/bin/sh\n[ \"$1\" = -help ] && printf '{flags}' && exit 0\necho 'cannot take the port; free it'; exit 3\n"
    )
    broken.chmod(0o755)
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_BINARY", str(broken))
    command = [sys.executable, "-m", "gputab", "demo"]
    demo = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert demo.returncode == 1
    said = demo.stderr.splitlines()[-1]
    assert said.startswith("gputab: cannot keep 'victoriametrics' running (cannot take the port; free it): see ")
    assert _processes_of(own_folder) == []


@pytest.mark.parametrize("kill", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_of_the_demo_is_left(own_folder: Path, kill: signal.Signals) -> None:
    """Ctrl-C, a polite stop and a kill -9, once everything runs."""
    with subprocess.Popen(
        [sys.executable, "-m", "gputab", "demo"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as demo:
        assert demo.stdout is not None
        lines = iter(demo.stdout.readline, "")
        assert any(line.startswith("look around") for line in lines)
        assert len(_processes_of(own_folder)) >= 3
        os.kill(demo.pid, kill)
        rest = demo.stdout.read()
    assert demo.returncode == {signal.SIGKILL: -9}.get(kill, 130), rest
    assert _until(lambda: _processes_of(own_folder) == [])


def _processes_of(folder: Path) -> list[str]:
    """Command lines of other processes that name the folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            place = str((process / "cwd").readlink())
        except OSError:
            continue
        if int(process.name) != os.getpid() and (str(folder) in words or place.startswith(str(folder))):
            found.append(words)
    return found


def _until(condition: Callable[[], bool]) -> bool:
    clock = SystemClock()
    deadline_s = clock.monotonic_s() + 20
    while clock.monotonic_s() < deadline_s:
        if condition():
            return True
        clock.sleep_s(0.1)
    return False
