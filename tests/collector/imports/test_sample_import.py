"""What a log says is in the store afterwards, to the byte-second."""

from pathlib import Path

import polars as pl
import pytest

from collector.simulation.fleet import demo_fleet
from collector.simulation.history_csv import write_history
from collector.simulation.history_plan import plan_history
from collector.simulation.truth import truth
from domain.samples import allocation_owner
from domain.series import COLLECTOR_COMPLETE_UNTIL, GPU_BUSY, GPU_MEMORY_USED, GPU_UP, OWNER_MEMORY
from tests import alibaba
from tests.collector.sample_logs import START_S, Import, stored, write_log
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector


@pytest.mark.skipif(not alibaba.SUBSET.exists(), reason="shared data is not beside the checkout")
def test_a_production_log_comes_back_to_the_byte_second(tmp_path: Path, reader: Reader, do_import: Import) -> None:
    """14 devices over 6 h: every reading is written once for each of its 57 s, cells cut to whole bytes."""
    log = tmp_path / "log.csv"
    log.write_text(alibaba.sample_csv(alibaba.read_ticks()))

    done = do_import(log, hold_s=alibaba.STEP_S)

    assert done.rows == 5_304
    assert done.samples == 2 * alibaba.GRANTED_SECONDS - alibaba.STEP_S, "one utilisation cell is empty"
    assert done.cut_cells == 2_251
    memory = Selector((GPU_MEMORY_USED,), {"node": alibaba.NODE})
    frame = reader.export(memory, done.start_s, done.end_s).frame
    assert frame.height == alibaba.GRANTED_SECONDS
    assert frame["value"].cast(pl.Int128).sum() == alibaba.USED_VRAM_BYTE_SECONDS

    again = do_import(log)
    assert again == done, "the step is found from the log too"
    assert reader.count(memory, done.start_s, done.end_s) == alibaba.GRANTED_SECONDS, "nothing is there twice"


def test_a_reading_stands_for_its_hold_but_not_beyond_the_next_row(
    tmp_path: Path, unique_node: str, reader: Reader, do_import: Import
) -> None:
    """An empty cell ends the reading before it: missing is not "as before"."""
    lines = [
        f"{START_S},NODE,GPU-1,0.25,100",
        f"{START_S + 3},NODE,GPU-1,,200",
        f"{START_S + 20},NODE,GPU-1,0.75,300",
    ]

    done = do_import(write_log(tmp_path, unique_node, *lines), hold_s=5)

    assert stored(reader, unique_node, GPU_MEMORY_USED) == {
        **dict.fromkeys(range(START_S, START_S + 3), 100),
        **dict.fromkeys(range(START_S + 3, START_S + 8), 200),
        **dict.fromkeys(range(START_S + 20, START_S + 25), 300),
    }
    assert stored(reader, unique_node, GPU_BUSY) == {
        **dict.fromkeys(range(START_S, START_S + 3), 0.25),
        **dict.fromkeys(range(START_S + 20, START_S + 25), 0.75),
    }
    assert (done.rows, done.samples, done.start_s, done.end_s) == (3, 21, START_S, START_S + 25)


def test_a_log_finer_than_a_second_is_merged_and_the_merge_is_counted(
    tmp_path: Path, unique_node: str, reader: Reader, do_import: Import
) -> None:
    lines = [f"{START_S + tenth / 10},NODE,GPU-1,{tenth % 10 / 10},{tenth}" for tenth in range(30)]

    done = do_import(write_log(tmp_path, unique_node, *lines))

    assert done.merged_rows == 27
    assert stored(reader, unique_node, GPU_MEMORY_USED) == {START_S: 9, START_S + 1: 19, START_S + 2: 29}
    assert stored(reader, unique_node, GPU_BUSY) == pytest.approx(dict.fromkeys(range(START_S, START_S + 3), 0.45))


