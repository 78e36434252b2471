"""What the driver says, in base units; what it cannot say, as None; what it has lost, as lost."""

from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest
from structlog.testing import capture_logs

from collector.card_readers import CardReaders
from collector.nvml.source import NvmlSource
from collector.own_metrics import OwnValue
from collector.ranges import refuse_garbage
from collector.source import SourceGoneError
from domain.errors import UnavailableError
from domain.samples import UNATTRIBUTED, DeviceReading, OwnerUse
from domain.series import (
    COLLECTOR_CAPPED_RATIOS,
    GPU_BUSY,
    GPU_ENERGY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_SM_CLOCK,
    GPU_TEMPERATURE,
    GPU_UP,
)
from domain.units import MIB
from tests.collector.nvml.mig_rig import mig_card
from tests.collector.patience import wait_until
from tests.fakes.nvml.driver import FakeDriver

SECOND_S = 1_700_000_000

Open = Callable[[], NvmlSource]
New = Callable[..., NvmlSource]


def _only(source: NvmlSource, uuid: str) -> DeviceReading:
    (reading,) = source.read(uuid, SECOND_S)
    return reading


def test_a_card_is_read_in_base_units(driver: FakeDriver, open_source: Open) -> None:
    """Milliwatts, millijoules, megahertz and percent end here. Case 59: 16 W for 60 s are 952 J, not 0.95."""
    uuid = driver.card(
        0,
        used=1_200 * MIB,
        busy_percent=87,
        milliwatts=312_450,
        millijoules=952_494,
        celsius=61,
        sm_megahertz=2_520,
        memory_megahertz=10_501,
    )
    source = open_source()

    (device,) = source.inventory()
    assert (device.uuid, device.index, device.model) == (uuid, 0, "NVIDIA GeForce RTX 4090")
    assert (device.vram_total_bytes, device.vram_reserved_bytes) == (24_564 * MIB, 340 * MIB)
    assert (device.mig_enabled, device.sm_count, device.instances) == (False, None, ())
    assert (device.pci_bus_id, device.driver_version) == ("00000000:65:00.0", "590.48.01")

    reading = _only(source, uuid)
    expected = {
        GPU_UP: 1,
        GPU_BUSY: 0.87,
        GPU_MEMORY_TOTAL: 24_564 * MIB,
        GPU_MEMORY_RESERVED: 340 * MIB,
        GPU_MEMORY_USED: 1_200 * MIB,
        GPU_POWER: 312.45,
        GPU_ENERGY: 952.494,
        GPU_TEMPERATURE: 61,
        GPU_SM_CLOCK: 2_520_000_000,
        GPU_MEMORY_CLOCK: 10_501_000_000,
    }
    assert {series: reading.values[series] for series in expected} == expected
    assert reading.owners == {UNATTRIBUTED: OwnerUse(1_200 * MIB, 0.87)}
    assert refuse_garbage(reading).refused == ()


def test_used_memory_is_without_what_the_driver_reserves(driver: FakeDriver, open_source: Open) -> None:
    """Case 56: an idle A100 uses 7.8 MB; the first version of the call would have said 912."""
    uuid = driver.card(0, name="NVIDIA A100-SXM4-80GB", total=81_920 * MIB, reserved=863 * MIB, used=8_178_892)

    assert _only(open_source(), uuid).values[GPU_MEMORY_USED] == 8_178_892


def test_a_value_no_card_can_have_is_refused_further_on(driver: FakeDriver, open_source: Open) -> None:
    """R1: 4294967295 percent is handed on as it was said, and stopped with a count."""
    uuid = driver.card(0, busy_percent=4_294_967_295, millijoules=2**64 - 1)

    assert set(refuse_garbage(_only(open_source(), uuid)).refused) >= {GPU_BUSY, GPU_ENERGY}


def test_a_ratio_that_was_taken_as_1_is_counted_for_all_to_see(driver: FakeDriver, open_source: Open) -> None:
    """R4: of a MIG instance, on its card."""
    card = mig_card(driver)
    driver.gpm(driver.create_instance(card, "1g.10gb"), {2: 1_020})
    source = open_source()
    wait_until(lambda: source.read(card, SECOND_S)[1].values[GPU_SM_ACTIVE] == 1)

    told = [value for value in source.values() if value.series is COLLECTOR_CAPPED_RATIOS]
    assert told == [
        OwnValue(COLLECTOR_CAPPED_RATIOS, 1, {"gpu_uuid": card, "field": GPU_SM_ACTIVE.name, "source": "nvml"})
    ]


