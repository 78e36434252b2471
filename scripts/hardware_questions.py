"""What only a real card can answer, each asked of one card: the answer in words and the numbers behind it."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from collector.call_times import CallTimes
from collector.nvml.driver import MEMORY_VERSION_2, Driver, DriverError, gpm_request, name_of
from collector.nvml.source import NvmlSource
from domain.clock import MICROSECONDS, Clock
from domain.series import GPU_ENERGY, GPU_SM_ACTIVE
from domain.units import MIB
from scripts.loads import Loads
from scripts.section import Section

# nvml.h: fields of bytes over PCIe, of clock events, and others that came late; metrics of counters.
FIELDS = {
    197: "PCIe bytes transmitted",
    198: "PCIe bytes received",
    269: "clock event: software thermal slowdown",
    270: "clock event: hardware thermal slowdown",
    271: "clock event: power brake slowdown",
    185: "power, average",
    186: "power, instant",
    82: "memory temperature",
    230: "recovery action",
}
GPM_COUNTERS = range(248, 261)
_SAMPLE_KINDS = {0: "power", 1: "busy", 2: "memory busy", 14: "module power"}
_GPM_SECONDS = 1.0
# Performance metrics have no value of a shorter window.
_TICK_SECONDS = 0.55
_POLL_SECONDS = 0.02
_MILLISECONDS = 1_000


@dataclass(frozen=True)
class Bench:
    """One card under the driver, and how long a question may watch it."""

    driver: Driver
    handle: Any
    uuid: str
    clock: Clock
    seconds: float

    def until(self) -> Callable[[], bool]:
        """Whether there is time left, from now on."""
        end_s = self.clock.monotonic_s() + self.seconds
        return lambda: self.clock.monotonic_s() < end_s


def fields_and_counters(bench: Bench) -> Section:
    """(a) Which of the newer fields and counters the driver has."""
    rows = []
    try:
        told = bench.driver.ask("DeviceGetFieldValues", bench.handle, list(FIELDS))
    except DriverError as error:
        rows.append(("all fields", "", name_of(error.code)))
    else:
        for field, name in zip(told, FIELDS.values(), strict=True):
            answer = "told" if field.nvmlReturn == 0 else name_of(field.nvmlReturn)
            rows.append((f"field {field.fieldId}", name, answer))
    rows += [(f"GPM {metric}", "counter", answer) for metric, answer in _gpm_answers(bench, GPM_COUNTERS).items()]
    has = [what for what, _, answer in rows if answer == "told"]
    answer = f"It has {', '.join(has)}." if has else "It has none of them."
    return Section("(a) Newer fields and counters", answer, ("what", "meaning", "the driver says"), rows)


def finer_samples(bench: Bench) -> Section:
    """(b) How often the driver samples by itself, and by which clock it stamps that."""
    rows = []
    for kind, name in _SAMPLE_KINDS.items():
        stamps: set[int] = set()
        last_us = 0
        answer = ""
        has_time = bench.until()
        while has_time():
            try:
                _, samples = bench.driver.ask("DeviceGetSamples", bench.handle, kind, last_us)
            except DriverError as error:
                answer = name_of(error.code)
            else:
                stamps.update(int(sample.timeStamp) for sample in samples)
                last_us = max(stamps, default=0)
            bench.clock.sleep_s(0.25)
        rows.append((name, len(stamps), _period(stamps), _clock_of(stamps, bench.clock), answer))
    told = [f"{name}: {period} by {domain}" for name, _, period, domain, _ in rows if domain]
    answer = f"{'; '.join(told)}." if told else "The driver keeps no finer samples of this card."
    return Section(
        "(b) Period and clock of finer samples", answer, ("samples of", "seen", "apart", "clock", "last error"), rows
    )


def tick_cost(source: NvmlSource, calls: CallTimes, bench: Bench) -> Section:
    """(c) What reading a card costs in all, and by function."""
    source.read(bench.uuid, 0)
    before = calls.times()
    taken: list[float] = []
    has_time = bench.until()
    while has_time():
        began_s = bench.clock.monotonic_s()
        source.read(bench.uuid, len(taken) + 1)
        taken.append((bench.clock.monotonic_s() - began_s) * _MILLISECONDS)
        bench.clock.sleep_s(_TICK_SECONDS)
    rows = []
    for call, time in calls.times().items():
        made = time.calls - (before[call].calls if call in before else 0)
        spent_s = time.seconds - (before[call].seconds if call in before else 0.0)
        if made:
            mean_us = f"{spent_s / made * MICROSECONDS:.0f}"
            rows.append((call, f"{made / len(taken):.1f}", mean_us, f"{time.longest_seconds * _MILLISECONDS:.2f}"))
    rows.sort(key=lambda row: -float(row[1]) * float(row[2]))
    answer = (
        f"A tick takes {statistics.median(taken):.1f} ms in the median, {max(taken):.1f} ms at most, of {len(taken)}."
    )
    return Section("(c) Cost of one tick", answer, ("function", "calls a tick", "mean, us", "longest, ms"), rows)


def process_samples(bench: Bench, loads: Loads) -> Section:
    """(d) How often the driver samples what each of two competing processes does."""
    stamps: defaultdict[int, set[int]] = defaultdict(set)
    percents: defaultdict[int, list[int]] = defaultdict(list)
    errors: Counter[str] = Counter()
    has_time = bench.until()
    while has_time():
        try:
            told = bench.driver.ask("DeviceGetProcessUtilization", bench.handle, 0)
        except DriverError as error:
            errors[name_of(error.code)] += 1
        else:
            for sample in told:
                if sample.timeStamp not in stamps[sample.pid]:
                    stamps[sample.pid].add(sample.timeStamp)
                    percents[sample.pid].append(sample.smUtil)
        bench.clock.sleep_s(_POLL_SECONDS)
    rows = [
        (number, len(stamps[pid]), _period(stamps[pid]), f"{statistics.mean(percents[pid]):.0f} %")
        for number, pid in enumerate(sorted(stamps), start=1)
    ]
    answer = (
        f"{len(rows)} processes were sampled." if rows else f"Nobody was sampled ({', '.join(errors) or 'no one'})."
    )
    return Section("(d) Samples by process", answer + loads.caveat, ("process", "samples", "apart", "SMs, mean"), rows)


def gpm_against_energy(source: NvmlSource, bench: Bench) -> Section:
    """(e) Whether performance metrics of exactly a second move with what the energy counter says of it."""
    seen: list[tuple[float, float]] = []
    last_joules: float | None = None
    rows = []
    has_time = bench.until()
    while has_time():
        # On the second, as the collector does.
        bench.clock.sleep_s(1 - bench.clock.now_us() % MICROSECONDS / MICROSECONDS)
        values = source.read(bench.uuid, bench.clock.now_us() // MICROSECONDS)[0].values
        active, joules = values.get(GPU_SM_ACTIVE), values.get(GPU_ENERGY)
        if active is not None and joules is not None and last_joules is not None:
            seen.append((float(active), float(joules) - last_joules))
            rows.append((len(seen), f"{active:.3f}", f"{joules - last_joules:.1f}"))
        last_joules = None if joules is None else float(joules)
    title = "(e) Performance metrics of one second against the energy counter"
    headings = ("second", "SM active", "joules")
    if len(seen) < 3:
        return Section(title, "This card does not tell both.")
    by_lag = {lag: _correlation(seen, lag) for lag in (-1, 0, 1)}
    told = ", ".join(f"{value:+.2f} at a lag of {lag} s" for lag, value in by_lag.items() if value is not None)
    answer = f"Their correlation is {told}." if told else "Neither changed, so that nothing can be said."
    return Section(title, answer, headings, rows)


def reserved_memory(bench: Bench, load: Callable[[], Loads]) -> Section:
    """(f) Whether what the driver reserves of the memory stays the same while others take and free theirs."""
    rows = []

    def look(when: str) -> None:
        memory = bench.driver.ask("DeviceGetMemoryInfo", bench.handle, version=MEMORY_VERSION_2)
        rows.append((when, *(f"{value / MIB:.0f}" for value in (memory.reserved, memory.used, memory.free))))

    look("before")
    with closing(load()) as loads:
        has_time = bench.until()
        while has_time():
            look("meanwhile")
            bench.clock.sleep_s(0.5)
    look("after")
    reserved = {row[1] for row in rows}
    answer = (
        f"It stays at {rows[0][1]} MiB." if len(reserved) == 1 else f"It changes: {', '.join(sorted(reserved))} MiB."
    )
    headings = ("when", "reserved, MiB", "used, MiB", "free, MiB")
    return Section("(f) Reserved memory under load", answer + loads.caveat, headings, list(dict.fromkeys(rows)))


def _gpm_answers(bench: Bench, metrics: Iterable[int]) -> dict[int, str]:
    """What the driver says of each metric asked by itself, over one second."""
    driver = bench.driver
    try:
        samples = [driver.ask("GpmSampleAlloc"), driver.ask("GpmSampleAlloc")]
    except DriverError as error:
        return dict.fromkeys(metrics, name_of(error.code))
    answers: dict[int, str] = {}
    try:
        driver.ask("GpmSampleGet", bench.handle, samples[0])
        bench.clock.sleep_s(_GPM_SECONDS)
        driver.ask("GpmSampleGet", bench.handle, samples[1])
        for metric in metrics:
            request = gpm_request((metric,))
            request.sample1, request.sample2 = samples
            try:
                driver.ask("GpmMetricsGet", request)
            except DriverError as error:
                answers[metric] = name_of(error.code)
            else:
                code = request.metrics[0].nvmlReturn
                answers[metric] = "told" if code == 0 else name_of(code)
    except DriverError as error:
        answers = {metric: answers.get(metric, name_of(error.code)) for metric in metrics}
    finally:
        for sample in samples:
            driver.answer("GpmSampleFree", sample)
    return answers


def _period(stamps_us: Iterable[int]) -> str:
    """How far apart they are in the median."""
    ordered = sorted(stamps_us)
    if len(ordered) < 2:
        return "-"
    apart = [after - before for before, after in pairwise(ordered)]
    return f"{statistics.median(apart) / _MILLISECONDS:.0f} ms"


def _clock_of(stamps_us: Iterable[int], clock: Clock) -> str:
    """Which of the machine's clocks the newest stamp is of."""
    newest_us = max(stamps_us, default=None)
    if newest_us is None:
        return ""
    away = {"the wall clock": abs(clock.now_us() - newest_us), "the time since boot": abs(clock.boot_us() - newest_us)}
    nearest = min(away, key=lambda name: away[name])
    return nearest if away[nearest] < 60 * MICROSECONDS else f"neither ({newest_us})"


def _correlation(pairs: Sequence[tuple[float, float]], lag: int) -> float | None:
    """Of the first with the second so many places later; None where one of them does not change."""
    shifted = pairs[lag:] if lag >= 0 else pairs[:lag]
    firsts = [first for first, _ in (pairs[: len(pairs) - lag] if lag >= 0 else pairs[-lag:])]
    seconds = [second for _, second in shifted]
    if len(set(firsts)) < 2 or len(set(seconds)) < 2:
        return None
    return statistics.correlation(firsts, seconds)
