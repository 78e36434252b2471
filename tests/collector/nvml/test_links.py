"""NVLinks and the way between cards."""

from collections.abc import Callable
from pathlib import Path

import pynvml
import pytest

from collector.nvml.source import NvmlSource
from collector.nvml.topology import TopologyLink, topology
from collector.quiesce import QuiesceDesk
from domain.samples import Basis, FieldState
from domain.series import GPU_NVLINK_RECEIVED, GPU_NVLINK_TRANSMITTED, GPU_TOPOLOGY_LINK
from domain.units import MIB
from tests.collector.nvml.value_rig import ValueRig, state_of
from tests.collector.patience import wait_until
from tests.fakes.nvml.driver import Can, FakeDriver

H100 = "NVIDIA H100 80GB HBM3"


def test_bytes_are_told_by_link_that_is_up(values: ValueRig) -> None:
    uuid = values.fake.card(0, H100)
    values.fake.link(uuid, 0, data_tx_bytes=3 * MIB, data_rx_bytes=MIB)
    values.fake.link(uuid, 2, data_tx_bytes=5 * MIB)
    values.fake.link(uuid, 3, active=0, data_tx_bytes=7 * MIB)

    said = values.card(uuid).read()

    assert said.parts[GPU_NVLINK_TRANSMITTED] == {"0": 3 * MIB, "2": 5 * MIB}
    assert said.parts[GPU_NVLINK_RECEIVED] == {"0": MIB, "2": 0}
    assert said.bases[GPU_NVLINK_RECEIVED] == Basis("nvml", "payload")


def test_bytes_come_by_another_field_where_the_payload_is_not_told(values: ValueRig) -> None:
    """NVLink 5 counts in whole bytes."""
    uuid = values.fake.card(0, H100)
    values.fake.link(uuid, 0, data_tx_bytes=1_025)
    for field in (138, 139):
        values.fake.fault(pynvml.NVML_ERROR_NOT_SUPPORTED, "nvmlDeviceGetFieldValues", entry=field)

    said = values.card(uuid).read()

    assert said.parts[GPU_NVLINK_TRANSMITTED] == {"0": 1_025}
    assert said.bases[GPU_NVLINK_TRANSMITTED] == Basis("nvml", "bytes")


def test_bytes_of_all_links_are_added_up_where_only_their_rate_is_told(values: ValueRig) -> None:
    uuid = values.fake.card(0, H100)
    values.fake.link(uuid, 0)
    for field in (138, 139, 202, 204):
        values.fake.fault(pynvml.NVML_ERROR_NOT_SUPPORTED, "nvmlDeviceGetFieldValues", entry=field)
    card = values.card(uuid)
    assert state_of(values.after(card), GPU_NVLINK_RECEIVED) is FieldState.NOT_READY
    values.fake.link(uuid, 0, data_rx_bytes=64 * MIB)

    said = values.after(card)

    assert said.parts[GPU_NVLINK_RECEIVED] == {"all": 64 * MIB}
    assert said.bases[GPU_NVLINK_RECEIVED] == Basis("nvml", "gpm_rate")


def test_a_card_without_links_says_so_and_is_asked_seldom(values: ValueRig) -> None:
    """L10."""
    card = values.card(values.fake.card(0))
    for _ in range(300):
        said = values.after(card)

    assert state_of(said, GPU_NVLINK_RECEIVED) is FieldState.UNSUPPORTED
    assert values.fake.calls("nvmlDeviceGetNvLinkState") == 1


def test_a_link_that_comes_up_is_found_within_a_minute(values: ValueRig) -> None:
    uuid = values.fake.card(0, H100)
    values.fake.link(uuid, 0)
    card = values.card(uuid)
    card.read()
    values.fake.link(uuid, 1)
    assert set(values.after(card).parts[GPU_NVLINK_RECEIVED]) == {"0"}

    assert set(values.after(card, 60).parts[GPU_NVLINK_RECEIVED]) == {"0", "1"}


def _topology(values: ValueRig, *uuids: str) -> set[TopologyLink]:
    return set(topology(values.nvml, {uuid: values.handle(uuid) for uuid in uuids}))


