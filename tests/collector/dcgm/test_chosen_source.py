"""NVML and DCGM read as one source: what either costs the other, and whose instances are whose."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from collector.chosen_source import ChosenSource
from collector.dcgm.engine_source import HostEngineSource
from collector.dcgm.exporter import DcgmExporterSource
from collector.dcgm.host_engine import EngineCard
from collector.past_seconds import RemembersSeconds
from collector.source import ScriptedSource, SourceGoneError
from domain.errors import UnavailableError
from domain.inventory import Device, MigInstance
from domain.samples import UNATTRIBUTED, DeviceReading, FieldState, OwnerUse
from domain.series import (
    GPU_BUSY,
    GPU_COMPUTE,
    GPU_ENERGY,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_SM_ACTIVE_CYCLES,
    GPU_UP,
)
from domain.units import GIB, MIB
from tests.collector.dcgm_pages import Exporter, page
from tests.collector.engine_nodes import EngineNode, told_values
from tests.collector.patience import PATIENCE_S
from tests.collector.sample_logs import START_S
from tests.fakes import dcgm

OpenBoth = Callable[..., tuple[EngineNode, ChosenSource]]

CARD = Device("GPU-1", 0, "NVIDIA A100-SXM4-80GB", 80 * GIB, 600 * MIB)
INSTANCES = tuple(
    MigInstance(f"MIG-driver-{gi_id}", gi_id, "1g.10gb", start, 1, 14, 10 * GIB) for start, gi_id in enumerate((1, 7))
)


class Nvml:
    """A driver by script: `answer` is what it does when a card is read."""

    def __init__(self, *devices: Device) -> None:
        self.answer: Callable[[str, int], list[DeviceReading]] = self.says
        self.source = ScriptedSource(devices, lambda uuid, second_s: self.answer(uuid, second_s))

    def says(self, uuid: str, _: int) -> list[DeviceReading]:
        """An A100: no counters of the SMs, and owners of the memory."""
        device = next(device for device in self.source.devices if device.uuid == uuid)
        values = {GPU_UP: 1, GPU_BUSY: 0.9, GPU_SM_ACTIVE: None, GPU_POWER: 300.5, GPU_COMPUTE: 0.9}
        missing = {GPU_SM_ACTIVE: FieldState.UNSUPPORTED}
        memory = {GPU_MEMORY_USED: 100 * MIB}
        mine = {"alloc:a": OwnerUse(60 * MIB, None), UNATTRIBUTED: OwnerUse(40 * MIB, None)}
        card = DeviceReading(uuid, None, values | memory, {} if device.instances else mine, missing=missing)
        instances = [
            DeviceReading(uuid, each.uuid, {GPU_UP: 1, GPU_SM_ACTIVE: None, **memory}, mine, missing=missing)
            for each in device.instances
        ]
        return [card, *instances]


@pytest.fixture
def nvml() -> Nvml:
    return Nvml(CARD)


@pytest.fixture
def open_(make_node: Callable[..., EngineNode]) -> Iterator[OpenBoth]:
    """Opens NVML beside an engine that has read for three seconds."""
    opened: list[ChosenSource] = []

    def open_both(nvml: Nvml, *machine: EngineCard) -> tuple[EngineNode, ChosenSource]:
        node = make_node(*machine)
        opened.append(ChosenSource(nvml.source, node.source))
        opened[-1].inventory()
        node.engine.advance_s(3)
        return node, opened[-1]

    yield open_both
    for source in opened:
        source.close()


def _card(node: EngineNode, source: ChosenSource, seconds: int = 1) -> DeviceReading:
    for _ in range(seconds):
        node.engine.advance_s()
        reading, *_ = source.read("GPU-1", node.now_s)
    return reading


def test_an_a100_has_its_sm_active_from_dcgm_and_its_owners_from_nvml(nvml: Nvml, open_: OpenBoth) -> None:
    node, source = open_(nvml)

    reading = _card(node, source)

    told = told_values(reading)
    assert (told[GPU_SM_ACTIVE], told[GPU_BUSY], told[GPU_POWER], told[GPU_COMPUTE]) == (0.5, 0.9, 300.5, 0.5)
    assert told[GPU_MEMORY_USED] == 100 * MIB
    assert reading.owners["alloc:a"] == OwnerUse(60 * MIB, None)
    assert {reading.bases[series].source for series in (GPU_SM_ACTIVE, GPU_COMPUTE)} == {"dcgm_engine"}
    assert reading.bases[GPU_BUSY].source == "nvml"


def test_a_card_of_an_exporter_is_read_beside_nvml_too(nvml: Nvml, exporter: Exporter) -> None:
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


def test_a_dcgm_that_hangs_costs_nvmls_values_nothing(nvml: Nvml, open_: OpenBoth) -> None:
    """L4 and DCGM 313: it blocks for 45 s. In the second in which it begins it is waited for, and then not at all."""
    node, source = open_(nvml)
    _card(node, source)
    node.engine.answers.clear()

    for _ in range(4):
        told = told_values(_card(node, source))
        assert (told[GPU_POWER], told[GPU_BUSY]) == (300.5, 0.9)
        assert GPU_SM_ACTIVE not in told
    node.engine.answers.set()
    _until(lambda: told_values(_card(node, source)).get(GPU_SM_ACTIVE) == 0.5)


def test_an_nvml_that_hangs_costs_dcgms_values_nothing(nvml: Nvml, open_: OpenBoth) -> None:
    """L4: one card's call hangs for a minute."""
    node, source = open_(nvml)
    _card(node, source)
    go_on = threading.Event()

    def hang(uuid: str, second_s: int) -> list[DeviceReading]:
        go_on.wait(PATIENCE_S)
        return nvml.says(uuid, second_s)

    nvml.answer = hang
    told = told_values(_card(node, source))
    assert (told[GPU_SM_ACTIVE], told[GPU_UP]) == (0.5, 1)
    assert GPU_POWER not in told, "NVML's power is not DCGM's for a moment"
    told = told_values(_card(node, source, 4))
    assert told[GPU_POWER] == 300.0, "and is, when NVML has been silent for some"
    assert told[GPU_MEMORY_USED] == 5_000 * MIB
    go_on.set()
    _until(lambda: told_values(_card(node, source))[GPU_BUSY] is not None)


