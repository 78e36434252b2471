"""The three commands that make a page without anything else: vmalert, Alertmanager, and the receiver on a terminal."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from alerts.card_rules import CARD_RULES
from alerts.watermark_rules import UNKNOWN_ALERT, alert_name
from domain.clock import SystemClock
from domain.watermarks import WATERMARKS
from gputab.cli import run
from machine.process import Child, free_port
from tests.alerts.notifications import alert
from tests.victoriametrics_server import START_TIMEOUT_S


def gputab(folder: Path, *arguments: str) -> Child:
    """The command as a process, with its output in a file of the folder."""
    return Child([sys.executable, "-m", "gputab", "alerts", *arguments], log=folder / f"{arguments[0]}.log")


def wait_for(child: Child, probe: Callable[[], bool]) -> None:
    """Until `probe` is true of a child that runs."""
    child.wait_until(probe, timeout_s=START_TIMEOUT_S, clock=SystemClock())


def answers(url: str) -> bool:
    """Whether a server says that it is well."""
    try:
        return httpx.get(url, trust_env=False).is_success
    except httpx.TransportError:
        return False


@pytest.fixture
def alertmanager_url(
    tmp_path: Path,
    victoriametrics_url: str,
    vmalert_binary: Path,
    alertmanager_binary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> str:
    """Where Alertmanager is to run by the settings, in a data folder of the test's own."""
    url = f"http://127.0.0.1:{free_port()}"
    monkeypatch.setenv("GPUTAB_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", victoriametrics_url)
    monkeypatch.setenv("GPUTAB_ALERTMANAGER_URL", url)
    monkeypatch.setenv("GPUTAB_VMALERT_BINARY", str(vmalert_binary))
    # A relocated program is found, not set: it is what unpacking makes.
    (tmp_path / "programs").symlink_to(Path(__file__).parents[2] / ".gputab" / "programs")
    return url


def test_an_operator_gets_a_page_with_the_documented_commands(tmp_path: Path, alertmanager_url: str) -> None:
    receiver_port, vmalert_port = free_port(), free_port()
    webhook = f"http://127.0.0.1:{receiver_port}/alerts"
    with (
        gputab(tmp_path, "receive", "--port", str(receiver_port)) as receiver,
        gputab(tmp_path, "alertmanager", "--webhook", webhook) as alertmanager,
        gputab(tmp_path, "vmalert", "--for-seconds", "7", "--port", str(vmalert_port)) as vmalert,
    ):
        wait_for(receiver, lambda: f"waiting for pages at {webhook}" in receiver.log.read_text())
        wait_for(alertmanager, lambda: answers(f"{alertmanager_url}/-/ready"))
        wait_for(vmalert, lambda: answers(f"http://127.0.0.1:{vmalert_port}/health"))
        groups = httpx.get(f"http://127.0.0.1:{vmalert_port}/api/v1/rules", trust_env=False).json()["data"]["groups"]
        rules = {rule["name"]: rule for group in groups for rule in group["rules"]}
        of_vram = {*map(alert_name, WATERMARKS), UNKNOWN_ALERT}
        assert set(rules) == of_vram | set(CARD_RULES)
        assert {rules[name]["duration"] for name in of_vram} == {7, 12, 17}, "a lower level waits longer"
        sent = alert("VramCritical", "firing")
        new = {key: sent[key] for key in ("labels", "annotations")}
        httpx.post(f"{alertmanager_url}/api/v2/alerts", json=[new], trust_env=False).raise_for_status()
        wait_for(receiver, lambda: "CRITICAL" in receiver.log.read_text())
        assert "docs/runbooks/vram-watermark.md" in receiver.log.read_text()
        os.kill(receiver.pid, signal.SIGINT)
        wait_for(alertmanager, lambda: receiver.exit_code is not None)
        assert receiver.exit_code == 0


def test_alertmanager_is_not_run_here_for_a_url_elsewhere(
    alertmanager_url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor for one that vmalert would call in vain."""
    for url in (
        "http://pages.example.com:9093",
        "http://127.0.0.1",
        "https://127.0.0.1:9093",
        "http://127.0.0.1:9093/a",
    ):
        monkeypatch.setenv("GPUTAB_ALERTMANAGER_URL", url)
        assert run(["alerts", "alertmanager"]) == 2
        assert "not be at `alertmanager_url`; write it as http://127.0.0.1:9093" in capsys.readouterr().err


@pytest.mark.usefixtures("alertmanager_url")
def test_a_webhook_that_is_no_url_and_rules_that_are_none_are_refused_before_anything_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["alerts", "alertmanager", "--webhook", "pager"]) == 2
    assert run(["alerts", "vmalert", str(tmp_path / "none.yaml")]) == 2
    assert run(["alerts", "vmalert", "--for-seconds", "5", str(tmp_path / "none.yaml")]) == 2
    said = capsys.readouterr().err
    assert "cannot send pages to 'pager': it is no URL" in said
    assert "No such file or directory; check the path" in said
    assert "cannot change the times of rules in a file" in said
    assert not (tmp_path / "alerts").exists()
