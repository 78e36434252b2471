"""NVML and DCGM read as one source: what a failure of either costs the other."""

import threading
from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from collector.chosen_source import ChosenSource
from collector.source import ScriptedSource, SourceGoneError
from domain.errors import UnavailableError
from domain.inventory import Device
from domain.samples import DeviceReading, FieldState
from domain.series import GPU_BUSY, GPU_MEMORY_USED, GPU_POWER, GPU_SM_ACTIVE, GPU_UP
from domain.units import MIB
from tests.collector.dcgm.both_sources import CARD, OpenBoth, ScriptedNvml, read_card
from tests.collector.engine_nodes import told_values
from tests.collector.patience import PATIENCE_S, wait_until


def test_a_dcgm_that_hangs_costs_nvmls_values_nothing(nvml: ScriptedNvml, open_: OpenBoth) -> None:
    """L4 and DCGM 313: it blocks for 45 s. In the second in which it begins it is waited for, and then not at all."""
    node, source = open_(nvml)
    read_card(node, source)
    node.engine.answers.clear()

    for _ in range(4):
        told = told_values(read_card(node, source))
        assert (told[GPU_POWER], told[GPU_BUSY]) == (300.5, 0.9)
        assert GPU_SM_ACTIVE not in told
    node.engine.answers.set()
    wait_until(lambda: told_values(read_card(node, source)).get(GPU_SM_ACTIVE) == 0.5)


def test_an_nvml_that_hangs_costs_dcgms_values_nothing(nvml: ScriptedNvml, open_: OpenBoth) -> None:
    """L4: one card's call hangs for a minute."""
    node, source = open_(nvml)
    read_card(node, source)
    go_on = threading.Event()

    def hang(uuid: str, second_s: int) -> list[DeviceReading]:
        go_on.wait(PATIENCE_S)
        return nvml.says(uuid, second_s)

    nvml.answer = hang
    told = told_values(read_card(node, source))
    assert (told[GPU_SM_ACTIVE], told[GPU_UP]) == (0.5, 1)
    assert GPU_POWER not in told, "NVML's power is not DCGM's for a moment"
    told = told_values(read_card(node, source, 4))
    assert told[GPU_POWER] == 300.0, "and is, when NVML has been silent for some"
    assert told[GPU_MEMORY_USED] == 5_000 * MIB
    go_on.set()
    wait_until(lambda: told_values(read_card(node, source))[GPU_BUSY] is not None)


def test_a_failure_of_either_is_said_once_and_when_it_ends(nvml: ScriptedNvml, open_: OpenBoth) -> None:
    node, source = open_(nvml)
    with capture_logs() as logs:
        read_card(node, source, 2)
        node.engine.is_up = False
        read_card(node, source, 5)
        node.engine.is_up = True
        read_card(node, source, 5)

    told = [entry for entry in logs if entry["event"] in ("source_mute", "source_answers")]
    assert [(entry["event"], entry["source"]) for entry in told] == [
        ("source_mute", "dcgm"),
        ("source_answers", "dcgm"),
    ]
    assert "host engine" in told[0]["reason"]


def test_where_neither_answers_the_card_is_mute_with_nvmls_reason(nvml: ScriptedNvml, open_: OpenBoth) -> None:
    node, source = open_(nvml)
    nvml.answer = _raise(UnavailableError("cannot read the card: it answers no question; see dmesg"))
    node.engine.is_up = False
    node.engine.advance_s()

    with pytest.raises(UnavailableError, match="it answers no question"):
        source.read("GPU-1", node.now_s)


def test_a_driver_that_is_gone_ends_the_process_whatever_dcgm_says(nvml: ScriptedNvml, open_: OpenBoth) -> None:
    node, source = open_(nvml)
    nvml.answer = _raise(SourceGoneError("cannot reach the NVIDIA driver: it is gone; load it"))
    node.engine.advance_s()

    with pytest.raises(SourceGoneError):
        source.read("GPU-1", node.now_s)


def test_l1_a_card_that_is_lost_to_nvml_is_lost_and_dcgms_old_values_are_not_told(
    nvml: ScriptedNvml, open_: OpenBoth
) -> None:
    """L1: last values are not repeated."""
    node, source = open_(nvml)
    nvml.answer = lambda uuid, _: [DeviceReading(uuid, None, {GPU_UP: 0}, {})]

    assert dict(read_card(node, source).values) == {GPU_UP: 0}


def test_m4_of_a_card_that_is_let_go_of_dcgm_tells_nothing_either(nvml: ScriptedNvml, open_: OpenBoth) -> None:
    """M4: while cards are let go of nothing has a value, and the reason is one."""
    node, source = open_(nvml)
    read_card(node, source)
    quiesced = DeviceReading("GPU-1", None, {}, {}, missing=dict.fromkeys((GPU_UP, GPU_BUSY), FieldState.QUIESCED))
    nvml.answer = lambda *_: [quiesced]

    assert read_card(node, source, 5) is quiesced


class Unlisted(ScriptedSource):
    """A driver that tells its cards, and once `is_sick` which they are no more."""

    is_sick = False

    def inventory(self) -> tuple[Device, ...]:
        if self.is_sick:
            raise UnavailableError("cannot read the inventory; see dmesg")
        return super().inventory()


def test_an_inventory_that_nvml_cannot_tell_is_as_it_last_told_it(nvml: ScriptedNvml, open_: OpenBoth) -> None:
    nvml.source = driver = Unlisted((CARD,), nvml.says)
    _, source = open_(nvml)
    driver.is_sick = True

    assert source.inventory() == (CARD,)
    with pytest.raises(UnavailableError):
        ChosenSource(driver, driver).inventory()


def _raise(error: Exception) -> Callable[..., list[DeviceReading]]:
    def fail(*_: object) -> list[DeviceReading]:
        raise error

    return fail
