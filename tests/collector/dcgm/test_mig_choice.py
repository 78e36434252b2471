"""A card in MIG mode of which NVML and DCGM tell: what its instances do, and what it does itself by them."""

from collections.abc import Iterator

import pytest

from collector.chosen_source import ChosenSource
from collector.dcgm.exporter import DcgmExporterSource
from domain.samples import Basis, FieldState
from domain.series import GPU_BUSY, GPU_COMPUTE, GPU_GR_ACTIVE
from tests.collector.dcgm.both_sources import MigNvml, OpenBoth
from tests.collector.dcgm_pages import GR, Exporter, line
from tests.collector.engine_nodes import EngineNode
from tests.collector.sample_logs import START_S
from tests.fakes import dcgm


def _page(**ratios: float) -> str:
    """What an exporter says of instances by its default counters: how active their engines are."""
    return "\n".join(line(GR, ratio, GPU_I_ID=name.removeprefix("gi_")) for name, ratio in ratios.items()) + "\n"


@pytest.fixture
def scraped(mig_nvml: MigNvml, exporter: Exporter) -> Iterator[ChosenSource]:
    source = ChosenSource(mig_nvml.source, DcgmExporterSource(exporter.url, EngineNode().clock))
    source.inventory()
    yield source
    source.close()


def test_m1_a_card_is_as_busy_as_its_instances_weighed_by_their_sms(scraped: ChosenSource, exporter: Exporter) -> None:
    """M1: NVML tells neither of an A100's instances; SMs that no instance has are idle."""
    exporter.says(_page(gi_1=1.0, gi_7=0.5))

    card, *instances = scraped.read("GPU-1", START_S)

    assert [each.values[GPU_COMPUTE] for each in instances] == [1.0, 0.5]
    assert {each.bases[GPU_COMPUTE] for each in instances} == {Basis("dcgm_exporter", "gr_active")}
    for series in (GPU_BUSY, GPU_COMPUTE):
        assert card.values[series] == pytest.approx((14 + 21) / 98)
        assert card.bases[series] == Basis("dcgm_exporter", "instances")
        assert series not in card.missing


def test_m1_each_ratio_of_the_card_is_that_of_its_instances(mig_nvml: MigNvml, open_: OpenBoth) -> None:
    """M1: the engine measures the SMs, too: then the instances, and the card, have computed half of what is theirs."""
    node, source = open_(mig_nvml, dcgm.card(0, gis=(1, 7), mig_uuids=False))
    node.engine.advance_s()

    card, *instances = source.read("GPU-1", node.now_s)

    assert {each.bases[GPU_COMPUTE] for each in instances} == {Basis("dcgm_engine", "sm_active")}
    assert card.values[GPU_BUSY] == pytest.approx(0.75 * 56 / 98)
    assert card.values[GPU_COMPUTE] == pytest.approx(0.5 * 56 / 98)
    assert card.bases[GPU_COMPUTE] == Basis("dcgm_engine", "instances")


def test_m1_a_mean_of_two_sources_names_both(mig_nvml: MigNvml, scraped: ChosenSource, exporter: Exporter) -> None:
    """M1: each instance as it was chosen, and NVML comes first."""
    mig_nvml.ratios = {"MIG-driver-1": 0.5}
    exporter.says(_page(gi_1=1.0, gi_7=0.5))

    card, *instances = scraped.read("GPU-1", START_S)

    assert [each.bases[GPU_GR_ACTIVE].source for each in instances] == ["nvml", "dcgm_exporter"]
    assert card.values[GPU_BUSY] == pytest.approx((7 + 21) / 98)
    assert card.values[GPU_COMPUTE] == pytest.approx((3.5 + 21) / 98)
    assert card.bases[GPU_BUSY] == card.bases[GPU_COMPUTE] == Basis("dcgm_exporter+nvml", "instances")


def test_m1_a_card_cannot_tell_what_one_of_its_instances_does_not(scraped: ChosenSource, exporter: Exporter) -> None:
    """M1: without one of them the mean would be too low."""
    exporter.says(_page(gi_1=1.0))

    card, *instances = scraped.read("GPU-1", START_S)

    assert [each.values[GPU_COMPUTE] for each in instances] == [1.0, None]
    assert (card.values[GPU_BUSY], card.values[GPU_COMPUTE]) == (None, None)
    assert card.missing[GPU_BUSY] is card.missing[GPU_COMPUTE] is FieldState.UNSUPPORTED


def test_m1_nor_what_one_does_of_which_nvml_does_not_know(scraped: ChosenSource, exporter: Exporter) -> None:
    """M1: how many SMs it has is NVML's to say."""
    exporter.says(_page(gi_1=1.0, gi_7=0.5, gi_9=1.0))

    for second_s in range(START_S, START_S + 5):
        card, *instances = scraped.read("GPU-1", second_s)

    assert [each.values[GPU_COMPUTE] for each in instances] == [1.0, 0.5, 1.0]
    assert (card.values[GPU_BUSY], card.missing[GPU_BUSY]) == (None, FieldState.UNSUPPORTED)


def test_m1_a_card_waits_for_its_instances(scraped: ChosenSource, exporter: Exporter) -> None:
    """M1: where DCGM is away nothing is repeated, and both are missing for the same reason."""
    exporter.says(_page(gi_1=1.0, gi_7=0.5))
    scraped.read("GPU-1", START_S)
    exporter.status = 500

    for second_s in range(START_S + 1, START_S + 6):
        told = scraped.read("GPU-1", second_s)
        assert {each.values[GPU_COMPUTE] for each in told} == {None}
        assert {each.missing[GPU_COMPUTE] for each in told} == {FieldState.ERROR}
        assert (told[0].values[GPU_BUSY], told[0].missing[GPU_BUSY]) == (None, FieldState.ERROR)
    exporter.status = 200
    assert scraped.read("GPU-1", START_S + 6)[0].values[GPU_BUSY] == pytest.approx(35 / 98)
