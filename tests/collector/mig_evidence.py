"""What a store has of a card in MIG mode and of its instances, second by second, held against what was true of them.

What the driver measures between two reads is held against just that time: by the cycles that it counts since it was
booted it is known to the microsecond when it was read. So nothing has to stand still for it.

Of several owners on a GPU instance it is a rule that says what each computed, by the SMs of their compute instances:
that is held in every second, and is what was true where these were as busy as each other.
"""

import math
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from itertools import pairwise

import polars as pl
import pytest

from domain.samples import UNATTRIBUTED
from domain.series import (
    COLLECTOR_MISSED,
    GPU_BASIS_INFO,
    GPU_BUSY,
    GPU_COMPUTE,
    GPU_ENERGY,
    GPU_FIELD_STATE,
    GPU_GR_ACTIVE,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_SM_ACTIVE_CYCLES,
    GPU_SM_ELAPSED_CYCLES,
    GPU_UP,
    OWNER_COMPUTE,
    OWNER_MEMORY,
    Series,
)
from tests.collector.faults.card_evidence import by_owner, by_second, true_card
from tests.collector.mig_work import MigWork
from tests.fakes.nvml.truth import SECOND_US, TrueSecond

SERIES = (
    COLLECTOR_MISSED,
    GPU_UP,
    GPU_MEMORY_USED,
    GPU_BUSY,
    GPU_COMPUTE,
    GPU_ENERGY,
    GPU_POWER,
    GPU_GR_ACTIVE,
    GPU_SM_ACTIVE,
    GPU_SM_ACTIVE_CYCLES,
    GPU_SM_ELAPSED_CYCLES,
    GPU_FIELD_STATE,
    GPU_BASIS_INFO,
    OWNER_MEMORY,
    OWNER_COMPUTE,
)
_ROUNDING = 1e-6


class Stored:
    """What the store has of one card, or of one MIG instance."""

    def __init__(self, samples: pl.DataFrame, gpu_uuid: str, mig_uuid: str = "") -> None:
        """`samples` are those of `SERIES`, as `Node.samples` has them."""
        self._rows = samples.filter((pl.col("gpu_uuid") == gpu_uuid) & (pl.col("mig_uuid") == mig_uuid))

    def numbers(self, series: Series) -> dict[int, float]:
        """Its values of one series, by second."""
        return by_second(self._rows, series)

    def by_owner(self, series: Series) -> dict[int, dict[str, float]]:
        """The same of a series by owner."""
        return by_owner(self._rows, series)

    def said(self, series: Series, field: Series, label: str, second_s: int) -> set[str]:
        """What is said in that second of a series, by `gpu_field_state` or `gpu_basis_info`: its last word of it."""
        of_field = (pl.col("series") == series.name) & (pl.col("field") == field.name)
        rows = self._rows.filter(of_field & (pl.col("second_s") <= second_s))
        last = dict(rows.sort("second_s").select(label, "value").iter_rows())
        return {what for what, holds in last.items() if holds}

    def check_missing(self, field: Series, told: Iterable[int], seconds: Iterable[int]) -> None:
        """Fail where a value is missing without a reason, or has one although it is there."""
        there = set(told)
        for second_s in seconds:
            reasons = self.said(GPU_FIELD_STATE, field, "state", second_s)
            assert bool(reasons) == (second_s not in there), (field.name, second_s, reasons)


