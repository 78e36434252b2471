"""`gputab doctor` beside a collector that has let go of the cards."""

import subprocess
import sys
from pathlib import Path

from machine.process import free_port
from tests.fakes.nvml.driver import FakeDriver

NODE = "node-1"


def _ask(folder: Path, driver: FakeDriver) -> "subprocess.CompletedProcess[str]":
    environment = {"GPUTAB_DATA_DIR": str(folder), "GPUTAB_METRICS_PORT": "0", **driver.env()}
    environment |= {
        f"GPUTAB_{each}_URL": f"http://127.0.0.1:{free_port()}" for each in ("VICTORIAMETRICS", "ALLOCATOR")
    }
    command = [sys.executable, "-m", "gputab", "doctor", "--node", NODE]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def _openings(driver: FakeDriver) -> int:
    return driver.calls("nvmlInitWithFlags") + driver.calls("nvmlInit_v2")


def _words(text: str) -> str:
    return " ".join(text.split())


def test_nothing_is_asked_of_a_driver_whose_cards_are_let_go_of(driver: FakeDriver, tmp_path: Path) -> None:
    """Or the MIG instances that an operator is about to destroy would be in use by whoever looks at them."""
    driver.card(0)
    (tmp_path / f"quiesce-{NODE}").touch()

    answer = _ask(tmp_path, driver)

    assert _openings(driver) == 0
    assert "note cards let go of, so nothing is asked of the driver" in _words(answer.stdout)
    assert "gputab quiesce --resume" in answer.stdout
    assert answer.returncode == 1
    (tmp_path / f"quiesce-{NODE}").unlink()
    _ask(tmp_path, driver)
    assert _openings(driver) > 0, "or this counts nothing"
