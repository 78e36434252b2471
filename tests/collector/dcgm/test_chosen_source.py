"""NVML and DCGM read as one source: who tells what, and whose instances are whose."""

from collections.abc import Callable
from dataclasses import replace

from structlog.testing import capture_logs

from collector.chosen_source import ChosenSource
from collector.dcgm.engine_source import HostEngineSource
from collector.dcgm.exporter import DcgmExporterSource
from collector.past_seconds import RemembersSeconds
from domain.samples import UNATTRIBUTED, DeviceReading, OwnerUse
from domain.series import (
    GPU_BUSY,
    GPU_COMPUTE,
    GPU_ECC_CORRECTED,
    GPU_ENERGY,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_SM_ACTIVE_CYCLES,
    GPU_UP,
)
from domain.units import MIB
from tests.collector.dcgm.both_sources import CARD, INSTANCES, OpenBoth, ScriptedNvml, read_card
from tests.collector.dcgm_pages import Exporter, page
from tests.collector.engine_nodes import EngineNode, told_values
from tests.collector.sample_logs import START_S
from tests.fakes import dcgm


def test_an_a100_has_its_sm_active_from_dcgm_and_its_owners_from_nvml(nvml: ScriptedNvml, open_: OpenBoth) -> None:
    node, source = open_(nvml)

    reading = read_card(node, source)

    told = told_values(reading)
    assert (told[GPU_SM_ACTIVE], told[GPU_BUSY], told[GPU_POWER], told[GPU_COMPUTE]) == (0.5, 0.9, 300.5, 0.5)
    assert told[GPU_MEMORY_USED] == 100 * MIB
    assert reading.owners["alloc:a"] == OwnerUse(60 * MIB, None)
    assert {reading.bases[series].source for series in (GPU_SM_ACTIVE, GPU_COMPUTE)} == {"dcgm_engine"}
    assert reading.bases[GPU_BUSY].source == "nvml"


def test_a_card_of_an_exporter_is_read_beside_nvml_too(nvml: ScriptedNvml, exporter: Exporter) -> None:
    node = EngineNode()
    exporter.says(page("GPU-1", DCGM_FI_PROF_SM_ACTIVE=0.25))
    source = ChosenSource(nvml.source, DcgmExporterSource(exporter.url, node.clock))
    source.inventory()

    (reading,) = source.read("GPU-1", START_S)

    assert (told_values(reading)[GPU_SM_ACTIVE], told_values(reading)[GPU_POWER]) == (0.25, 300.5)
    assert reading.bases[GPU_SM_ACTIVE] == ("dcgm_exporter", "latest")
    exporter.says(page("GPU-7"))
    (reading,) = source.read("GPU-1", START_S + 1)
    assert told_values(reading)[GPU_POWER] == 300.5, "one that tells of other cards costs this one nothing"
    source.close()


def test_m8_an_instance_is_matched_by_its_card_and_its_number(nvml: ScriptedNvml, open_: OpenBoth) -> None:
    """M8: DCGM knows numbers where NVML has names. M9: its memory is NVML's, since DCGM has none of an H100's."""
    nvml.source.devices = (replace(CARD, mig_enabled=True, instances=INSTANCES),)
    node, source = open_(nvml, dcgm.card(0, gis=(1, 7), mig_uuids=False))
    node.engine.advance_s()

    told = source.read("GPU-1", node.now_s)

    assert [each.mig_uuid for each in told] == [None, "MIG-driver-1", "MIG-driver-7"]
    assert [told_values(each)[GPU_SM_ACTIVE] for each in told[1:]] == [0.5, 0.5]
    assert [told_values(each)[GPU_MEMORY_USED] for each in told[1:]] == [100 * MIB] * 2
    assert told[1].bases[GPU_COMPUTE].basis == "sm_active"


