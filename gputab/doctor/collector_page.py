"""How the collector of this node is doing, by its own page; and where it shows none, by its queue."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from collector.delivery.holes import HoleReason
from collector.delivery.queue import BatchQueue
from collector.delivery.queue_file import QueueInUseError
from collector.own_values import queue_values
from domain.clock import Clock
from domain.errors import UnavailableError
from domain.series import (
    COLLECTOR_COVERAGE,
    COLLECTOR_HOLES,
    COLLECTOR_LATENESS,
    COLLECTOR_QUARANTINED,
    COLLECTOR_QUEUE_AGE,
    COLLECTOR_QUEUE_BYTES,
    COLLECTOR_QUEUED,
    Series,
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
    """By the page at that port of loopback; else by the queue's file, which is open while a collector is at work."""
    values = page_values(node, port, client) if port else None
    if values is not None:
        yield from _running(values)
        return
    no_page = f"no page at port {port} of loopback" if port else "no page, since 'metrics_port' is 0"
    try:
        queued = _waiting(queue, max_bytes, clock) if queue.exists() else Finding("queue", Verdict.GOOD, "none yet")
    except QueueInUseError:
        said = f"one is at work for {node!r}: it has the queue open. It shows {no_page}"
        remedy = "set 'metrics_port' to a free port, the same for both" if port else "set 'metrics_port' to see more"
        yield Finding("collector", Verdict.NOTE, said, remedy)
        return
    except UnavailableError as error:
        queued = failure("queue", error)
    yield Finding("collector", Verdict.NOTE, f"none is at work for {node!r}: {no_page}", "start it by `gputab collect`")
    yield queued


def page_values(node: str, port: int, client: httpx.Client) -> Values | None:
    """What the collector of that node says of itself, by series; None where it does not."""
    try:
        response = client.get(f"http://127.0.0.1:{port}/metrics").raise_for_status()
        values: Values = {}
        for family in text_string_to_metric_families(response.text):
            for sample in family.samples:
                # What another collector of the node has sampled is no hole.
                if sample.labels.get("node") == node and sample.labels.get("reason") != HoleReason.STOOD_BY:
                    values.setdefault(sample.name, []).append(sample.value)
    except (httpx.HTTPError, ValueError):
        return None
    return values or None


def _running(values: Values) -> Iterator[Finding]:
    late_s, holes = _first(values, COLLECTOR_LATENESS), sum(values.get(COLLECTOR_HOLES.name, []))
    coverage = values.get(COLLECTOR_COVERAGE.name, [])
    said = f"samples, {late_s * 1_000:.0f} ms after the second began; {holes:.0f} seconds are holes"
    yield Finding("collector", Verdict.GOOD, said)
    if coverage:
        is_covered = min(coverage) >= _COVERED
        said = f"{min(coverage):.2%} of the last hour, of the card that answered least"
        remedy = "" if is_covered else "see its log for cards that are mute, lost or late"
        yield Finding("coverage", Verdict.GOOD if is_covered else Verdict.MEND, said, remedy)
    yield _queue(values)


def _waiting(queue: Path, max_bytes: int, clock: Clock) -> Finding:
    """What is in the queue's file. Raises QueueInUseError, UnavailableError."""
    with closing(BatchQueue(queue, max_bytes)) as waiting:
        return _queue({own.series.name: [own.value] for own in queue_values(waiting, clock, delivery_s=None)})


def _queue(values: Values) -> Finding:
    age_s = _first(values, COLLECTOR_QUEUE_AGE)
    said = f"{_first(values, COLLECTOR_QUEUED):.0f} seconds wait, the oldest for {age_s:.0f} s; "
    said += f"{_first(values, COLLECTOR_QUEUE_BYTES) / MIB:.1f} MiB on disk"
    if quarantined := _first(values, COLLECTOR_QUARANTINED):
        said += f"; {quarantined:.0f} samples were set aside"
    if age_s > _OLD_SECONDS:
        return Finding(
            "queue", Verdict.MEND, said, "see whether the store answers: nothing is lost while the disk lasts"
        )
    return Finding("queue", Verdict.GOOD, said)


def _first(values: Values, series: Series) -> float:
    return values.get(series.name, [0.0])[0]
