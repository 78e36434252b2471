"""What MIG instances, their card and a card with performance metrics used is in the store as it was true."""

from pathlib import Path

import polars as pl
import pytest

from domain.series import (
    COLLECTOR_MISSED,
    GPU_BUSY,
    GPU_COMPUTE,
    GPU_ENERGY,
    GPU_GR_ACTIVE,
    GPU_MEMORY_USED,
    GPU_SM_ACTIVE,
    GPU_SM_ACTIVE_CYCLES,
    OWNER_COMPUTE,
    OWNER_MEMORY,
    Series,
)
from tests.collector.faults.evidence import Evidence
from tests.collector.faults.node import running_node
from tests.collector.mig_evidence import SERIES, Stored, true_mig_card, true_plain_card
from tests.collector.mig_work import ALLOCATION, SPELLS, MigWork
from tests.collector.patience import CLOCK, now_s, wait_until
from tests.collector.stores import own_store
from tests.side_by_side import side_by_side

# Each spell of the work twice, so that a machine that is busy for some seconds costs none of them.
SECONDS = 36


@side_by_side
def test_what_mig_instances_used_is_in_the_store_as_it_was_true(
    folder: Path, nvml_library: Path, victoriametrics_binary: Path
) -> None:
    """M1, M5, M6: in every second, to the byte and the millijoule; two owners on one GPU instance, and on one card."""
    began_s = now_s()
    with own_store(victoriametrics_binary, folder) as store, running_node(folder, nvml_library, store) as node:
        work = MigWork(node)
        for each in (node.work, work):
            each.run(range(began_s - 40, began_s + SECONDS + 240))
        node.begin()
        wait_until(node.is_delivered)
        CLOCK.sleep_s(SECONDS)
        node.end()
        samples, sampled = node.samples(began_s - 60, now_s() + 60, *SERIES), Evidence(node, began_s).sampled
        for uuid in (work.card, work.plain):
            stored = Stored(samples, uuid)
            told, missed = (stored.numbers(series) for series in (GPU_MEMORY_USED, COLLECTOR_MISSED))
            assert told.keys() <= sampled, node.log()
            assert len(sampled - told.keys()) <= max(missed.values(), default=0), node.log()
        _check(work, samples, node.log())


def _check(work: MigWork, samples: pl.DataFrame, log: str) -> None:
    """Hold it all against what was true; and each thing that is bent a little is found."""
    try:
        true_plain_card(work, samples)
        windows = true_mig_card(work, samples)
    except AssertionError as failure:
        failure.add_note(log)
        raise
    for uuid, its in windows.items():
        assert {work.spell(second_s) for second_s in its} == set(range(SPELLS)), (uuid, log)
    shared, *_ = windows
    # The spell in which its compute instances are as busy as each other.
    second_s = max(each for each in set.intersection(*map(set, windows.values())) if work.spell(each) == 0)
    for bent in (
        _bent(samples, work.card, shared, second_s, GPU_MEMORY_USED, 1),
        _bent(samples, work.card, shared, second_s, GPU_GR_ACTIVE, 0.0001),
        _bent(samples, work.card, shared, second_s, GPU_SM_ACTIVE_CYCLES, 10**6),
        _bent(samples, work.card, shared, second_s, OWNER_MEMORY, 1, ALLOCATION),
        _bent(samples, work.card, shared, second_s, OWNER_COMPUTE, 0.0001, ALLOCATION),
        _bent(samples, work.card, "", second_s, GPU_MEMORY_USED, 1),
        _bent(samples, work.card, "", second_s, GPU_ENERGY, 0.001),
        _bent(samples, work.card, "", second_s, GPU_BUSY, 0.0001),
        _bent(samples, work.card, "", second_s, GPU_COMPUTE, -0.0001),
        samples.filter((pl.col("mig_uuid") != shared) | (pl.col("second_s") != second_s)),
        samples.with_columns(mig_uuid=pl.when(series=GPU_ENERGY.name).then(pl.lit(shared)).otherwise("mig_uuid")),
    ):
        with pytest.raises(AssertionError):
            true_mig_card(work, bent)
    with pytest.raises(AssertionError):
        true_plain_card(work, _bent(samples, work.plain, "", second_s, GPU_SM_ACTIVE, 0.0001))


def _bent(
    samples: pl.DataFrame, gpu_uuid: str, mig_uuid: str, second_s: int, series: Series, by: float, owner: str = ""
) -> pl.DataFrame:
    """As if one value of a card or instance had been stored that was so much more."""
    one = {"gpu_uuid": gpu_uuid, "mig_uuid": mig_uuid, "second_s": second_s, "series": series.name, "owner": owner}
    is_one = pl.all_horizontal(pl.col(label) == what for label, what in one.items())
    assert samples.filter(is_one).height == 1, one
    return samples.with_columns(value=pl.when(is_one).then(pl.col("value") + by).otherwise("value"))