def test_m8_an_instance_that_nvml_does_not_know_is_nobodys_and_not_dropped(nvml: ScriptedNvml, open_: OpenBoth) -> None:
    """M8: it is sampled under DCGM's own name, and said once."""
    nvml.source.devices = (replace(CARD, mig_enabled=True, instances=INSTANCES[:1]),)
    node, source = open_(nvml, dcgm.card(0, gis=(1, 7), mig_uuids=False))
    with capture_logs() as logs:
        for _ in range(5):
            node.engine.advance_s()
            told = source.read("GPU-1", node.now_s)

    assert [each.mig_uuid for each in told] == [None, "MIG-driver-1", "MIG-GPU-1/7/0"]
    assert told[2].owners == {UNATTRIBUTED: OwnerUse(5_000 * MIB, None)}
    assert [entry["mig_uuid"] for entry in logs if entry["event"] == "instance_unmatched"] == ["MIG-GPU-1/7/0"]


def test_m10_instances_are_nvmls_with_the_profile_that_their_attributes_make(
    nvml: ScriptedNvml, open_: OpenBoth
) -> None:
    """M10: the inventory is NVML's, whatever name DCGM has for a profile."""
    nvml.source.devices = (replace(CARD, mig_enabled=True, instances=INSTANCES),)
    _, source = open_(nvml, dcgm.card(0, gis=(1, 7)))

    assert source.inventory() == nvml.source.devices


def test_a_card_that_only_dcgm_knows_is_not_in_the_inventory(nvml: ScriptedNvml, open_: OpenBoth) -> None:
    """A container sees some of a node's cards, an exporter all of them."""
    _, source = open_(nvml, dcgm.card(0), dcgm.card(1))

    assert source.inventory() == (CARD,)


def test_seconds_that_were_missed_are_dcgms_without_counters_of_its_own(nvml: ScriptedNvml, open_: OpenBoth) -> None:
    """R15: energy goes on where it stood; cycles and bytes are counted by whoever tells them live."""
    node, source = open_(nvml, dcgm.card(0), dcgm.card(1))
    say = node.engine.say
    node.engine.say = lambda entity, number, at: at if number == 1085 else say(entity, number, at)
    from_s = node.now_s + 1
    node.engine.advance_s(10)

    told = list(source.missed(from_s, node.now_s))

    assert isinstance(source, RemembersSeconds)
    assert [second.second_s for second in told] == list(range(from_s, node.now_s))
    (reading,) = told[-1].readings
    assert reading.gpu_uuid == "GPU-1"
    values = told_values(reading)
    assert values[GPU_SM_ACTIVE] == 0.5
    assert GPU_ENERGY in values
    assert GPU_SM_ACTIVE_CYCLES not in values
    assert GPU_SM_ACTIVE_CYCLES not in reading.bases


def test_r15_memory_errors_go_on_where_they_stood(nvml: ScriptedNvml, open_: OpenBoth) -> None:
    """R15: 40 in the card's life, of which 3 since the driver was loaded: a fall to 3 would look like a new card."""
    node, source = open_(nvml)
    say = node.engine.say
    node.engine.say = lambda entity, number, at: {310: 3, 312: 40}.get(number) or say(entity, number, at)
    nvml.answer = lambda uuid, _: [DeviceReading(uuid, None, {GPU_UP: 1, GPU_ECC_CORRECTED: 40}, {})]
    assert read_card(node, source).values[GPU_ECC_CORRECTED] == 40

    nvml.answer = nvml.is_away
    told = [read_card(node, source) for _ in range(5)]

    assert [reading.values[GPU_ECC_CORRECTED] for reading in told] == [None, None, None, 40, 40]
    assert told[-1].bases[GPU_ECC_CORRECTED].source == "dcgm_engine"


def test_an_exporter_remembers_nothing(nvml: ScriptedNvml, exporter: Exporter) -> None:
    node = EngineNode()
    source = ChosenSource(nvml.source, DcgmExporterSource(exporter.url, node.clock))
    source.inventory()

    assert list(source.missed(START_S - 10, START_S)) == []
    source.close()


def test_both_are_closed(nvml: ScriptedNvml, make_node: Callable[..., EngineNode]) -> None:
    node = make_node()
    source = ChosenSource(nvml.source, HostEngineSource(node.engine.connect, node.clock))
    source.inventory()
    source.close()

    assert node.engine.asked[-1] == "close"
