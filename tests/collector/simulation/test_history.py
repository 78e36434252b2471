"""The past of the simulated fleet: plausible, within capacity, and the same in both its CSV files as in truth."""

import csv
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from collector.simulation.fleet import Fleet, demo_fleet
from collector.simulation.history_csv import SAMPLE_COLUMNS, write_history
from collector.simulation.history_plan import TENANTS, HistoryPlan, plan_history
from collector.simulation.truth import truth
from collector.simulation.workloads import Workload
from domain.allocation_csv import COLUMNS
from domain.clock import MICROSECONDS
from domain.grants import GrantKind
from domain.period import parse_instant
from domain.series import GPU_MEMORY_USED, GPU_UP
from domain.units import MIB

START_S = 1_790_000_010
DAY_S = 86_400
STEP_S = 10


@pytest.fixture(scope="module")
def fleet() -> Fleet:
    return demo_fleet(11)


@pytest.fixture(scope="module")
def plan(fleet: Fleet) -> HistoryPlan:
    return plan_history(fleet, START_S, START_S + DAY_S)


def test_every_kind_of_grant_and_job_is_there_and_all_tenants_take_part(plan: HistoryPlan) -> None:
    sizes = Counter(Counter(grant.tenancy.allocation for grant in plan.grants).values())
    assert {1, 2, 4, 8} <= set(sizes)
    assert {grant.kind for grant in plan.grants} == set(GrantKind)
    assert {grant.tenant for grant in plan.grants} == set(TENANTS)
    assert all(grant.project in TENANTS[grant.tenant] for grant in plan.grants)
    owners: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for grant in plan.grants:
        owners[grant.tenancy.allocation].add((grant.tenant, grant.project))
    assert all(len(each) == 1 for each in owners.values()), "a job has one owner"


def test_no_device_is_held_twice_and_all_borders_lie_on_the_grid(fleet: Fleet, plan: HistoryPlan) -> None:
    """That a share never takes more than its card has is checked by the world itself."""
    world = plan.world(fleet)
    last_end_s: dict[tuple[str, str | None], int] = defaultdict(int)
    for grant in sorted(plan.grants, key=lambda each: each.span.start_s):
        span = grant.span
        assert START_S <= span.start_s < span.end_s <= START_S + DAY_S
        assert (span.start_s - START_S) % STEP_S == (span.end_s - START_S) % STEP_S == 0
        if grant.kind is not GrantKind.SHARE:
            assert span.start_s >= last_end_s[span.gpu_uuid, span.mig_uuid]
            last_end_s[span.gpu_uuid, span.mig_uuid] = span.end_s
    assert world.tenancies == tuple(grant.tenancy for grant in plan.grants)
    held = sum((grant.span.end_s - grant.span.start_s) * grant.milli_gpu for grant in plan.grants)
    assert 0.5 < held / 1_000 / DAY_S / len(fleet.cards) < 0.97, "busy, with gaps"


def test_a_held_card_is_lost_and_comes_back_and_another_crosses_its_watermark(fleet: Fleet, plan: HistoryPlan) -> None:
    (lost,) = plan.incidents
    holder = next(
        grant.span
        for grant in plan.grants
        if grant.tenancy.gpu_uuid == lost.gpu_uuid and grant.span.start_s < lost.start_s < lost.end_s < grant.span.end_s
    )
    assert truth(plan.world(fleet), holder, STEP_S).lost_seconds == lost.end_s - lost.start_s == 420

    world = plan.world(fleet)
    hogs = (grant for grant in plan.grants if grant.tenancy.workload is Workload.MEMORY_HOG)
    hog = next(grant for grant in hogs if grant.kind is GrantKind.WHOLE)
    used = [
        world.used_bytes(hog.tenancy.gpu_uuid, None, None, second_s)
        for second_s in range(hog.span.start_s, hog.span.end_s, STEP_S)
    ]
    usable_bytes = fleet.cards[hog.tenancy.gpu_uuid].usable_bytes
    assert max(used) > 0.95 * usable_bytes > min(used)


def test_a_plan_follows_from_the_seed(fleet: Fleet, plan: HistoryPlan) -> None:
    assert plan_history(fleet, START_S, START_S + DAY_S) == plan
    assert plan_history(demo_fleet(12), START_S, START_S + DAY_S).grants != plan.grants


@pytest.mark.parametrize("seconds", [10, 60, 600, 3_600])
def test_a_short_past_has_a_plan_too(fleet: Fleet, seconds: int) -> None:
    short = plan_history(fleet, START_S, START_S + seconds)
    short.world(fleet)
    assert all(START_S <= grant.span.start_s < grant.span.end_s <= START_S + seconds for grant in short.grants)
    if seconds >= 3_600:
        assert short.grants
        assert short.incidents


def test_both_files_say_what_truth_says(fleet: Fleet, tmp_path: Path) -> None:
    """Sums over the rows of the sample log, each standing for its step, against truth, grant by grant."""
    plan = plan_history(fleet, START_S, START_S + 3_600)
    allocations, samples = tmp_path / "allocations.csv", tmp_path / "samples.csv"

    write_history(fleet, plan, allocations, samples, STEP_S)

    used: dict[tuple[str, str, str], dict[int, int]] = defaultdict(dict)
    with samples.open(newline="") as file:
        reader = csv.DictReader(file)
        assert tuple(reader.fieldnames or ()) == SAMPLE_COLUMNS
        for row in reader:
            second_s = parse_instant(row["time"]) // MICROSECONDS
            cell = row["gpu_owner_memory_bytes"] if row["owner"] else row[GPU_MEMORY_USED.name]
            if row["owner"] or row[GPU_UP.name] == "1":
                used[row["gpu_uuid"], row["mig_uuid"], row["owner"]][second_s] = int(cell)
            else:
                said = {column: cell for column, cell in row.items() if cell and column.startswith("gpu_")}
                assert said == {"gpu_uuid": row["gpu_uuid"], GPU_UP.name: "0"}
    with allocations.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == COLUMNS
    assert len(rows) == len(plan.grants)
    world = plan.world(fleet)
    for row, grant in zip(rows, plan.grants, strict=True):
        owner = f"alloc:{row['allocation']}" if row["kind"] == "share" else ""
        start_s, end_s = (parse_instant(row[border]) // MICROSECONDS for border in ("start", "end"))
        found = [
            used[row["gpu_uuid"], row["mig_uuid"], owner].get(second_s) for second_s in range(start_s, end_s, STEP_S)
        ]
        true = truth(world, grant.span, STEP_S, int(row["vram_mib"]) * MIB)
        assert STEP_S * sum(each for each in found if each is not None) == true.used_vram_byte_seconds
        assert STEP_S * sum(each is not None for each in found) == true.covered_seconds
        assert row["node"] in fleet.nodes
        assert int(row["vram_mib"]) * MIB == grant.tenancy.vram_limit_bytes
