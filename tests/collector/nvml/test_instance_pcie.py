"""The bytes that a MIG instance moved over PCIe: its own, from when its number was given out to it."""

from collections.abc import Callable

import pynvml
import pytest

from collector.nvml.source import NvmlSource
from collector.nvml.values.card_values import InstanceValues
from collector.nvml.values.counters import CardCounters
from domain.samples import Basis, FieldState
from domain.series import GPU_PCIE_RECEIVED, GPU_PCIE_TRANSMITTED, GPU_SM_ACTIVE
from domain.units import GIB, MIB
from tests.collector.nvml.mig_rig import H100, mig_card
from tests.collector.nvml.value_rig import ValueRig, number, state_of
from tests.collector.patience import now_s, wait_until
from tests.fakes.nvml.driver import Can, FakeDriver


@pytest.fixture
def card(values: ValueRig) -> str:
    return values.fake.card(0, H100, mig_mode=1, pcie_tx_bytes=7 * GIB)


@pytest.fixture
def uuid(values: ValueRig, card: str) -> str:
    return values.fake.instance(0, 0, "1g.10gb", gi_id=9)


def _moved(values: ValueRig, uuid: str, instance: InstanceValues, total: int) -> float:
    """What is told to have been received once it is `total` in the instance's life."""
    values.fake.set(uuid, pcie_rx_bytes=total)
    return number(values.after(instance), GPU_PCIE_RECEIVED)


def test_bytes_are_added_up_from_the_rates_of_the_instance(values: ValueRig, card: str, uuid: str) -> None:
    """And of no other: its card moves a GiB meanwhile."""
    instance = values.instance(card, uuid, 9)
    assert state_of(values.after(instance), GPU_PCIE_RECEIVED) is FieldState.NOT_READY
    values.fake.set(card, pcie_tx_bytes=8 * GIB)
    values.fake.set(uuid, pcie_rx_bytes=3 * MIB)
    values.after(instance)
    values.fake.set(uuid, pcie_rx_bytes=8 * MIB, pcie_tx_bytes=MIB)

    said = values.after(instance)

    assert said.values[GPU_PCIE_RECEIVED] == pytest.approx(8 * MIB, abs=2)
    assert said.values[GPU_PCIE_TRANSMITTED] == pytest.approx(MIB, abs=2)
    assert said.bases[GPU_PCIE_RECEIVED] == said.bases[GPU_PCIE_TRANSMITTED] == Basis("nvml", "gpm_rate")


def test_a_newer_driver_counts_them_itself(values: ValueRig, card: str, uuid: str) -> None:
    values.fake.allow(card, Can.GPM_COUNTERS)
    values.fake.set(uuid, pcie_tx_bytes=2**40 + 1, pcie_rx_bytes=7)
    instance = values.instance(card, uuid, 9)
    values.after(instance)

    said = values.after(instance)

    assert (said.values[GPU_PCIE_TRANSMITTED], said.values[GPU_PCIE_RECEIVED]) == (2**40 + 1, 7)
    assert said.bases[GPU_PCIE_TRANSMITTED] == Basis("nvml", "gpm")


def test_a_driver_that_does_not_tell_them_of_an_instance_says_so(values: ValueRig, card: str, uuid: str) -> None:
    for metric in (pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC, pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC):
        values.fake.fault(pynvml.NVML_ERROR_NOT_SUPPORTED, "nvmlGpmMetricsGet", card, entry=metric)
    values.fake.gpm(uuid, {2: 500})
    instance = values.instance(card, uuid, 9)
    values.after(instance)

    said = values.after(instance)

    assert state_of(said, GPU_PCIE_RECEIVED) is state_of(said, GPU_PCIE_TRANSMITTED) is FieldState.UNSUPPORTED
    assert said.values[GPU_SM_ACTIVE] == pytest.approx(0.5)


def test_totals_go_on_through_a_new_handle_and_begin_anew_with_a_generation(
    values: ValueRig, card: str, uuid: str
) -> None:
    """M2: the next tenant of the number does not begin with the last one's bytes."""
    counters = CardCounters()
    first = values.instance(card, uuid, 9, counters=counters)
    values.after(first)
    assert _moved(values, uuid, first, 5 * MIB) == pytest.approx(5 * MIB, abs=2)

    again = values.instance(card, uuid, 9, counters=counters)
    values.after(again)
    assert _moved(values, uuid, again, 7 * MIB) == pytest.approx(7 * MIB, abs=2)

    anew = values.instance(card, uuid, 9, generation=2, counters=counters)
    values.after(anew)
    assert _moved(values, uuid, anew, 8 * MIB) == pytest.approx(MIB, abs=2)


def test_each_instance_and_its_card_have_totals_of_their_own(values: ValueRig, card: str, uuid: str) -> None:
    values.fake.deny(card, Can.PCIE_COUNTERS)
    counters = CardCounters()
    other = values.fake.instance(0, 1, "1g.10gb", gi_id=10)
    whole = values.card(card, is_mig=True, counters=counters)
    instances = [values.instance(card, each, gi_id, counters=counters) for each, gi_id in ((uuid, 9), (other, 10))]
    values.advance()
    whole.read()
    for each in instances:
        each.read()
    values.fake.set(card, pcie_rx_bytes=9 * MIB)
    values.fake.set(uuid, pcie_rx_bytes=2 * MIB)
    values.fake.set(other, pcie_rx_bytes=3 * MIB)
    values.advance()

    told = [number(said, GPU_PCIE_RECEIVED) for said in (whole.read(), *(each.read() for each in instances))]

    assert told == pytest.approx([9 * MIB, 2 * MIB, 3 * MIB], abs=2)


def test_a_source_tells_the_next_tenant_of_a_number_its_own_bytes(
    driver: FakeDriver, open_source: Callable[[], NvmlSource]
) -> None:
    """M2: also where the instance looks as the last one did."""
    card = mig_card(driver)
    uuid = driver.create_instance(card, "1g.10gb")
    source = open_source()

    def received() -> float | None:
        _, instance = source.read(card, now_s())
        return instance.values[GPU_PCIE_RECEIVED]

    received()
    driver.set(uuid, pcie_rx_bytes=5 * MIB)
    wait_until(lambda: (received() or 0) >= MIB)

    driver.destroy_instance(uuid)
    assert driver.create_instance(card, "1g.10gb") == uuid
    source.inventory()
    told: list[float | None] = [None]

    def is_told() -> bool:
        told.append(received())
        return told[-1] is not None

    wait_until(is_told)
    assert told[-1] == 0
