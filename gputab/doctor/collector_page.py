"""How the collector of this node is doing, by its own page; and where none runs, what waits in its queue."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from collector.delivery.queue import BatchQueue
from collector.delivery.queue_file import QueueDamagedError
from domain.clock import MICROSECONDS, Clock
from domain.errors import UnavailableError
from domain.series import (
    COLLECTOR_COVERAGE,
    COLLECTOR_HOLES,
    COLLECTOR_LATENESS,
    COLLECTOR_QUARANTINED,
    COLLECTOR_QUEUE_AGE,
    COLLECTOR_QUEUE_BYTES,
    COLLECTOR_QUEUED,
)
from domain.units import MIB
from gputab.doctor.findings import Finding, Verdict, failure

# So long a store may be away before somebody should know.
_OLD_SECONDS = 60
_COVERED = 0.999

Values = dict[str, list[float]]


def collector_findings(
    node: str, port: int, client: httpx.Client, queue: Path, max_bytes: int, clock: Clock
) -> Iterator[Finding]:
    """By the page at that port of loopback; else by the queue's file, which no collector has open then."""
    values = _page(node, port, client) if port else None
    if values is not None:
        yield from _running(values)
        return
    said = f"none of {node!r} shows a page at port {port} of loopback" if port else "'metrics_port' is 0: none shows"
    yield Finding("collector", Verdict.NOTE, said, "start it by `gputab collect`")
    if not queue.exists():
        yield Finding("queue", Verdict.GOOD, "there is none yet")
        return
    try:
        with closing(BatchQueue(queue, max_bytes)) as waiting:
            oldest_s = waiting.oldest_s
            age_s = 0 if oldest_s is None else max(0, clock.now_us() // MICROSECONDS - oldest_s)
            yield _queue(len(waiting), waiting.size_bytes, age_s, waiting.quarantined)
    except QueueDamagedError as error:
        yield failure("queue", error)
    except UnavailableError as error:
        # Most likely a collector whose page is another's port.
        yield failure("queue", error)._replace(verdict=Verdict.NOTE)


def _running(values: Values) -> Iterator[Finding]:
    late_s = values.get(COLLECTOR_LATENESS.name, [0.0])[0]
    holes = values.get(COLLECTOR_HOLES.name, [0.0])[0]
    coverage = values.get(COLLECTOR_COVERAGE.name, [])
    said = f"samples, {late_s * 1_000:.0f} ms after the second began; {holes:.0f} seconds are holes"
    yield Finding("collector", Verdict.GOOD, said)
    if coverage:
        is_covered = min(coverage) >= _COVERED
        said = f"{min(coverage):.2%} of the last hour, of the card that answered least"
        remedy = "" if is_covered else "see its log for cards that are mute, lost or late"
        yield Finding("coverage", Verdict.GOOD if is_covered else Verdict.MEND, said, remedy)
    waiting, size_bytes, age_s, quarantined = (
        values.get(each.name, [0.0])[0]
        for each in (COLLECTOR_QUEUED, COLLECTOR_QUEUE_BYTES, COLLECTOR_QUEUE_AGE, COLLECTOR_QUARANTINED)
    )
    yield _queue(int(waiting), size_bytes, age_s, int(quarantined))


def _queue(waiting: int, size_bytes: float, age_s: float, quarantined: int) -> Finding:
    said = f"{waiting} seconds wait, the oldest for {age_s:.0f} s; {size_bytes / MIB:.1f} MiB on disk"
    if quarantined:
        said += f"; {quarantined} samples were set aside"
    if age_s > _OLD_SECONDS:
        return Finding(
            "queue", Verdict.MEND, said, "see whether the store answers: nothing is lost while the disk lasts"
        )
    return Finding("queue", Verdict.GOOD, said)


def _page(node: str, port: int, client: httpx.Client) -> Values | None:
    """What the collector of that node says of itself, by series; None where it does not."""
    try:
        response = client.get(f"http://127.0.0.1:{port}/metrics").raise_for_status()
        values: Values = {}
        for family in text_string_to_metric_families(response.text):
            for sample in family.samples:
                if sample.labels.get("node") == node:
                    values.setdefault(sample.name, []).append(sample.value)
    except (httpx.HTTPError, ValueError):
        return None
    return values or None
