"""One sick card costs the others nothing, in the inventory too: it stays as last seen, or is left out, said once."""

from collections.abc import Callable

import pynvml
import pytest
from structlog.testing import capture_logs

from collector.nvml.source import NvmlSource
from collector.source import SourceGoneError
from domain.errors import UnavailableError
from domain.units import MIB
from tests.fakes.nvml.driver import FakeDriver

Open = Callable[[], NvmlSource]
New = Callable[..., NvmlSource]

CALLS = ["nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMigMode"]
CODES = [
    pynvml.NVML_ERROR_UNKNOWN,
    pynvml.NVML_ERROR_TIMEOUT,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_GPU_IS_LOST,
]


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("call", [*CALLS, "nvmlDeviceGetName", "nvmlDeviceGetPciInfo_v3"])
def test_a_card_that_was_seen_stays_as_it_was(driver: FakeDriver, open_source: Open, call: str, code: int) -> None:
    uuids = [driver.card(index) for index in range(3)]
    source = open_source()
    before = source.inventory()
    driver.set(uuids[2], total=48 * 1_024 * MIB)
    driver.fault(code, call, uuids[1])

    with capture_logs() as logs:
        for _ in range(3):
            now = source.inventory()

    assert now[:2] == before[:2]
    assert now[2].vram_total_bytes == 48 * 1_024 * MIB, "the others are looked at"
    assert [(log["event"], log["index"], log["unseen_cards"]) for log in logs] == [("card_as_last_seen", 1, 1)]
    driver.fault(0)
    source.inventory()
    driver.fault(code, call, uuids[1])
    with capture_logs() as logs:
        source.inventory()
    assert len(logs) == 1, "a new spell is said again"


@pytest.mark.parametrize("code", CODES)
@pytest.mark.parametrize("call", CALLS)
def test_a_card_that_was_never_seen_is_left_out_until_it_answers(
    driver: FakeDriver, call: str, code: int, new_source: New
) -> None:
    uuids = [driver.card(index) for index in range(3)]
    driver.fault(code, call, uuids[1])
    source = new_source()

    with capture_logs() as logs:
        for _ in range(3):
            assert [device.uuid for device in source.inventory()] == [uuids[0], uuids[2]]
    assert [(log["event"], log["index"], log["unseen_cards"]) for log in logs] == [("card_left_out", 1, 1)]
    assert logs[0]["reason"].startswith("cannot read the card")

    driver.fault(0)
    assert [device.uuid for device in source.inventory()] == uuids


def test_several_sick_cards_are_counted(driver: FakeDriver, new_source: New) -> None:
    uuids = [driver.card(index) for index in range(4)]
    for uuid in uuids[1:3]:
        driver.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetUUID", uuid)
    source = new_source()

    with capture_logs() as logs:
        assert [device.index for device in source.inventory()] == [0, 3]
    assert [log["unseen_cards"] for log in logs] == [1, 2]


def test_a_node_whose_every_card_is_sick_from_the_start_is_an_error(driver: FakeDriver, new_source: New) -> None:
    """A collector that beats without a card would have everything billed on record."""
    driver.card(0)
    driver.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetUUID")
    source = new_source()

    with pytest.raises(UnavailableError, match="cannot read the card") as raised:
        source.inventory()
    assert not isinstance(raised.value, SourceGoneError)


def _mig_cards(driver: FakeDriver) -> list[str]:
    """Two cards in MIG mode with an instance each."""
    full_card = {"full_card_profile": pynvml.NVML_GPU_INSTANCE_PROFILE_7_SLICE, "full_card_sms": 132}
    uuids = [driver.card(index, mig_mode=1, **full_card) for index in range(2)]
    for index in range(2):
        driver.instance(index, 0, "1g.10gb", gi_id=7, size=1, sms=16, memory_mib=9_984, total=MIB)
    return uuids


@pytest.mark.parametrize(
    "call",
    [
        "nvmlDeviceGetMigMode",
        "nvmlDeviceGetMaxMigDeviceCount",
        "nvmlDeviceGetGpuInstanceProfileInfo",
        "nvmlDeviceGetMigDeviceHandleByIndex",
        "nvmlDeviceGetGpuInstanceById",
    ],
)
@pytest.mark.parametrize("code", CODES)
def test_a_card_in_mig_mode_that_fails_to_answer_keeps_its_instances(
    driver: FakeDriver, open_source: Open, call: str, code: int
) -> None:
    """What it does not say is not taken for a mode that is off or an instance that is gone."""
    uuids = _mig_cards(driver)
    source = open_source()
    before = source.inventory()
    driver.fault(code, call, uuids[1])

    assert source.inventory() == before
    assert len(before[1].instances) == 1


def test_an_instance_of_a_profile_that_cannot_be_told_costs_its_card_alone(driver: FakeDriver, new_source: New) -> None:
    uuids = _mig_cards(driver)
    driver.instance(1, 1, "", gi_id=9, start=1, size=1, sms=16, memory_mib=9_984, gi_slices=0)
    source = new_source()

    with capture_logs() as logs:
        assert [device.uuid for device in source.inventory()] == uuids[:1]
    (left_out,) = [log for log in logs if log["event"] == "card_left_out"]
    assert "cannot tell the profile of the MIG instance" in left_out["reason"]
