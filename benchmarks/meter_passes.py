"""The meter over a fleet, in a process of its own: what a pass costs, again, and what it is made of.

    python -m benchmarks.meter_passes STORE_URL LEDGER_URL EVIDENCE_FOLDER CARDS HOURS NOW_US [again]

Prints a JSON object, the fields of `Passes`.
"""

import cProfile
import json
import pstats
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy import func, select

from benchmarks.meter_fleet import Fleet
from domain.clock import MICROSECONDS, FrozenClock
from domain.period import HOUR_S, HOUR_US
from meter.conservation.residuals import residuals
from meter.evidence.evidence import Evidence, make_evidence
from meter.evidence.evidence_file import read_evidence
from meter.evidence.evidence_store import FolderStore
from meter.evidence.stored_observations import StoredObservations
from meter.ledger.leases_store import end_lease, give_up_lease, take_lease
from meter.ledger.ledger_store import save_window
from meter.rating.rating import rate
from meter.windows.backlog_store import find_windows, windows_of
from meter.windows.observing import Observer, SettleRules
from meter.windows.passes import rate_period
from meter.windows.windows import Outcome, WindowRater, WindowResult
from store.access import Principal
from store.database import Database
from store.tables.billing import evidence
from victoriametrics.read import Reader

_GRACE_US, _DEADLINE_US, _LOOKBACK_S = 30 * MICROSECONDS, 72 * HOUR_US, 2 * HOUR_S
# What a window's time is told apart by. The evidence that was frozen is read and held against the new only in a second
# pass; in the first it is written instead.
_STEPS: dict[str, list[Callable[..., object]]] = {
    "reading the store": [
        StoredObservations.samples,
        StoredObservations.complete_until_s,
        StoredObservations.clock_skew_s,
    ],
    "evidence": [make_evidence],
    "frozen evidence": [read_evidence, Evidence.lacks],
    "rating": [rate],
    "conservation": [residuals],
    "ledger": [find_windows, windows_of, Observer.record, save_window, take_lease, end_lease, give_up_lease],
}


@dataclass(frozen=True)
class Passes:
    """A pass over all windows, in seconds of the wall and of a core.

    Then, unless they are None and `steps_s` is empty, a second one over what has settled, and by the profiler what a
    third is made of.
    """

    windows: int
    wall_s: float
    cpu_s: float
    again_wall_s: float | None
    again_cpu_s: float | None
    memory_mib: float
    charges: int
    samples: int
    evidence_bytes: int
    steps_s: dict[str, float]


def main() -> None:
    """Rate, and print what it took."""
    store_url, ledger_url, folder, cards, hours, now_us, *again_too = sys.argv[1:]
    fleet, clock, who = Fleet(int(cards), int(hours)), FrozenClock(int(now_us)), Principal.local_operator()
    with closing(Database(ledger_url)) as database, Reader(store_url) as reader:
        observations = StoredObservations(store_url, reader, lookback_s=_LOOKBACK_S, clock=clock)
        rules = SettleRules(grace_us=_GRACE_US, deadline_us=_DEADLINE_US)
        rater = WindowRater(database, who, Observer(database, who, observations, FolderStore(Path(folder)), rules))

        def one_pass() -> tuple[list[WindowResult], float, float]:
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            found = list(rate_period(database, who, rater, fleet.period, clock, _fail))
            return found, time.perf_counter() - wall_s, time.process_time() - cpu_s

        first, wall_s, cpu_s = one_pass()
        memory_mib = _peak_memory_mib()
        _check(first, fleet)
        again_wall_s = again_cpu_s = None
        profile = cProfile.Profile()
        if again_too:
            again, again_wall_s, again_cpu_s = one_pass()
            if [each.charges for each in first] != [each.charges for each in again]:
                raise RuntimeError("cannot measure: the second pass came to other charges")
            profile.runcall(one_pass)
        with database.read() as connection:
            rows = connection.execute(select(func.sum(evidence.c.size_bytes), func.sum(evidence.c.samples))).one()
    print(
        json.dumps(
            asdict(
                Passes(
                    windows=len(first),
                    wall_s=wall_s,
                    cpu_s=cpu_s,
                    again_wall_s=again_wall_s,
                    again_cpu_s=again_cpu_s,
                    memory_mib=memory_mib,
                    charges=sum(len(each.charges) for each in first),
                    samples=int(rows[1]),
                    evidence_bytes=int(rows[0]),
                    steps_s=_steps(profile) if again_too else {},
                )
            )
        )
    )


def _fail(line: str) -> None:
    raise RuntimeError(f"cannot rate a window: {line}")


def _check(first: list[WindowResult], fleet: Fleet) -> None:
    """A pass that is quick because it does nothing is none."""
    wanted = len(fleet.nodes) * fleet.hours
    settled = [each for each in first if each.outcome is Outcome.SETTLED and each.window is not None]
    if len(settled) != wanted:
        raise RuntimeError(f"cannot measure: {len(settled)} of {wanted} windows settled")
    left = {(each.window.residual_compute, each.window.residual_vram) for each in settled if each.window is not None}
    if left != {(0, 0)} or any(each.quarantined_samples or each.kept_frozen for each in first):
        raise RuntimeError(f"cannot measure: the fleet is not in order, its residuals are {left}")


def _steps(profile: cProfile.Profile) -> dict[str, float]:
    found = pstats.Stats(profile).stats  # type: ignore[attr-defined] # the stubs leave it out
    total = sum(own_s for _, _, own_s, _, _ in found.values())
    steps = {
        what: sum(found[_place(each)][3] for each in functions if _place(each) in found)
        for what, functions in _STEPS.items()
    }
    return {**steps, "the rest": total - sum(steps.values())}


def _place(step: Callable[..., object]) -> tuple[str, int, str]:
    code = step.__code__
    return code.co_filename, code.co_firstlineno, code.co_name


def _peak_memory_mib() -> float:
    """The most memory that this process has had in use so far (VmHWM of proc_pid_status(5))."""
    lines = Path("/proc/self/status").read_text("utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1_024


if __name__ == "__main__":
    main()
