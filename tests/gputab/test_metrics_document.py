"""docs/metrics.md is what the catalogue and the table of capabilities make, and leaves no series out."""

import re
from pathlib import Path

from collector.capabilities import CAPABILITIES, Family, Told, family_of
from domain.series import CATALOGUE, GPU_BUSY, GPU_SM_ACTIVE, card, health
from domain.series.series import Series
from gputab.metrics_document import FILE, text, write


def test_the_committed_file_is_what_the_catalogue_makes() -> None:
    """To the byte; `make docs` brings it there."""
    assert FILE.read_text("utf-8") == text()


def test_every_series_has_one_row_with_its_unit_type_and_meaning() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (\w+) \| [^|]+ \| ([^|]+) \|", text(), re.MULTILINE)
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
