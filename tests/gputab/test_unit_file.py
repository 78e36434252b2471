"""The unit file in docs/collecting.md is one that systemd takes."""

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "collecting.md"


def unit() -> str:
    """As it is printed there."""
    (text,) = re.findall(r"^```ini\n(.*?)^```", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return str(text)


def test_systemd_finds_nothing_wrong_with_it(tmp_path: Path) -> None:
    """An unknown key is a warning to it, and it wants the program to be there."""
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("needs systemd-analyze")
    file = tmp_path / "gputab-collector.service"
    file.write_text(unit().replace("/opt/gputab/.venv/bin/gputab", sys.executable))
    done = subprocess.run([analyze, "verify", "--man=no", file], capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if file.name in line]
    assert (done.returncode, said) == (0, [])


def test_it_is_given_the_time_that_a_collector_takes_to_stop_and_its_records_outlive_it() -> None:
    service = configparser.ConfigParser(interpolation=None)
    service.optionxform = str  # type: ignore[assignment,method-assign] # systemd's keys have capitals
    service.read_string(unit())
    assert int(service["Service"]["TimeoutStopSec"]) >= 15
    assert service["Service"]["RuntimeDirectoryPreserve"] == "yes"
    assert service["Service"]["ExecStart"].endswith("gputab collect")
