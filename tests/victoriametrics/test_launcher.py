"""A private server: loopback only, with the flags asked for, gone when stopped."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from domain.errors import InputError, UnavailableError
from machine.process import free_port
from tests.victoriametrics_server import start
from victoriametrics.launcher import check_flags, command
from victoriametrics.push import Pusher


def _listening_ports(pid: int) -> list[str]:
    """Address and port, in hexadecimal, of every socket the process listens on (proc(5))."""
    links = [str(path.readlink()) for path in Path(f"/proc/{pid}/fd").iterdir()]
    found = []
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            is_open = fields[3] == "0A" or table.startswith("udp")
            if is_open and f"socket:[{fields[9]}]" in links:
                found.append(fields[1])
    return found


def test_the_command_is_what_a_supervisor_runs() -> None:
    words = command(binary=Path("/opt/vm"), port=8428, data_dir=Path("/var/vm"), retention="35d")

    assert words == [
        "/opt/vm",
        "-httpListenAddr=127.0.0.1:8428",
        "-storageDataPath=/var/vm",
        "-retentionPeriod=35d",
        "-dedup.minScrapeInterval=1s",
        "-search.latencyOffset=1s",
    ]


def test_a_second_server_has_its_own_retention_and_leaves_nothing_behind(
    victoriametrics_binary: Path, victoriametrics_url: str, tmp_path: Path, now_s: int
) -> None:
    port = free_port()
    start_s = now_s + 1 - 28 * 86_400
    child = start(binary=victoriametrics_binary, port=port, folder=tmp_path, retention="4w")
    with child, Pusher(f"http://127.0.0.1:{port}") as second, Pusher(victoriametrics_url) as first:
        check_flags(f"http://127.0.0.1:{port}")
        second.refuse_unkept(start_s, now_s, now_s)
        with pytest.raises(InputError, match="keeps nothing from before"):
            second.refuse_unkept(start_s - 1, now_s, now_s)
        first.refuse_unkept(0, now_s, now_s)
        assert _listening_ports(child.pid) == [f"0100007F:{port:04X}"]

    assert child.exit_code == 0
    assert not Path(f"/proc/{child.pid}").exists()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


def test_a_server_that_cannot_start_says_why_and_leaves_nothing(victoriametrics_binary: Path, tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"cannot use .*victoria-metrics.*it ended with"):
        start(binary=victoriametrics_binary, port=free_port(), folder=tmp_path, retention="forever")


@pytest.mark.parametrize("interval", ["0s", "30s"])
def test_a_server_that_would_bend_samples_is_refused(launch: Callable[..., str], interval: str) -> None:
    with pytest.raises(UnavailableError, match=f"-dedup.minScrapeInterval is '{interval}'; start it with 1s"):
        check_flags(launch(f"-dedup.minScrapeInterval={interval}"))


def test_a_server_that_keeps_more_off_its_disk_than_is_sent_again_is_refused(launch: Callable[..., str]) -> None:
    check_flags(launch("-inmemoryDataFlushInterval=30s"))
    with pytest.raises(UnavailableError, match="-inmemoryDataFlushInterval is '1m0s'"):
        check_flags(launch("-inmemoryDataFlushInterval=1m"))
