"""docs/metrics.md is what the catalogue and the table of capabilities make, and leaves no series out."""

import re
from pathlib import Path

from collector.call_times import CallTimes
from collector.capabilities import CAPABILITIES, Family, Told, family_of
from collector.own_metrics import OwnMetrics, OwnValue
from collector.own_values import call_values
from domain.clock import FrozenClock
from domain.series import (
    CATALOGUE,
    COLLECTOR_CALLS,
    COLLECTOR_HOLES,
    GPU_BASIS_INFO,
    GPU_BUSY,
    GPU_COMPUTE,
    GPU_FIELD_STATE,
    GPU_INFO,
    GPU_JPEG_BUSY,
    GPU_SM_ACTIVE,
    GPU_TOPOLOGY_LINK,
    GPU_UP,
    MIG_INFO,
    OWNER_MEMORY,
    card,
    health,
)
from domain.series.series import Series
from gputab.metrics_document import FILE, SELDOM, text, write


def test_the_committed_file_is_what_the_catalogue_makes() -> None:
    """To the byte; `make docs` brings it there."""
    assert FILE.read_text("utf-8") == text()


def test_every_series_has_one_row_with_its_unit_type_and_meaning() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (\w+) \| [^|]* \| ([^|]+) \|", text(), re.MULTILINE)
    described = [row for row in rows if row[2] in {"gauge", "counter", "info"}]
    expected = [(series.name, series.unit, series.kind, series.help) for series in CATALOGUE.values()]
    assert sorted(described) == sorted(expected)


def test_every_series_of_a_card_says_which_cards_tell_it() -> None:
    of_cards = [each for part in (card, health) for each in vars(part).values() if isinstance(each, Series)]
    assert sorted(CAPABILITIES, key=lambda each: each.name) == sorted(of_cards, key=lambda each: each.name)


def test_whoever_is_said_to_tell_a_series_has_a_word_for_it() -> None:
    """What is told by DCGM only needs no word of NVML, all else does."""
    for series, capability in CAPABILITIES.items():
        is_dcgms = set(capability.told) <= {Told.DCGM, Told.NO}
        assert bool(capability.nvml) is not is_dcgms, series.name
        assert bool(capability.note) or set(capability.told) == {Told.YES} or series.name.endswith(("_info", "_ratio"))


def test_each_series_of_a_card_says_what_tells_it_on_a_node_that_is_read_by_dcgm() -> None:
    """A card's state and the memory of its owners are there too, though no field of DCGM is either."""
    told = {
        match[1]: match[2]
        for match in re.finditer(r"^\| `(\w+)` \|(?: [^|]+ \|){4} [^|]* \| ([^|]*)\|$", text(), re.MULTILINE)
    }
    for series in (GPU_UP, OWNER_MEMORY, GPU_COMPUTE, GPU_FIELD_STATE, GPU_BASIS_INFO, GPU_INFO, MIG_INFO, GPU_BUSY):
        assert told[series.name].strip(), series.name
    assert not told[GPU_JPEG_BUSY.name].strip(), "DCGM has no such field"


def test_what_is_told_seldom_is_what_the_parts_of_a_collector_tell_seldom() -> None:
    """Of the driver's functions, in the seconds that are multiples of 15, and never beside them."""
    calls = CallTimes(FrozenClock(0))
    calls.note("DeviceGetCount", 0.0, "UNKNOWN")
    own = OwnMetrics("node", lambda: [OwnValue(COLLECTOR_HOLES, 1, {"reason": "late"})], lambda: call_values(calls))
    seldom = {run.series for run in own.runs(15)} - {run.series for run in own.runs(16)}
    (group,) = [group for group in SELDOM if COLLECTOR_CALLS in group]
    assert set(group) == seldom | {GPU_TOPOLOGY_LINK}
    assert "every 15 s" in SELDOM[group]


def test_only_a_file_that_differs_is_written(tmp_path: Path) -> None:
    file = tmp_path / "metrics.md"
    assert write(file)
    assert not write(file)
    file.write_text("", "utf-8")
    assert write(file)
    assert [each.name for each in tmp_path.iterdir()] == ["metrics.md"]
    assert file.read_text("utf-8") == text()


def test_a_card_is_of_the_family_that_its_model_and_architecture_make() -> None:
    assert family_of("NVIDIA GeForce RTX 4090", "Ada", is_instance=False) is Family.GEFORCE
    assert family_of("NVIDIA GeForce RTX 3090", "Ampere", is_instance=False) is Family.GEFORCE
    assert family_of("NVIDIA GeForce RTX 5090", "Blackwell", is_instance=False) is Family.GEFORCE_BLACKWELL
    assert family_of("NVIDIA A100-SXM4-80GB", "Ampere", is_instance=False) is Family.AMPERE
    assert family_of("NVIDIA A100-SXM4-80GB", "Ampere", is_instance=True) is Family.AMPERE_INSTANCE
    assert family_of("NVIDIA H100 80GB HBM3", "Hopper", is_instance=True) is Family.HOPPER_INSTANCE
    assert family_of("NVIDIA B200", "Blackwell", is_instance=False) is Family.HOPPER


def test_a_4090_has_a_busy_ratio_and_no_sm_activity_and_an_h100_has_both() -> None:
    """The difference that a price has to know of."""
    assert CAPABILITIES[GPU_BUSY].of(Family.GEFORCE) is Told.YES
    assert CAPABILITIES[GPU_SM_ACTIVE].of(Family.GEFORCE) is Told.NO
    assert CAPABILITIES[GPU_SM_ACTIVE].of(Family.AMPERE) is Told.DCGM
    assert CAPABILITIES[GPU_SM_ACTIVE].of(Family.HOPPER_INSTANCE) is Told.YES
    assert CAPABILITIES[GPU_BUSY].of(Family.HOPPER_INSTANCE) is Told.NO