def test_a_failure_of_either_is_said_once_and_when_it_ends(nvml: Nvml, open_: OpenBoth) -> None:
    node, source = open_(nvml)
    with capture_logs() as logs:
        _card(node, source, 2)
        node.engine.is_up = False
        _card(node, source, 5)
        node.engine.is_up = True
        _card(node, source, 5)

    mute = [entry for entry in logs if entry["event"] == "source_mute"]
    assert [(entry["source"], entry["is_mute"]) for entry in mute] == [("dcgm", True), ("dcgm", False)]
    assert "host engine" in mute[0]["reason"]


def test_where_neither_answers_the_card_is_mute_with_nvmls_reason(nvml: Nvml, open_: OpenBoth) -> None:
    node, source = open_(nvml)
    nvml.answer = _raise(UnavailableError("cannot read the card: it answers no question; see dmesg"))
    node.engine.is_up = False
    node.engine.advance_s()

    with pytest.raises(UnavailableError, match="it answers no question"):
        source.read("GPU-1", node.now_s)


def test_a_driver_that_is_gone_ends_the_process_whatever_dcgm_says(nvml: Nvml, open_: OpenBoth) -> None:
    node, source = open_(nvml)
    nvml.answer = _raise(SourceGoneError("cannot reach the NVIDIA driver: it is gone; load it"))
    node.engine.advance_s()

    with pytest.raises(SourceGoneError):
        source.read("GPU-1", node.now_s)


def test_l1_a_card_that_is_lost_to_nvml_is_lost_and_dcgms_old_values_are_not_told(nvml: Nvml, open_: OpenBoth) -> None:
    """L1: last values are not repeated."""
    node, source = open_(nvml)
    nvml.answer = lambda uuid, _: [DeviceReading(uuid, None, {GPU_UP: 0}, {})]

    assert dict(_card(node, source).values) == {GPU_UP: 0}