def true_windows(work: MigWork, uuid: str, sms: int, stored: Stored) -> dict[int, TrueSecond]:
    """What was true of a card or GPU instance between two reads, by the second of the later one.

    Only of reads in seconds that follow each other, of which nothing can lie in between. Fails where what the driver
    measured in that time, or since it was booted, was not true, or was not read in the second that it is stamped with.
    """
    elapsed, active, engine, sm_active = (
        stored.numbers(series) for series in (GPU_SM_ELAPSED_CYCLES, GPU_SM_ACTIVE_CYCLES, GPU_GR_ACTIVE, GPU_SM_ACTIVE)
    )
    assert elapsed.keys() == active.keys() == engine.keys() == sm_active.keys(), uuid
    truth, booted_us = work.node.work.truth, work.node.work.start_us
    per_us = sms * work.node.driver.card_of(uuid).sm_megahertz
    read_us: dict[int, int] = {}
    for second_s, cycles in elapsed.items():
        since_us, rest = divmod(round(cycles), per_us)
        assert rest == 0, (uuid, second_s)
        at_us = read_us[second_s] = booted_us + since_us
        assert at_us // SECOND_US == second_s, (uuid, second_s, at_us)
        true_us = truth.true_span(uuid, booted_us, at_us).sm_active * since_us
        assert active[second_s] == pytest.approx(float(true_us * per_us), abs=per_us / 100), (uuid, second_s)
    windows: dict[int, TrueSecond] = {}
    for before_s, second_s in pairwise(sorted(elapsed)):
        if second_s == before_s + 1:
            true = windows[second_s] = truth.true_span(uuid, read_us[before_s], read_us[second_s])
            assert engine[second_s] == pytest.approx(float(true.busy), abs=_ROUNDING), (uuid, second_s)
            assert sm_active[second_s] == pytest.approx(float(true.sm_active), abs=_ROUNDING), (uuid, second_s)
    return windows


def true_instance(work: MigWork, uuid: str, samples: pl.DataFrame) -> dict[int, TrueSecond]:
    """What was true of a GPU instance between two reads; see `true_windows`. Fails where what the store has was not."""
    stored = Stored(samples, work.card, uuid)
    used, memory = stored.numbers(GPU_MEMORY_USED), stored.by_owner(OWNER_MEMORY)
    assert stored.numbers(GPU_UP) == dict.fromkeys(used, 1), uuid
    assert memory.keys() == used.keys(), uuid
    for series in (GPU_BUSY, GPU_ENERGY, GPU_POWER):
        assert not stored.numbers(series), "only the card has it"
    for second_s, used_bytes in used.items():
        true = work.node.work.truth.true_second(uuid, second_s)
        assert used_bytes == sum(true.memory_bytes.values()), (uuid, second_s)
        assert memory[second_s] == work.node.work.by_owner(true.memory_bytes), (uuid, second_s)
    engine, sm_active = stored.numbers(GPU_GR_ACTIVE), stored.numbers(GPU_SM_ACTIVE)
    for series, told in ((GPU_GR_ACTIVE, engine), (GPU_SM_ACTIVE, sm_active)):
        stored.check_missing(series, told, used)
    assert stored.numbers(GPU_COMPUTE) == sm_active, uuid
    windows = true_windows(work, uuid, work.sms[uuid], stored)
    _check_owners(work, uuid, stored, windows)
    return windows


def true_mig_card(work: MigWork, samples: pl.DataFrame) -> dict[str, dict[int, TrueSecond]]:
    """What was true of each GPU instance; see `true_windows`. Fails where what the store has of the card was not."""
    windows = {uuid: true_instance(work, uuid, samples) for uuid in work.sms}
    stored, truth = Stored(samples, work.card), work.node.work.truth
    used, energy = stored.numbers(GPU_MEMORY_USED), stored.numbers(GPU_ENERGY)
    assert stored.numbers(GPU_UP) == dict.fromkeys(used, 1)
    assert energy.keys() == used.keys()
    for uuid in work.sms:
        assert Stored(samples, work.card, uuid).numbers(GPU_MEMORY_USED).keys() == used.keys(), uuid
    assert not stored.by_owner(OWNER_MEMORY), "its instances have them"
    assert not stored.by_owner(OWNER_COMPUTE), "its instances have them"
    for second_s, used_bytes in used.items():
        assert used_bytes == sum(truth.true_second(work.card, second_s).memory_bytes.values()), second_s
        joules = truth.true_span(work.card, work.node.work.start_us, second_s * SECOND_US).joules
        assert joules is not None
        assert round(energy[second_s] * 1_000) == math.floor(joules * 1_000), second_s
    true_windows(work, work.card, work.card_sms, stored)
    for series, kind in ((GPU_BUSY, "busy"), (GPU_COMPUTE, "sm_active")):
        told = stored.numbers(series)
        stored.check_missing(series, told, used)
        for second_s, ratio in told.items():
            assert stored.said(GPU_BASIS_INFO, series, "basis", second_s) == {"instances"}, second_s
            if all(second_s in its for its in windows.values()):
                weighed = (work.sms[uuid] * getattr(its[second_s], kind) for uuid, its in windows.items())
                assert ratio == pytest.approx(float(sum(weighed) / work.card_sms), abs=_ROUNDING), (series, second_s)
    return windows


