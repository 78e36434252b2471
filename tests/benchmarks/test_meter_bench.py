"""The benchmark of the meter works; what it measures is nobody's verdict here."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.meter_figures import Run, lines
from benchmarks.meter_fleet import START_S, Fleet
from benchmarks.meter_passes import Passes
from benchmarks.meter_peers import (
    Answer,
    Cost,
    PeerCosts,
    by_duckdb,
    by_evidence,
    by_pandas,
    check_equal,
    piece_table,
    pieces_of,
    write_samples,
)
from benchmarks.meter_samples import samples_of
from domain.grants import GrantKind
from domain.samples import SampleRun
from domain.series import GPU_MEMORY_USED, GPU_UP, OWNER_MEMORY
from tests.side_by_side import side_by_side

ROOT = Path(__file__).parent.parent.parent


@side_by_side
def test_an_hour_of_a_few_cards_gives_every_figure(folder: Path, victoriametrics_binary: Path) -> None:
    environment = {**os.environ, "GPUTAB_VICTORIAMETRICS_BINARY": str(victoriametrics_binary), "TMPDIR": str(folder)}
    command = [sys.executable, "-m", "benchmarks.meter", "--cards", "12", "--hours", "1"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    # What so few cards come to may be missed, and is said by the exit code.
    assert done.returncode == ("MISSED" in done.stdout)
    rows = [re.split(r" {2,}", line.strip()) for line in done.stdout.splitlines() if line.strip()]
    figures = {row[0]: row[1:] for row in rows[2:]}
    assert figures["windows"][0] == "2"
    assert float(figures["samples read"][1]) == pytest.approx(0.29, abs=0.05)


def said(fleet: Fleet, node: str, hour: int) -> list[SampleRun]:
    return list(samples_of(fleet, node, hour))


def test_a_part_of_the_fleet_is_the_same_as_in_the_whole() -> None:
    few, many = Fleet(8, 4), Fleet(24, 4)
    assert few.grants == many.grants[: len(few.grants)]
    assert said(few, "bench-00", 3) == said(many, "bench-00", 3) == said(Fleet(8, 4), "bench-00", 3)
    assert said(few, "bench-00", 3) != said(few, "bench-00", 2)


def test_the_fleet_is_of_whole_cards_instances_and_shares_that_are_held_by_one_at_a_time() -> None:
    fleet = Fleet(100, 24)
    assert [len(fleet.cards_of(node)) for node in fleet.nodes] == [8] * 12 + [4]
    assert {grant.kind for grant in fleet.grants} == set(GrantKind)
    for parts in fleet.held.values():
        for grants in parts:
            ends = [grant.period.end_us for grant in grants]
            assert all(end < grant.start_us for end, grant in zip(ends, grants[1:], strict=False))


def test_two_of_a_thousand_seconds_are_missing_and_a_lost_card_says_nothing_else() -> None:
    fleet = Fleet(8, 1)
    of_first = [run for run in said(fleet, "bench-00", 0) if run.labels.get("gpu_uuid") == fleet.cards[0].gpu_uuid]
    (up,) = [run for run in of_first if run.series is GPU_UP]
    lost = {second for second, value in zip(up.seconds, up.values, strict=True) if value == 0}
    assert len(lost) == 30
    assert 3_600 * 0.997 < len(up.seconds) < 3_600
    assert not lost.intersection(*(run.seconds for run in of_first if run.series is GPU_MEMORY_USED))
    seconds = [run.seconds for run in said(fleet, "bench-00", 0) if run.series in (GPU_MEMORY_USED, OWNER_MEMORY)]
    assert all(list(each) == sorted(set(each)) for each in seconds)


def brute_force(fleet: Fleet) -> Answer:
    """Second by second."""
    used: dict[tuple[str, str, str], dict[int, int]] = {}
    for node in fleet.nodes:
        for hour in range(fleet.hours):
            for run in said(fleet, node, hour):
                if run.series in (GPU_MEMORY_USED, OWNER_MEMORY):
                    key = (run.labels["gpu_uuid"], run.labels.get("mig_uuid", ""), run.labels.get("owner", ""))
                    used.setdefault(key, {}).update(zip(run.seconds, map(int, run.values), strict=True))
    found: Answer = []
    for number, piece in enumerate(pieces_of(fleet)):
        of_device = used.get((piece.grant.gpu_uuid or "", piece.grant.mig_uuid or "", piece.owner), {})
        read = [of_device[second] for second in range(piece.start_s, piece.end_s) if second in of_device]
        if read:
            found.append((number, len(read), sum(max(piece.grant.vram_bytes, each) for each in read)))
    return found


def test_the_meter_and_its_peers_come_to_what_is_found_second_by_second(tmp_path: Path) -> None:
    # The second node has instances, and in the second hour a price changes.
    fleet = Fleet(16, 2)
    pieces = list(pieces_of(fleet))
    assert START_S + 5_400 in {piece.start_s for piece in pieces}
    count = write_samples(tmp_path, fleet)
    expected = brute_force(fleet)
    assert len(expected) > 50
    assert count > 2 * 3_600 * 16
    table = piece_table(pieces)
    assert by_evidence(tmp_path, fleet, pieces) == expected
    assert by_duckdb(tmp_path, table) == expected
    assert by_pandas(tmp_path, table) == expected


def test_a_peer_with_another_answer_ends_the_comparison() -> None:
    check_equal({"ours": [(0, 1, 2)], "duckdb": [(0, 1, 2)]})
    with pytest.raises(RuntimeError, match="duckdb comes to another answer"):
        check_equal({"ours": [(0, 1, 2)], "duckdb": [(0, 1, 3)]})


def passes(cpu_s: float, **changes: float) -> Passes:
    values = {"again_wall_s": 9.0, "again_cpu_s": cpu_s, "memory_mib": 200.0, **changes}
    return Passes(
        windows=4, wall_s=10.0, cpu_s=cpu_s, charges=7, samples=1_000_000, evidence_bytes=48 * 1_024,
        steps_s={"evidence": 0.2}, **values,
    )  # fmt: skip


COSTS = PeerCosts(1_000_000, ours=Cost(0.2, 0.1), duckdb=Cost(0.3, 0.4), pandas=Cost(3.0, 2.4))


def test_figures_are_what_was_measured_and_held_against_what_was_asked_for() -> None:
    runs = [Run(Fleet(4, 6), passes(2.4)), Run(Fleet(8, 6), passes(5.9, again_cpu_s=6.4, memory_mib=1_001))]
    found = list(lines(runs, COSTS))
    by_name = {line.what: line for line in found}
    assert by_name["evidence by card-day"].ours == 24
    assert by_name["a window: evidence"].ours == 50
    assert by_name["processor by sample"].ours == pytest.approx(5_900)
    assert by_name["4 cards, 6 h: processor by card-hour"].ours == pytest.approx(100)
    growth = [(line.ours, line.is_met) for line in found if line.what == "as many times more"]
    assert growth == [(pytest.approx(5.9 / 4.8), True), (1.0, True), (pytest.approx(5.005), False)]
    assert by_name["a second pass, against the first: processor"].is_met is False
    assert by_name["memory (RSS) at its peak"].is_met is False
    assert by_name["compute step, against DuckDB: processor"].ours == pytest.approx(100)
    times = [line for line in found if line.what == "as many times less"]
    assert [line.ours for line in times] == pytest.approx([4, 24])
    assert [line.is_met for line in times] == [True, False]