def test_m4_of_a_card_that_is_let_go_of_dcgm_tells_nothing_either(nvml: Nvml, open_: OpenBoth) -> None:
    """M4: while cards are let go of nothing has a value, and the reason is one."""
    node, source = open_(nvml)
    _card(node, source)
    quiesced = DeviceReading("GPU-1", None, {}, {}, missing=dict.fromkeys((GPU_UP, GPU_BUSY), FieldState.QUIESCED))
    nvml.answer = lambda *_: [quiesced]

    assert _card(node, source, 5) is quiesced


def test_m8_an_instance_is_matched_by_its_card_and_its_number(nvml: Nvml, open_: OpenBoth) -> None:
    """M8: DCGM knows numbers where NVML has names. M9: its memory is NVML's, since DCGM has none of an H100's."""
    nvml.source.devices = (replace(CARD, mig_enabled=True, instances=INSTANCES),)
    node, source = open_(nvml, dcgm.card(0, gis=(1, 7), mig_uuids=False))
    node.engine.advance_s()

    told = source.read("GPU-1", node.now_s)

    assert [each.mig_uuid for each in told] == [None, "MIG-driver-1", "MIG-driver-7"]
    assert [told_values(each)[GPU_SM_ACTIVE] for each in told[1:]] == [0.5, 0.5]
    assert [told_values(each)[GPU_MEMORY_USED] for each in told[1:]] == [100 * MIB] * 2
    assert told[1].bases[GPU_COMPUTE].basis == "sm_active"


def test_m8_an_instance_that_nvml_does_not_know_is_nobodys_and_not_dropped(nvml: Nvml, open_: OpenBoth) -> None:
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


def test_m10_instances_are_nvmls_with_the_profile_that_their_attributes_make(nvml: Nvml, open_: OpenBoth) -> None:
    """M10: the inventory is NVML's, whatever name DCGM has for a profile."""
    nvml.source.devices = (replace(CARD, mig_enabled=True, instances=INSTANCES),)
    _, source = open_(nvml, dcgm.card(0, gis=(1, 7)))

    assert source.inventory() == nvml.source.devices


def test_an_inventory_that_nvml_cannot_tell_is_as_it_last_told_it(
    nvml: Nvml, open_: OpenBoth, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, source = open_(nvml)
    monkeypatch.setattr(nvml.source, "inventory", _raise(UnavailableError("cannot read the inventory; see dmesg")))

    assert source.inventory() == (CARD,)
    with pytest.raises(UnavailableError):
        ChosenSource(nvml.source, nvml.source).inventory()


def test_a_card_that_only_dcgm_knows_is_not_in_the_inventory(nvml: Nvml, open_: OpenBoth) -> None:
    """A container sees some of a node's cards, an exporter all of them."""
    _, source = open_(nvml, dcgm.card(0), dcgm.card(1))

    assert source.inventory() == (CARD,)


def test_seconds_that_were_missed_are_dcgms_without_counters_of_its_own(nvml: Nvml, open_: OpenBoth) -> None:
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


def test_an_exporter_remembers_nothing(nvml: Nvml, exporter: Exporter) -> None:
    node = EngineNode()
    source = ChosenSource(nvml.source, DcgmExporterSource(exporter.url, node.clock))
    source.inventory()

    assert list(source.missed(START_S - 10, START_S)) == []
    source.close()


def test_both_are_closed(nvml: Nvml, make_node: Callable[..., EngineNode]) -> None:
    node = make_node()
    source = ChosenSource(nvml.source, HostEngineSource(node.engine.connect, node.clock))
    source.inventory()
    source.close()

    assert node.engine.asked[-1] == "close"


def _raise(error: Exception) -> Callable[..., list[DeviceReading]]:
    def fail(*_: object) -> list[DeviceReading]:
        raise error

    return fail


def _until(holds: Callable[[], bool]) -> None:
    """Until a thread that was let go on has come back."""
    for _ in range(100):
        if holds():
            return
    raise AssertionError("it never does")
