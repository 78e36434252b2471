"""A program that sends samples to a store, watched from outside: what it takes, and when a second can be seen."""

import json
import time
from dataclasses import dataclass, field

import httpx

from benchmarks.fake_node import FAKE_WORLD
from benchmarks.process_usage import cpu_seconds, rss_mib

# How often the store is asked, and so how much later than in truth a second may be seen.
POLL_SECONDS = 0.05
_MILLISECONDS = 1_000
# Whatever comes to be seen later than this is not seen.
_LATEST_SECONDS = 20.0


@dataclass
class Watched:
    """What was seen of a run of `seconds`, its warming up left out."""

    seconds: float
    cpu_share: float
    store_cpu_share: float
    rss_mib: float
    rss_growth_mib: float
    samples: int
    stamps_s: list[float] = field(default_factory=list)
    seen_after_s: list[float] = field(default_factory=list)


def watch(pid: int, store_pid: int, url: str, selector: str, *, warm_up_s: float, seconds: float) -> Watched:
    """Watch the process for so long; `selector` is one series of which it sends a sample a second.

    `samples` are all that the store has taken meanwhile.
    """
    with httpx.Client(base_url=url, trust_env=False) as client:
        _follow(client, selector, time.time(), warm_up_s)
        cpu_s, store_cpu_s, began_s = cpu_seconds(pid), cpu_seconds(store_pid), time.monotonic()
        rows, memory = _rows(client), rss_mib(pid, FAKE_WORLD)
        stamps, seen_after = _follow(client, selector, time.time(), seconds)
        passed_s = time.monotonic() - began_s
        if not stamps:
            raise RuntimeError(f"cannot measure {pid}: no sample of {selector!r} came to be seen; watch it for longer")
        after_mib = rss_mib(pid, FAKE_WORLD)
        return Watched(
            seconds=passed_s,
            cpu_share=(cpu_seconds(pid) - cpu_s) / passed_s,
            store_cpu_share=(cpu_seconds(store_pid) - store_cpu_s) / passed_s,
            rss_mib=after_mib,
            rss_growth_mib=after_mib - memory,
            samples=_rows(client) - rows,
            stamps_s=stamps,
            seen_after_s=seen_after,
        )


def _follow(client: httpx.Client, selector: str, from_s: float, seconds: float) -> tuple[list[float], list[float]]:
    """The stamps of the samples that come to be seen, and how long after their stamp each was."""
    seen_after_ms: dict[int, float] = {}
    first_ms = round(from_s * _MILLISECONDS)
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        # A later second may be seen before an earlier one.
        start_s = max(from_s, time.time() - _LATEST_SECONDS)
        answer = client.get("/api/v1/export", params={"match[]": selector, "start": f"{start_s:.3f}"})
        now_ms = time.time() * _MILLISECONDS
        for line in answer.text.splitlines():
            for stamp_ms in json.loads(line)["timestamps"]:
                if stamp_ms >= first_ms:
                    seen_after_ms.setdefault(stamp_ms, now_ms - stamp_ms)
        time.sleep(POLL_SECONDS)
    stamps = sorted(seen_after_ms)
    return [stamp / _MILLISECONDS for stamp in stamps], [seen_after_ms[stamp] / _MILLISECONDS for stamp in stamps]


def _rows(client: httpx.Client) -> int:
    """How many samples the store has taken since it began."""
    lines = client.get("/metrics").text.splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith("vm_rows_inserted_total"))
