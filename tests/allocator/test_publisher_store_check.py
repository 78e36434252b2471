"""A store that would bend samples is sent no grant, one that is away is waited for, and the service goes on."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from allocator.allocation_store import create
from allocator.publisher import GrantPublisher
from allocator.request import AllocationRequest
from domain.errors import UnavailableError
from domain.grants import GrantKind
from domain.series import GRANT_INFO
from machine.process import Child, free_port
from store.access import Principal
from tests.victoriametrics_server import start
from victoriametrics import launcher
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Ledger, Service

OPERATOR = Principal.local_operator()
# How long a busy machine may take for what takes a second or two.
PATIENCE_S = 60
BENT = "-dedup.minScrapeInterval is '30s'; start it with 1s"


@pytest.fixture
def merging_store(victoriametrics_binary: Path, tmp_path: Path) -> Iterator[str]:
    """A server that keeps one sample in half a minute."""
    port = free_port()
    flags = ["-dedup.minScrapeInterval=30s"]
    with start(binary=victoriametrics_binary, port=port, folder=tmp_path / "merging", flags=flags):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture
def granted(service: "Service", ledger: "Ledger", hardware: "Hardware") -> str:
    """An allocation that is held."""
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    with ledger.database.write() as connection:
        allocation, _ = create(connection, OPERATOR, AllocationRequest("acme", "lab", GrantKind.WHOLE))
    # A grant holds no second before the one after it began.
    time.sleep(1.05)
    return allocation


def published(url: str, allocation: str, now_s: int) -> list[float]:
    with Pusher(url) as pusher, Reader(url) as reader:
        pusher.flush()
        frame = reader.export(Selector((GRANT_INFO,), {"allocation": allocation}), now_s - 120, now_s + 120).frame
    values: list[float] = frame["value"].to_list()
    return values


def test_a_store_that_would_merge_seconds_is_sent_no_grant(ledger: "Ledger", granted: str, merging_store: str) -> None:
    with Pusher(merging_store) as pusher:
        publisher = GrantPublisher(ledger.database, pusher, partial(launcher.check_flags, merging_store))
        for _ in range(2):
            with pytest.raises(UnavailableError, match=re.escape(BENT)):
                publisher.publish()
    assert published(merging_store, granted, ledger.now_s()) == []


def test_a_store_that_is_away_at_the_start_is_checked_once_it_answers(
    ledger: "Ledger", granted: str, victoriametrics_binary: Path, tmp_path: Path
) -> None:
    """Each new reason is said: away first, then the wrong flag, then that it goes again."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    words = launcher.command(binary=victoriametrics_binary, port=port, data_dir=tmp_path / "data")

    def wait_for(words: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while not any(words in str(entry) for entry in logged):
            assert time.monotonic() < deadline_s, logged
            publisher.changed()
            time.sleep(0.1)

    with Pusher(url) as pusher, capture_logs() as logged:
        publisher = GrantPublisher(ledger.database, pusher, partial(launcher.check_flags, url))
        publisher.start()
        try:
            wait_for("no answer from VictoriaMetrics")
            with Child([*words, "-dedup.minScrapeInterval=30s"], log=tmp_path / "merging.log"):
                wait_for(BENT)
            with Child(words, log=tmp_path / "good.log"):
                wait_for("grants published again")
                assert 1 in published(url, granted, ledger.now_s())
        finally:
            publisher.stop()


def test_the_service_checks_the_store_and_goes_on(
    ledger: "Ledger", merging_store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUTAB_DATABASE_URL", ledger.url)
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", merging_store)
    command = [sys.executable, "-m", "gputab", "allocator", "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            lines = iter(process.stderr.readline, "")
            said = next(line for line in lines if "grants not published" in line)
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=PATIENCE_S)
    assert BENT in said
