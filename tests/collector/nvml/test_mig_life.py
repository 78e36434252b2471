"""MIG instances come and go while a collector reads them; numbers and UUIDs come back, tenants do not."""

from pathlib import Path

import pynvml
import pytest

from collector.node_state import NodeState
from collector.nvml.mig import profile_of
from domain.inventory import MigInstance
from domain.mig import A30_24, A100_40, A100_80, H100_80, H100_PCIE_80, H200_141, MigGeometry
from domain.samples import UNATTRIBUTED, DeviceReading, FieldState
from domain.series import GPU_BUSY, GPU_MEMORY_USED, GPU_SM_ACTIVE
from domain.units import MIB
from tests.collector.nvml.life_rig import LiveSource, New, living
from tests.collector.nvml.mig_rig import H100, mig_card, wait_until_measured
from tests.collector.patience import CLOCK, now_s, wait_until
from tests.fakes.nvml.driver import FakeDriver


def _read(live: LiveSource, card: str) -> set[str | None]:
    """The MIG instances that are read in this second; None is the card."""
    return {reading.mig_uuid for reading in live.source.read(card, now_s())}


def _after_a_window(live: LiveSource, card: str) -> DeviceReading:
    """What the card says when there is something to say of the time since."""
    CLOCK.sleep_s(0.6)
    return live.card(card)


def _instances(live: LiveSource, card: str) -> dict[int, MigInstance]:
    (device,) = [each for each in live.source.inventory() if each.uuid == card]
    return {each.gi_id: each for each in device.instances}