def test_a_lost_card_says_so_and_nothing_more_while_the_others_are_read(driver: FakeDriver, open_source: Open) -> None:
    """L1: seven cards go on, and the expected count stays eight."""
    uuids = [driver.card(index) for index in range(8)]
    source = open_source()
    before = source.inventory()
    driver.fault(pynvml.NVML_ERROR_GPU_IS_LOST, uuid=uuids[3])

    readers = CardReaders(source)
    told = readers.read_all(uuids, SECOND_S, timeout_s=5)
    readers.close()

    assert told.missed == {}
    by_uuid = {reading.gpu_uuid: reading for reading in told.readings}
    assert (by_uuid[uuids[3]].values, by_uuid[uuids[3]].owners) == ({GPU_UP: 0}, {})
    assert [by_uuid[uuid].values[GPU_UP] for uuid in uuids] == [1, 1, 1, 0, 1, 1, 1, 1]
    assert source.inventory() == before

    driver.fault(0)
    assert _only(source, uuids[3]).values[GPU_UP] == 1


def test_a_card_that_answers_no_question_is_mute_not_up(driver: FakeDriver, open_source: Open) -> None:
    uuid = driver.card(0)
    source = open_source()
    driver.fault(pynvml.NVML_ERROR_UNKNOWN)

    with pytest.raises(UnavailableError, match="answers no question"):
        source.read(uuid, SECOND_S)


@pytest.mark.parametrize("call", ["nvmlSystemGetDriverVersion", "nvmlDeviceGetUUID", "nvmlDeviceGetMigMode", ""])
def test_a_driver_that_is_gone_is_found_by_the_inventory_too(driver: FakeDriver, open_source: Open, call: str) -> None:
    driver.card(0)
    source = open_source()
    driver.fault(pynvml.NVML_ERROR_DRIVER_NOT_LOADED, call)

    with pytest.raises(SourceGoneError, match="install it, load it"):
        source.inventory()


def test_an_inventory_that_fails_for_another_reason_may_succeed_later(driver: FakeDriver, open_source: Open) -> None:
    driver.card(0)
    source = open_source()
    driver.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlSystemGetDriverVersion")

    with pytest.raises(UnavailableError, match="cannot read the card") as raised:
        source.inventory()
    assert not isinstance(raised.value, SourceGoneError)
    driver.fault(0)
    assert len(source.inventory()) == 1


def test_no_driver_is_one_line_that_names_the_simulator(driver: FakeDriver, new_source: New) -> None:
    driver.fault(pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "nvmlInitWithFlags")

    with pytest.raises(UnavailableError, match="by `gputab demo`"):
        new_source()


def test_a_node_whose_every_card_has_no_memory_to_meter_is_an_error(
    use_driver: Callable[[Path], FakeDriver], build_nvml: Callable[..., Path], tmp_path: Path, new_source: New
) -> None:
    """A driver before 510 has no second version of the memory call, and a GB10 answers N/A to it."""
    driver = use_driver(build_nvml(tmp_path, "-DOLD_DRIVER"))
    driver.card(0)

    with pytest.raises(UnavailableError, match="tells no memory; use one of 510 or newer"):
        new_source().inventory()


def test_a_card_that_was_lost_before_it_was_seen_is_said_once_and_found_when_it_is_back(
    driver: FakeDriver, new_source: New
) -> None:
    uuids = [driver.card(index) for index in range(2)]
    driver.fault(pynvml.NVML_ERROR_GPU_IS_LOST, uuid=uuids[1])
    source = new_source()

    with capture_logs() as logs:
        for _ in range(3):
            assert [device.uuid for device in source.inventory()] == uuids[:1]
    assert [log["event"] for log in logs] == ["card_left_out"]

    driver.fault(0)
    assert [device.uuid for device in source.inventory()] == uuids
