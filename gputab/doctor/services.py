"""What the collector talks to: the store, the allocator, DCGM; and the clock by which all of them agree."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from pathlib import Path

import httpx

from collector.delivery.store_watch import proved_skew_s
from domain.clock import Clock
from domain.errors import InputError, UnavailableError
from domain.urls import without_credentials
from gputab.doctor.clock_sync import clock_sync
from gputab.doctor.findings import Finding, Verdict, failure
from victoriametrics.launcher import check_flags
from victoriametrics.push import Pusher
from victoriametrics.store_address import StoreAddress

# Beyond it a window does not settle by itself.
_SKEW_MAX_SECONDS = 2.0
# Where dcgm-exporter and DCGM's host engine are by default.
_EXPORTER_URL = "http://127.0.0.1:9400/metrics"
_ENGINE = ("127.0.0.1", 5555)
_ENGINE_SECONDS = 1.0


def store_findings(address: StoreAddress, clock: Clock) -> Iterator[Finding]:
    """Whether the store is there, would keep samples as they are, and has the same time."""
    shown = without_credentials(address.url)
    try:
        check_flags(address)
        with Pusher(address) as pusher:
            asked_us = clock.now_us()
            state = pusher.state()
            answered_us = clock.now_us()
    except (InputError, UnavailableError) as error:
        yield failure("store", error)
        return
    yield Finding("store", Verdict.GOOD, f"{shown} answers, and would keep every second as it is")
    yield _skew("the store", state.now_s, asked_us, answered_us)


def allocator_findings(url: str, token: str | None, client: httpx.Client, clock: Clock) -> Iterator[Finding]:
    """Whether the allocator is there, knows the token, and has the same time. No heartbeat is sent: that is a claim."""
    shown = without_credentials(url)
    try:
        asked_us = clock.now_us()
        response = client.get(f"{url}/healthz")
        answered_us = clock.now_us()
        # Operators only: a node is told so, whom nobody knows is told that.
        asked = client.get(f"{url}/metrics", headers={"Authorization": f"Bearer {token}"}) if token else None
    except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
        said, remedy = f"{shown} does not answer ({type(error).__name__})", "start it, or set 'allocator_url'"
        # A node without a token reports to nobody.
        yield Finding("allocator", Verdict.MEND if token else Verdict.NOTE, said, remedy)
        return
    if not response.is_success:
        said = f"{shown} answers {response.status_code}"
        yield Finding("allocator", Verdict.MEND, said, "see its log, and whether 'allocator_url' is right")
        return
    yield Finding("allocator", Verdict.GOOD, f"{shown} answers")
    if asked is None:
        said = "none is set: neither inventory nor heartbeats are reported"
        yield Finding("node token", Verdict.NOTE, said, "make one by `gputab token create`, and set GPUTAB_TOKEN")
    elif asked.status_code == httpx.codes.UNAUTHORIZED:
        remedy = "make another by `gputab token create`, and set GPUTAB_TOKEN"
        yield Finding("node token", Verdict.MEND, "the allocator does not know it, or it has expired", remedy)
    else:
        yield Finding("node token", Verdict.GOOD, "the allocator knows it")
    with suppress(KeyError, ValueError, TypeError):
        now_s = int(parsedate_to_datetime(response.headers["Date"]).timestamp())
        yield _skew("the allocator", now_s, asked_us, answered_us)


def clock_findings() -> Iterator[Finding]:
    """Whether something keeps this machine's clock right."""
    told = clock_sync()
    remedy = "run chrony or systemd-timesyncd on this machine, or on its host"
    if told is None:
        yield Finding("clock", Verdict.NOTE, "the kernel does not say whether something keeps it right", remedy)
    elif not told.is_synchronised:
        yield Finding("clock", Verdict.NOTE, "the kernel knows of nothing that keeps it right", remedy)
    else:
        yield Finding("clock", Verdict.GOOD, f"kept right to {told.error_seconds:.3f} s")


def dcgm_findings(
    client: httpx.Client, bindings: Path, exporter_url: str = _EXPORTER_URL, engine: tuple[str, int] = _ENGINE
) -> Iterator[Finding]:
    """Whether there is a DCGM here, which knows of some cards what their driver does not tell; by which door."""
    said, remedy = [], ""
    with suppress(httpx.HTTPError):
        if "DCGM_FI_" in client.get(exporter_url).text:
            said.append(f"a dcgm-exporter answers at {exporter_url}")
    with suppress(OSError), socket.create_connection(engine, _ENGINE_SECONDS):
        said.append(f"a host engine answers at {engine[0]}:{engine[1]}")
        if not (bindings / "dcgm_agent.py").is_file():
            said.append(f"its Python bindings are not in {str(bindings)!r}")
            remedy = "set 'dcgm_bindings' to where they are, to read it by --dcgm-engine"
    if not said:
        yield Finding("DCGM", Verdict.NOTE, "none is needed, and none answers where it would by default")
    else:
        yield Finding("DCGM", Verdict.NOTE if remedy else Verdict.GOOD, "; ".join(said), remedy)


def _skew(whose: str, now_s: int, asked_us: int, answered_us: int) -> Finding:
    ahead_s = proved_skew_s(now_s, asked_us, answered_us)
    if abs(ahead_s) > _SKEW_MAX_SECONDS:
        remedy = "set this node's clock, or the server's: run chrony on both"
        side = "ahead" if ahead_s > 0 else "behind"
        return Finding("clock skew", Verdict.MEND, f"{whose} is {abs(ahead_s):.1f} s {side}", remedy)
    said = f"{whose} has the same second" if ahead_s == 0 else f"{whose} is off by {ahead_s:+.1f} s"
    return Finding("clock skew", Verdict.GOOD, said)