def test_a_number_that_is_given_out_again_is_another_instance(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """M2: the same number, profile and UUID, for another tenant, between two seconds."""
    card = mig_card(driver)
    uuid = driver.create_instance(card, "1g.10gb")
    with living(tmp_path, new_source) as live:
        wait_until(lambda: _read(live, card) == {None, uuid})
        (before,) = _instances(live, card).values()
        driver.gpm(uuid, {2: 900})
        wait_until_measured(live.source, card)

        driver.destroy_instance(uuid)
        assert driver.create_instance(card, "1g.10gb") == uuid
        first = live.source.read(card, now_s())
        assert [reading.mig_uuid for reading in first] == [None], "the old tenant ends at the last good second"
        wait_until(lambda: _read(live, card) == {None, uuid})
        (after,) = _instances(live, card).values()
        assert (after.uuid, after.gi_id, after.profile) == (before.uuid, before.gi_id, before.profile)
        assert (before.generation, after.generation) == (1, 2)


def test_no_value_spans_two_tenants_of_a_number(driver: FakeDriver, new_source: New, tmp_path: Path) -> None:
    """M2: the window of what is measured between two seconds begins anew."""
    card = mig_card(driver)
    uuid = driver.create_instance(card, "1g.10gb")
    driver.gpm(uuid, {2: 900})
    with living(tmp_path, new_source) as live:
        wait_until(
            lambda: len(read := live.source.read(card, now_s())) == 2 and bool(read[1].values.get(GPU_SM_ACTIVE))
        )
        driver.destroy_instance(uuid)
        driver.create_instance(card, "1g.10gb")
        wait_until(lambda: len(live.source.read(card, now_s())) == 2)
        assert all(_instances(live, card)[number].generation == 2 for number in _instances(live, card))
        driver.gpm(uuid, {2: 100})
        seen: set[float] = set()

        def is_measured() -> bool:
            value = live.source.read(card, now_s())[1].values.get(GPU_SM_ACTIVE)
            seen.update([] if value is None else [round(float(value), 2)])
            return bool(seen)

        wait_until(is_measured)
        assert max(seen) <= 0.11


def test_an_instance_that_was_away_is_another_when_it_is_back(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """M2: also over a restart of the collector, which remembers what it has counted."""
    card = mig_card(driver)
    uuid = driver.create_instance(card, "2g.20gb")
    path = tmp_path / "node.json"
    with living(tmp_path, new_source, NodeState(path)) as live:
        wait_until(lambda: _read(live, card) == {None, uuid})
        driver.destroy_instance(uuid)
        wait_until(lambda: _read(live, card) == {None} and not _instances(live, card))
        driver.create_instance(card, "2g.20gb")
        wait_until(lambda: _read(live, card) == {None, uuid})
    with living(tmp_path, new_source, NodeState(path)) as live:
        assert [each.generation for each in _instances(live, card).values()] == [2], "nothing happened meanwhile"
    with living(tmp_path, new_source, NodeState(path, boot="another")) as live:
        assert [each.generation for each in _instances(live, card).values()] == [3], "no instance survives a boot"


def test_what_was_not_watched_is_not_taken_for_the_same(driver: FakeDriver, new_source: New, tmp_path: Path) -> None:
    """M4: whoever asks for the cards to be let go of does so to change them."""
    card = mig_card(driver)
    uuid = driver.create_instance(card, "1g.10gb")
    with living(tmp_path, new_source) as live:
        wait_until(lambda: _read(live, card) == {None, uuid})
        live.quiesce()
        live.resume()
        wait_until(lambda: [each.generation for each in _instances(live, card).values()] == [2])


def test_a_new_instance_is_read_in_the_second_after_it_was_made(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """By a cheap look in each second, not by the inventory of every 5 s; behind holes of the driver's list, too."""
    card = mig_card(driver)
    first = driver.instance(0, 3, "1g.10gb", gi_id=7)
    with living(tmp_path, new_source) as live:
        wait_until(lambda: _read(live, card) == {None, first})
        second = driver.instance(0, 6, "3g.40gb", gi_id=2, start=4)
        assert _read(live, card) == {None, first}, "what it is has to be asked first"
        wait_until(lambda: _read(live, card) == {None, first, second})


def test_what_is_measured_of_an_instance_goes_on_while_another_is_made_beside_it(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """M3: the tenant who stays has a value in every second."""
    card = mig_card(driver)
    stays = driver.create_instance(card, "1g.10gb")
    driver.gpm(stays, {2: 900})
    with living(tmp_path, new_source) as live:
        wait_until_measured(live.source, card)
        new = driver.create_instance(card, "3g.40gb")
        assert _read(live, card) == {None, stays}
        wait_until(lambda: new in {each.uuid for each in _instances(live, card).values()})

        CLOCK.sleep_s(0.6)
        by_uuid = {each.mig_uuid: each for each in live.source.read(card, now_s())}
        assert by_uuid.keys() == {None, stays, new}
        assert by_uuid[stays].values[GPU_SM_ACTIVE] == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_FOUND])
def test_a_card_that_is_being_changed_costs_the_others_nothing(
    driver: FakeDriver, new_source: New, tmp_path: Path, code: int
) -> None:
    """M3: its handles are dropped, nothing ends, and what comes of it is found."""
    cards = [mig_card(driver, index) for index in range(2)]
    old = [driver.create_instance(card, "3g.40gb") for card in cards]
    with living(tmp_path, new_source) as live:
        for card, instance in zip(cards, old, strict=True):
            wait_until(lambda card=card, instance=instance: _read(live, card) == {None, instance})  # type: ignore[misc]
        driver.fault(code, "nvmlDeviceGetMigDeviceHandleByIndex", cards[0])
        driver.fault(code, "nvmlDeviceGetMemoryInfo_v2", cards[0])
        driver.destroy_instance(old[0])
        assert _read(live, cards[0]) == {None}
        assert _read(live, cards[1]) == {None, old[1]}
        new = driver.create_instance(cards[0], "7g.80gb")
        driver.clear_faults()
        wait_until(lambda: _read(live, cards[0]) == {None, new})
        assert _read(live, cards[1]) == {None, old[1]}


def test_mig_that_is_switched_on_and_off_is_followed(driver: FakeDriver, new_source: New, tmp_path: Path) -> None:
    """M5: beside a card that cannot do MIG at all."""
    card = driver.card(0, H100, busy_percent=70)
    plain = driver.card(1, busy_percent=50)
    driver.process(card, 4_242, 600 * MIB)
    with living(tmp_path, new_source) as live:
        live.wait_for(card, 1)
        assert live.card(card).values[GPU_BUSY] == 0.7
        driver.set(card, mig_mode=1, full_card_sms=132)
        assert live.card(card).values[GPU_BUSY] is None, "at once, or an idle card in MIG mode would be 70 % busy"
        uuid = driver.create_instance(card, "1g.10gb")
        wait_until(lambda: _read(live, card) == {None, uuid})
        assert live.card(plain).values[GPU_BUSY] == 0.5
        driver.destroy_instance(uuid)
        driver.set(card, mig_mode=0)
        assert _read(live, card) == {None}
        wait_until(lambda: not {each.uuid: each for each in live.source.inventory()}[card].mig_enabled)
        wait_until(lambda: live.card(card).values[GPU_BUSY] == 0.7)


def test_an_instance_that_does_not_answer_is_not_taken_for_idle(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """M1: the card is as busy as its instances, those that are mute included."""
    card = mig_card(driver)
    uuids = [driver.create_instance(card, "3g.40gb") for _ in range(2)]
    for uuid in uuids:
        driver.gpm(uuid, {1: 800})
    with living(tmp_path, new_source) as live:
        live.card(card)
        busy = _after_a_window(live, card).values[GPU_BUSY]
        assert busy == pytest.approx(0.8 * 120 / 132)
        fault = driver.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetMemoryInfo_v2", uuids[1])
        assert _after_a_window(live, card).values[GPU_BUSY] == pytest.approx(busy)
        assert _read(live, card) == {None, uuids[0]}
        driver.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlGpmMigSampleGet", card)
        reading = _after_a_window(live, card)
        assert (reading.values[GPU_BUSY], reading.missing[GPU_BUSY]) == (None, FieldState.ERROR)
        fault.take_back()


def test_two_compute_instances_make_one_instance_of_its_whole_size(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """M6: as an H200 tells it, 16 and 32 SMs of the 60 of a 3g.71gb, each with the memory of both."""
    card = driver.card(0, "NVIDIA H200", mig_mode=1, full_card_sms=132)
    shared = {"gi_id": 2, "gi_profile": 9, "start": 0, "size": 4, "memory_mib": 71_424, "used": 16_925 * MIB}
    first = driver.instance(0, 0, "1c.3g.71gb", ci_slices=1, sms=16, **shared)
    driver.instance(0, 1, "2c.3g.71gb", ci_slices=2, sms=32, **shared)
    with living(tmp_path, new_source) as live:
        (instance,) = _instances(live, card).values()
        assert (instance.uuid, instance.profile, instance.sm_count) == (first, "3g.71gb", 60)
        _, reading = live.source.read(card, now_s())
        assert reading.values[GPU_MEMORY_USED] == 16_925 * MIB
        driver.destroy_instance(first)
        wait_until(lambda: bool(_read(live, card)) and _instances(live, card)[2].generation == 2)


def test_both_forms_of_an_instances_uuid_are_taken_as_they_are(
    driver: FakeDriver, new_source: New, tmp_path: Path
) -> None:
    """M7, M8: drivers of 450 wrote `MIG-GPU-<uuid>/<gi>/<ci>`; numbers are asked for, never read out of it."""
    card = mig_card(driver)
    old = driver.instance(0, 0, "1g.10gb", gi_id=7, uuid=f"MIG-{card}/7/0", used=5 * MIB)
    new = driver.instance(0, 1, "1g.10gb", gi_id=8, start=1, used=6 * MIB)
    with living(tmp_path, new_source) as live:
        assert {each.uuid: each.gi_id for each in _instances(live, card).values()} == {old: 7, new: 8}
        wait_until(lambda: _read(live, card) == {None, old, new})
        owned = {reading.mig_uuid: reading.owners for reading in live.source.read(card, now_s())}
        assert owned[old][UNATTRIBUTED].memory_bytes == 5 * MIB
        assert owned[new][UNATTRIBUTED].memory_bytes == 6 * MIB


GEOMETRIES = [
    (A100_40, 40_960),
    (A100_40, 40_536),
    (A100_80, 81_920),
    (A100_80, 81_251),
    (H100_80, 81_559),
    (H100_PCIE_80, 81_559),
    (H200_141, 143_771),
    (A30_24, 24_576),
    (A30_24, 24_062),
]


@pytest.mark.parametrize(("geometry", "card_mib"), GEOMETRIES)
def test_a_profile_is_told_by_slices_and_memory(geometry: MigGeometry, card_mib: int) -> None:
    """M10: of every profile of every family that is known, on cards whose drivers tell this or that total."""
    for profile in geometry.profiles:
        found = profile_of(profile.compute_slices, profile.vram_bytes, card_mib * MIB)
        assert found == profile.name.removesuffix("+me")


@pytest.mark.parametrize(("named", "profile"), [("1g.11gb", "1g.12gb"), ("1g.11gb+me", "1g.12gb+me")])
def test_a_name_that_is_wrong_is_not_believed(
    driver: FakeDriver, new_source: New, tmp_path: Path, named: str, profile: str
) -> None:
    """M10: an H100 NVL has 94 GB, of which an eighth is 12."""
    card = driver.card(0, "NVIDIA H100 NVL", total=95_830 * MIB, mig_mode=1, full_card_sms=132)
    driver.instance(0, 0, named, gi_id=9, size=1, sms=16, memory_mib=11_008, gi_slices=1, ci_slices=1)
    with living(tmp_path, new_source) as live:
        assert [each.profile for each in _instances(live, card).values()] == [profile]
