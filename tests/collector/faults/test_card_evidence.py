"""The evidence of a card fails by each thing that was not true, and by nothing that was."""

import shutil
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from domain.samples import UNATTRIBUTED
from domain.series import GPU_BUSY, GPU_ENERGY, GPU_MEMORY_USED, GPU_UP, OWNER_COMPUTE, OWNER_MEMORY, Series
from tests.collector.faults.card_evidence import true_card
from tests.collector.faults.work import WORK_SECONDS, NodeWork
from tests.collector.patience import now_s
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.processes import ProcTree
from tests.fakes.nvml.truth import SECOND_US

# Series, owner ("" for the card's own) and second -> value.
Rows = dict[tuple[Series, str, int], float]
# Of ten seconds the first may have rates of before; in the fourth and fifth after it other work has just begun.
STEADY, CHANGED = WORK_SECONDS + 3, WORK_SECONDS


class Told:
    """Ten seconds of a card as they were, from the beginning of its work on."""

    def __init__(self, work: NodeWork, uuid: str, start_s: int) -> None:
        self.work = work
        self.uuid = uuid
        self.start_s = start_s
        self.rows: Rows = {}
        for second_s in range(start_s, start_s + 10):
            true = work.truth.true_second(uuid, second_s)
            joules = work.truth.true_span(uuid, work.start_us, second_s * SECOND_US).joules
            assert joules is not None
            own = {
                GPU_UP: 1,
                GPU_MEMORY_USED: sum(true.memory_bytes.values()),
                GPU_BUSY: float(true.busy),
                GPU_ENERGY: int(joules * 1_000) / 1_000,
            }
            self.rows |= {(series, "", second_s): value for series, value in own.items()}
            for pid, owner in work.owners.items():
                if pid in true.memory_bytes:
                    self.rows[OWNER_MEMORY, owner, second_s] = true.memory_bytes[pid]
                    self.rows[OWNER_COMPUTE, owner, second_s] = float(true.busy_by_pid[pid])

    def add(self, series: Series, second: int, by: float, owner: str = "") -> None:
        """Let another value have been stored of a second, counted from the first."""
        self.rows[series, owner, self.start_s + second] += by

    def check(self) -> None:
        """Hold it against what was true."""
        rows = [(series.name, self.uuid, owner, at_s, value) for (series, owner, at_s), value in self.rows.items()]
        columns = {"series": pl.String, "gpu_uuid": pl.String, "owner": pl.String}
        schema = {**columns, "second_s": pl.Int64, "value": pl.Float64}
        true_card(self.work, self.uuid, pl.DataFrame(rows, schema=schema, orient="row"))


@pytest.fixture
def told(nvml_library: Path, tmp_path: Path) -> Told:
    work = NodeWork(FakeDriver(Path(shutil.copy(nvml_library, tmp_path))), ProcTree(tmp_path / "proc"))
    start_s = now_s() - 40
    work.run(range(start_s, start_s + 20))
    return Told(work, work.uuids[1], start_s)


def test_what_was_true_is_taken(told: Told) -> None:
    told.check()


@pytest.mark.parametrize(
    "bend",
    [
        lambda told: told.add(GPU_MEMORY_USED, CHANGED, 1),
        lambda told: told.add(GPU_ENERGY, CHANGED, 0.001),
        lambda told: told.add(GPU_ENERGY, STEADY, -0.001),
        lambda told: told.add(OWNER_MEMORY, CHANGED, 1, "alloc:a"),
        lambda told: told.add(GPU_BUSY, STEADY, 0.01),
        lambda told: told.add(OWNER_COMPUTE, CHANGED, 0.01, "slurm:7"),
        lambda told: told.add(GPU_UP, STEADY, -1),
        lambda told: told.rows.pop((GPU_ENERGY, "", told.start_s + STEADY)),
        lambda told: told.rows.pop((OWNER_MEMORY, UNATTRIBUTED, told.start_s + STEADY)),
    ],
)
def test_what_was_not_true_is_found(told: Told, bend: Callable[[Told], None]) -> None:
    """One byte, one millijoule, one percent; a second that is left out; a card that is down and tells."""
    bend(told)
    with pytest.raises(AssertionError):
        told.check()


def test_owners_that_sum_to_the_card_have_each_their_own(told: Told) -> None:
    for series in (OWNER_MEMORY, OWNER_COMPUTE):
        first, second = (series, "alloc:a", told.start_s + STEADY), (series, "slurm:7", told.start_s + STEADY)
        told.rows[first], told.rows[second] = told.rows[second], told.rows[first]
        with pytest.raises(AssertionError):
            told.check()


def test_a_second_of_a_clock_that_was_ahead_counts_from_the_loading_before_it_was_read(told: Told) -> None:
    """Stamped 30 s ahead of the machine's clock, by which the driver is loaded after it, in what seems to be before."""
    told.work.clocks += [(told.start_s - 30, 30), (told.start_s - 20, 0)]
    told.work.loads.append(range(told.start_s - 15, told.start_s - 14))
    told.check()


def test_energy_counts_from_the_last_loading_of_the_driver_on(told: Told) -> None:
    """In the second of the loading itself it may say anything."""
    loaded = 5
    told.work.loads.append(range(told.start_s + loaded, told.start_s + loaded + 1))
    with pytest.raises(AssertionError):
        told.check()
    drawn = told.rows[GPU_ENERGY, "", told.start_s + loaded]
    for second in range(loaded, 10):
        told.add(GPU_ENERGY, second, -drawn)
    told.add(GPU_ENERGY, loaded, 999)
    told.check()