def test_an_import_marks_its_node_complete_up_to_its_last_second(
    tmp_path: Path, unique_node: str, reader: Reader, do_import: Import
) -> None:
    do_import(write_log(tmp_path, unique_node, f"{START_S},NODE,GPU-1,,1", f"{START_S + 10},NODE,GPU-1,,1"))

    assert stored(reader, unique_node, COLLECTOR_COMPLETE_UNTIL) == {START_S + 20: START_S + 20}


def test_a_corrected_log_with_higher_values_and_one_of_another_device_or_time_are_taken(
    tmp_path: Path, unique_node: str, reader: Reader, do_import: Import
) -> None:
    """What another log said of other devices and seconds of the node is no contradiction."""
    do_import(write_log(tmp_path, unique_node, *[f"{START_S + s},NODE,GPU-1,{1 / (s + 3)},5000" for s in range(20)]))

    higher = [f"{START_S + s},NODE,GPU-1,{1 / (s + 3)},6000" for s in range(10)]
    equal = [f"{START_S + s},NODE,GPU-1,{1 / (s + 3)},5000" for s in range(10, 15)]
    later = [f"{START_S + s},NODE,GPU-1,0.01,7" for s in range(20, 40)]
    other = [f"{START_S + s},NODE,GPU-2,0.01,7" for s in range(20)]
    do_import(write_log(tmp_path, unique_node, *higher, *equal, *later, *other), hold_s=1)

    memory = reader.export(Selector((GPU_MEMORY_USED,), {"node": unique_node}), START_S, START_S + 100).frame
    assert memory.group_by("gpu_uuid").agg(pl.col("value").sum()).sort("gpu_uuid").rows() == [
        ("GPU-1", 10 * 6_000 + 10 * 5_000 + 20 * 7),
        ("GPU-2", 20 * 7),
    ]


def test_the_simulated_past_comes_back_as_it_was(tmp_path: Path, reader: Reader, do_import: Import) -> None:
    """The sample log of an hour, by way of the store, against truth: shares, instances, whole cards, a lost one."""
    fleet = demo_fleet(4_711)
    plan = plan_history(fleet, START_S, START_S + 3_600)
    write_history(fleet, plan, tmp_path / "allocations.csv", tmp_path / "samples.csv")

    done = do_import(tmp_path / "samples.csv", hold_s=10)

    assert done.nodes == tuple(fleet.nodes)
    world = plan.world(fleet)
    used = reader.export(Selector((GPU_MEMORY_USED, OWNER_MEMORY)), START_S, START_S + 3_600).frame
    for grant in plan.grants:
        span = grant.span
        owner = "" if span.allocation is None else allocation_owner(span.allocation)
        rows = used.filter(
            pl.col("gpu_uuid") == span.gpu_uuid,
            pl.col("mig_uuid") == (span.mig_uuid or ""),
            pl.col("owner") == owner,
            pl.col("second_s").is_between(span.start_s, span.end_s, closed="left"),
        )
        true = truth(world, span, 10)
        assert (rows.height, rows["value"].cast(pl.Int64).sum()) == (true.covered_seconds, true.used_vram_byte_seconds)
    (lost,) = plan.incidents
    up = reader.export(Selector((GPU_UP,), {"gpu_uuid": lost.gpu_uuid}), START_S, START_S + 3_600).frame
    assert up.filter(pl.col("value") == 0)["second_s"].to_list() == list(range(lost.start_s, lost.end_s))


def test_progress_is_told_the_whole_file_twice_the_first_time_and_again(
    tmp_path: Path, unique_node: str, do_import: Import
) -> None:
    """Again, the store is looked at as well: the bar of that long work moves, and ends where it ended before."""
    log = write_log(tmp_path, unique_node, *(f"{START_S + second},NODE,GPU-1,0.5,7" for second in range(1_000)))
    whole = 2 * log.stat().st_size
    for _ in range(2):
        told: list[int] = []
        do_import(log, advance=told.append)
        assert whole - 3 <= sum(told) <= whole
