"""Replay of a log of another tool into the store: its readings by way of an import, and what it knows of the cards."""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from collector.imports.log_samples import LogSamples
from collector.imports.sample_import import ImportReport, import_log
from collector.imports.stored_samples import StoredSamples, seen_in_time
from domain.clock import MICROSECONDS, Clock
from domain.errors import UnavailableError
from domain.samples import SampleRun
from domain.series import GPU_INFO
from victoriametrics.push import Pusher

# As a collector says it of the cards that it reads.
_INFO_SECONDS = 60


def replay(
    log: LogSamples,
    pusher: Pusher,
    clock: Clock,
    stored: StoredSamples,
    check_store: Callable[[], None],
    *,
    hold_s: int | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> ImportReport:
    """Send the readings as `import_log` does, `advance` being told rows, and then which card is which.

    What is known of a card is sent for its first second and each whole minute until its last reading. Raises what
    `import_log` raises, and UnavailableError where the store did not keep that.
    """
    done = import_log(log, pusher, clock, stored, check_store, hold_s=hold_s, advance=advance)
    runs = list(_info_runs(log))
    pusher.send(runs)
    pusher.flush()
    sent = Counter({run.labels["node"]: 0 for run in runs})
    for run in runs:
        sent[run.labels["node"]] += len(run.seconds)
    for node, count in sent.items():
        kept = partial(stored.count, (GPU_INFO,), node, done.start_s, done.end_s)
        if (found := seen_in_time(kept, count, clock)) < count:
            raise UnavailableError(
                f"cannot tell the store all of the cards of {str(log.path)!r}: of {count} samples of {node!r} it has "
                f"{found}; see its log, then replay again"
            )
    return done


def _info_runs(log: LogSamples) -> Iterator[SampleRun]:
    """What the log knows of each card; a card of which it knows nothing has none."""
    spans_s: dict[tuple[str, str], tuple[int, int]] = {}
    for row in log.rows(lambda _: None):
        card, second_s = row.identity[:2], row.time_us // MICROSECONDS
        first_s, last_s = spans_s.get(card, (second_s, second_s))
        spans_s[card] = min(first_s, second_s), max(last_s, second_s)
    for (node, gpu_uuid), (first_s, last_s) in spans_s.items():
        known = log.cards[node, gpu_uuid]
        if known.index is None and known.model is None:
            continue
        next_minute_s = first_s - first_s % _INFO_SECONDS + _INFO_SECONDS
        seconds = [first_s, *range(next_minute_s, last_s + 1, _INFO_SECONDS)]
        labels = {
            "node": node,
            "gpu_uuid": gpu_uuid,
            "index": known.index or "",
            "model": known.model or "",
            "driver_version": "",
            "pci_bus_id": "",
        }
        yield SampleRun(GPU_INFO, labels, seconds, [1] * len(seconds))