def test_each_pair_is_told_in_both_directions_with_its_links(values: ValueRig) -> None:
    first, second, third = (values.fake.card(index, H100) for index in range(3))
    for link in range(4):
        values.fake.link(first, link, second)
        values.fake.link(second, link, first)
    values.fake.relation(first, second, pynvml.NVML_TOPOLOGY_SINGLE)
    values.fake.relation(first, third, pynvml.NVML_TOPOLOGY_NODE)
    values.fake.relation(second, third, 25)

    assert _topology(values, first, second, third) == {
        TopologyLink(first, second, "single", "ok", 4),
        TopologyLink(second, first, "single", "ok", 4),
        TopologyLink(first, third, "node", "ok", 0),
        TopologyLink(third, first, "node", "ok", 0),
        TopologyLink(second, third, "25", "ok", 0),
        TopologyLink(third, second, "25", "ok", 0),
    }


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (pynvml.NVML_P2P_STATUS_OK, "ok"),
        (pynvml.NVML_P2P_STATUS_IOH_TOPOLOGY_NOT_SUPPORTED, "topology_not_supported"),
        (pynvml.NVML_P2P_STATUS_DISABLED_BY_REGKEY, "disabled_by_regkey"),
        (7, "7"),
    ],
)
def test_a_pair_says_whether_one_can_read_the_others_memory_and_why_not(
    values: ValueRig, status: int, told: str
) -> None:
    first, second = (values.fake.card(index, H100) for index in range(2))
    values.fake.relation(first, second, pynvml.NVML_TOPOLOGY_NODE, status)

    assert {each.peer_access for each in _topology(values, first, second)} == {told}


def test_a_driver_that_does_not_tell_peer_access_tells_the_way(values: ValueRig) -> None:
    first, second = (values.fake.card(index, H100) for index in range(2))
    values.fake.relation(first, second, pynvml.NVML_TOPOLOGY_NODE)
    values.fake.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetP2PStatus")

    assert {(each.level, each.peer_access) for each in _topology(values, first, second)} == {("node", "")}


def test_a_card_that_is_lost_while_it_is_asked_costs_its_own_pairs_only(values: ValueRig) -> None:
    """L1."""
    first, second, third = (values.fake.card(index, H100) for index in range(3))
    values.fake.fault(pynvml.NVML_ERROR_GPU_IS_LOST, "nvmlDeviceGetP2PStatus", second)

    assert {each.gpu_uuid for each in _topology(values, first, second, third)} == {first, third}


def test_links_to_switches_join_the_cards_behind_them(values: ValueRig) -> None:
    first, second = (values.fake.card(index, H100) for index in range(2))
    for link in range(18):
        values.fake.link(first, link)
    for link in range(12):
        values.fake.link(second, link)

    assert {each.links for each in _topology(values, first, second)} == {12}


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_UNKNOWN])
def test_a_sick_card_is_left_out_and_the_others_are_told(values: ValueRig, code: int) -> None:
    first, second, third = (values.fake.card(index, H100) for index in range(3))
    handles = {uuid: values.handle(uuid) for uuid in (first, second, third)}
    values.fake.fault(code, uuid=second)

    assert {(each.gpu_uuid, each.peer_uuid) for each in topology(values.nvml, handles)} == {
        (first, third),
        (third, first),
    }


def test_a_card_alone_has_no_way_to_another(values: ValueRig) -> None:
    uuid = values.fake.card(0)
    values.fake.deny(uuid, Can.NVLINK)

    assert _topology(values, uuid) == set()


def test_a_source_at_work_tells_the_way_between_its_cards(
    new_source: Callable[..., NvmlSource], driver: FakeDriver, tmp_path: Path
) -> None:
    first, second = (driver.card(index, H100) for index in range(2))
    driver.relation(first, second, pynvml.NVML_TOPOLOGY_SINGLE)
    source = new_source()
    source.start(QuiesceDesk(tmp_path, "node"), tmp_path / "kmsg")

    wait_until(lambda: list(source.facts()) != [])

    assert {(fact.series, fact.value, *fact.labels.values()) for fact in source.facts()} == {
        (GPU_TOPOLOGY_LINK, 0, first, second, "single", "ok"),
        (GPU_TOPOLOGY_LINK, 0, second, first, "single", "ok"),
    }
