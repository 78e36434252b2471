"""Alertmanager's configuration, as its own tool reads it, and the Alertmanager that runs on it."""

import subprocess
from itertools import combinations
from pathlib import Path

import httpx
import pytest
import yaml

from alerts import alertmanager
from alerts.card_rules import CARD_RULES
from alerts.routes import RECEIVER, render_routes
from alerts.watermark_rules import UNKNOWN_ALERT, alert_name
from domain.clock import SystemClock
from domain.errors import InputError
from domain.watermarks import WATERMARKS
from machine.process import Child, free_port
from tests.victoriametrics_server import START_TIMEOUT_S

# What the kernel calls a socket that listens, in /proc/net/tcp.
_LISTENING = "0A"
_LOOPBACK = "0100007F"


def run(*command: str | Path) -> str:
    """What a tool prints; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_alertmanagers_own_tool_takes_it_and_sends_every_alert_to_on_call(amtool: Path, tmp_path: Path) -> None:
    file = tmp_path / "alertmanager.yaml"
    file.write_text(render_routes("http://127.0.0.1:9/x?a=b%20c"), "utf-8")
    assert "SUCCESS" in run(amtool, "check-config", file)
    for name in [*map(alert_name, WATERMARKS), UNKNOWN_ALERT, *CARD_RULES, "SomebodyElses"]:
        labels = [f"alertname={name}", "node=a", "gpu_uuid=GPU-1"]
        found = run(amtool, "config", "routes", "test", f"--config.file={file}", *labels)
        assert found.strip() == RECEIVER


def test_each_level_keeps_every_lower_one_quiet_and_none_keeps_a_silent_card_quiet() -> None:
    rules = yaml.safe_load(render_routes())["inhibit_rules"]
    quiet = {
        (rule["source_matchers"][0].split('"')[1], target)
        for rule in rules
        for target in rule["target_matchers"][0].split('"')[1].split("|")
    }
    rising = sorted(WATERMARKS, key=lambda mark: mark.used_ratio)
    assert quiet == {(alert_name(high), alert_name(low)) for low, high in combinations(rising, 2)}
    assert all(rule["equal"] == ["node", "gpu_uuid", "mig_uuid"] for rule in rules)


def test_each_alert_beside_vram_is_a_group_of_its_own() -> None:
    """Or each change of one would repeat the others; and a node's alert has no card to be grouped by."""
    route = yaml.safe_load(render_routes())["route"]
    (apart,) = route["routes"]
    assert apart["group_by"] == ["alertname", *route["group_by"]]
    assert apart["matchers"] == [f'alertname =~ "{"|".join(CARD_RULES)}"']


@pytest.mark.parametrize("webhook", ["", "on-call", "ftp://a/b", "http://", "http://a b/", "http://a:0/", "http://[/"])
def test_a_webhook_that_is_no_url_is_refused(webhook: str) -> None:
    with pytest.raises(InputError, match="it is no URL; write it as http://127"):
        render_routes(webhook)


def test_alertmanager_listens_on_one_port_of_loopback_and_opens_none_for_a_cluster(
    alertmanager_binary: Path, tmp_path: Path
) -> None:
    port = free_port()
    config = tmp_path / "alertmanager.yaml"
    config.write_text(render_routes(), "utf-8")
    command = alertmanager.command(binary=alertmanager_binary, port=port, config=config, data_dir=tmp_path / "data")
    with Child(command, log=tmp_path / "log") as child:
        child.wait_until(lambda: _is_ready(port), timeout_s=START_TIMEOUT_S, clock=SystemClock())
        assert _listening(child.pid) == {("tcp", _LOOPBACK, port)}


def _is_ready(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/-/ready", trust_env=False).is_success
    except httpx.TransportError:
        return False


def _listening(pid: int) -> set[tuple[str, str, int]]:
    """(table, address in hexadecimal, port) of every socket that a process listens on or could be sent packets at."""
    inodes = {
        target.removeprefix("socket:[").removesuffix("]")
        for descriptor in Path(f"/proc/{pid}/fd").iterdir()
        if (target := str(descriptor.readlink())).startswith("socket:[")
    }
    found = set()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            address, _, port = words[1].partition(":")
            if words[9] in inodes and (words[3] == _LISTENING or table.startswith("udp")):
                found.add((table, address, int(port, 16)))
    return found
