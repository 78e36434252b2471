"""What a collector says of its own work."""

from domain.series.series import COUNTER, GAUGE, INFO, NODE, Series

# Counts on disk; who takes over from another collector has counts of its own.
_QUEUE = ("node", "collector")

COLLECTOR_COMPLETE_UNTIL = Series(
    "collector_complete_until_timestamp_seconds",
    "seconds",
    GAUGE,
    "every second before this one was delivered or recorded as a hole",
    NODE,
    True,
)
COLLECTOR_INFO = Series(
    "collector_info",
    "info",
    INFO,
    "1 while that collector tells of the node, which one does at a time; `collector` is its queue's own number",
    _QUEUE,
)
COLLECTOR_LATENESS = Series("collector_tick_lateness_seconds", "seconds", GAUGE, "how late the tick began", NODE)
COLLECTOR_READ = Series(
    "collector_read_seconds", "seconds", GAUGE, "how long it took until the last of the cards had answered", NODE
)
COLLECTOR_DELIVERY = Series(
    "collector_delivery_seconds",
    "seconds",
    GAUGE,
    "how long after it began the newest second that the store has taken was taken",
    NODE,
)
COLLECTOR_QUEUED = Series(
    "collector_queued_batches",
    "batches",
    GAUGE,
    "seconds waiting on disk for the store",
    NODE,
    True,
)
COLLECTOR_HOLES = Series(
    "collector_holes_total",
    "seconds",
    COUNTER,
    "seconds that the queue never had or gave up, by why: not read in time (`late`), the node's `clock` in doubt or "
    "set, its collector away (`not_running`) or standing by for another (`stood_by`); given up in the queue "
    "(`queue_full`, `too_old`, or for a `disk` that took nothing); `unrecorded` by a former gputab",
    (*_QUEUE, "reason"),
    True,
)
COLLECTOR_MISSED = Series(
    "collector_missed_reads_total",
    "seconds",
    COUNTER,
    "seconds in which one card gave no answer in time, while the others did",
    ("node", "gpu_uuid"),
    True,
)
COLLECTOR_REFUSED = Series(
    "collector_refused_batches_total",
    "batches",
    COUNTER,
    "seconds the store called unusable, or would not keep; they are set aside on disk",
    _QUEUE,
    True,
)
COLLECTOR_CLOCK_SKEW = Series(
    "collector_clock_skew_seconds", "seconds", GAUGE, "the allocator's clock minus the node's", NODE
)
COLLECTOR_GARBAGE = Series(
    "collector_garbage_total",
    "readings",
    COUNTER,
    "readings refused because no card can have such a value",
    ("node", "field"),
    True,
)
COLLECTOR_CAPPED_RATIOS = Series(
    "collector_capped_ratios_total",
    "readings",
    COUNTER,
    "ratios above 1 by no more than 5 %, as two counters that are read one after the other make them: they are taken "
    "as 1; `source` is who told them: `nvml`, `dcgm_exporter` or `dcgm_engine`",
    ("node", "gpu_uuid", "field", "source"),
    True,
)
COLLECTOR_QUARANTINED = Series(
    "collector_quarantined_samples_total",
    "samples",
    COUNTER,
    "samples that the store called unusable, or would have dropped; they are set aside on disk",
    _QUEUE,
    True,
)
COLLECTOR_QUEUE_BYTES = Series(
    "collector_queue_bytes", "bytes", GAUGE, "what waits on disk, or is kept there to be sent again", NODE, True
)
COLLECTOR_QUEUE_AGE = Series(
    "collector_queue_oldest_age_seconds", "seconds", GAUGE, "age of the oldest second that waits for the store", NODE
)
COLLECTOR_STORE_SKEW = Series(
    "collector_store_clock_skew_seconds", "seconds", GAUGE, "the store's clock minus the node's, to the second", NODE
)
COLLECTOR_CLOCK_STEPS = Series(
    "collector_clock_steps_total",
    "steps",
    COUNTER,
    "jumps of the node's wall clock by more than 2 s, there or back",
    NODE,
    True,
)
COLLECTOR_COVERAGE = Series(
    "collector_sample_coverage_ratio",
    "ratio",
    GAUGE,
    "seconds in which the card answered as a share of those that passed, over the last hour, or since the collector "
    "began where that is less",
    ("node", "gpu_uuid"),
)
COLLECTOR_EXPECTED_CARDS = Series(
    "collector_expected_cards", "cards", GAUGE, "cards that the node has had; one that is lost still counts", NODE, True
)
COLLECTOR_DRIVER_STATE = Series(
    "collector_driver_state",
    "bool",
    GAUGE,
    "1 for what the driver is now, 0 for what it is not: open, gone, mismatch, quiesced",
    ("node", "state"),
    True,
)
COLLECTOR_DRIVER_OPENED = Series(
    "collector_driver_opened_total", "times", COUNTER, "how often the driver was opened", NODE, True
)
COLLECTOR_CALL_SECONDS = Series(
    "collector_call_seconds_total", "seconds", COUNTER, "time spent in a function of the driver", ("node", "call")
)
COLLECTOR_CALLS = Series(
    "collector_calls_total", "calls", COUNTER, "calls of a function of the driver", ("node", "call"), True
)
COLLECTOR_CALL_LONGEST = Series(
    "collector_call_longest_seconds",
    "seconds",
    GAUGE,
    "the longest call of a function of the driver that ended in the last minute or two",
    ("node", "call"),
)
COLLECTOR_CALL_FAILURES = Series(
    "collector_call_failures_total",
    "calls",
    COUNTER,
    "calls of a function of the driver that it answered with an error",
    ("node", "call", "error"),
    True,
)
COLLECTOR_COUNTER_RESETS = Series(
    "collector_counter_resets_total",
    "times",
    COUNTER,
    "how often a counter of a card began again, as it does when the driver is loaded",
    ("node", "gpu_uuid", "field"),
    True,
)
COLLECTOR_REFUSED_PROCESS_SAMPLES = Series(
    "collector_refused_process_samples_total",
    "samples",
    COUNTER,
    "samples of what a process computed that none can have, such as more than 100 %; they count for no owner",
    ("node", "gpu_uuid"),
    True,
)
COLLECTOR_UNPROVED_PROCESSES = Series(
    "collector_unproved_processes",
    "processes",
    GAUGE,
    "processes on the cards that no cgroup proves an owner of",
    NODE,
    True,
)