def true_plain_card(work: MigWork, samples: pl.DataFrame) -> None:
    """Fails where what the store has of the card that is not in MIG mode was not true."""
    true_card(work.node.work, work.plain, samples)
    stored = Stored(samples, work.plain)
    used, sm_active = stored.numbers(GPU_MEMORY_USED), stored.numbers(GPU_SM_ACTIVE)
    for series in (GPU_GR_ACTIVE, GPU_SM_ACTIVE, GPU_COMPUTE):
        stored.check_missing(series, stored.numbers(series), used)
    assert stored.numbers(GPU_COMPUTE) == sm_active
    true_windows(work, work.plain, work.card_sms, stored)


def _check_owners(work: MigWork, uuid: str, stored: Stored, windows: Mapping[int, TrueSecond]) -> None:
    """Hold what the owners of a GPU instance computed against the rule, and where that is exact against what was so."""
    engine, compute = stored.numbers(GPU_GR_ACTIVE), stored.by_owner(OWNER_COMPUTE)
    stored.check_missing(OWNER_COMPUTE, compute, engine)
    assert compute.keys() == engine.keys(), uuid
    truth = work.node.work.truth
    for second_s, ratio in engine.items():
        pids = truth.true_second(uuid, second_s).memory_bytes.keys()
        basis, parts = _rule(work, pids)
        assert stored.said(GPU_BASIS_INFO, OWNER_COMPUTE, "basis", second_s) == {basis}, (uuid, second_s)
        told = compute[second_s]
        assert sum(told.values()) == pytest.approx(ratio, abs=_ROUNDING), (uuid, second_s)
        expected = {owner: ratio * float(part) for owner, part in parts.items()}
        assert told == pytest.approx(expected, abs=_ROUNDING), (uuid, second_s)
        window = windows.get(second_s)
        if window is not None and (used := _exactly_used(work, uuid, pids, window)) is not None:
            assert told == pytest.approx(used, abs=_ROUNDING), (uuid, second_s)


def _rule(work: MigWork, pids: Collection[int]) -> tuple[str, dict[str, float]]:
    """How what these processes of one GPU instance computed is told by owner, and the part of each who has one."""
    owners = {work.node.work.owners[pid] for pid in pids} or {UNATTRIBUTED}
    if len(owners) == 1:
        return "sole_owner", {UNATTRIBUTED: 0.0} | dict.fromkeys(owners, 1.0)
    if len({work.places[pid] for pid in pids}) < len(owners):
        return "shared", {UNATTRIBUTED: 1}
    sms = {pid: work.compute_sms(pid) for pid in pids}
    return "sm_share", work.node.work.by_owner({pid: Fraction(each, sum(sms.values())) for pid, each in sms.items()})


def _exactly_used(work: MigWork, uuid: str, pids: Collection[int], window: TrueSecond) -> dict[str, float] | None:
    """What each owner had of a GPU instance; None where its compute instances were not all as busy as each other."""
    ran = {pid: on for pid, on in window.busy_by_pid.items() if on or pid in pids}
    if ran.keys() != set(pids) or len(set(ran.values())) > 1:
        return None
    return work.node.work.by_owner({pid: on * work.compute_sms(pid) / work.sms[uuid] for pid, on in ran.items()})
