"""Counters that begin again, that are too narrow, or that a card has not."""

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.nvml.values.counters import ByteCounter, CardCounters
from domain.samples import Basis, FieldState
from domain.series import (
    GPU_ECC_CORRECTED,
    GPU_ENERGY,
    GPU_NVLINK_RECEIVED,
    GPU_PCIE_RECEIVED,
    GPU_PCIE_TRANSMITTED,
    GPU_POWER,
)
from domain.units import GIB, MIB
from tests.collector.nvml.value_rig import ValueRig, state_of
from tests.fakes.nvml.driver import Can

H100 = "NVIDIA H100 80GB HBM3"
COUNTER, AT_LEAST, GPM_RATE, GPM = (Basis("nvml", basis) for basis in ("counter", "at_least", "gpm_rate", "gpm"))


def test_an_energy_counter_that_begins_again_is_counted_and_told_as_it_stands(values: ValueRig) -> None:
    """R8: 5,000,000 mJ, then 120 after the driver was loaded: 0.12 J more at most, never less than nothing."""
    uuid = values.fake.card(0, millijoules=5_000_000)
    counters = CardCounters()
    assert values.card(uuid, counters=counters).read().values[GPU_ENERGY] == 5_000
    assert counters.resets == {}

    values.fake.set(uuid, millijoules=120)
    said = values.after(values.card(uuid, counters=counters))

    assert (said.values[GPU_ENERGY], said.bases[GPU_ENERGY]) == (0.12, COUNTER)
    assert counters.resets == {GPU_ENERGY: 1}


def test_garbage_in_a_counter_is_no_reset_of_it(values: ValueRig) -> None:
    uuid = values.fake.card(0, millijoules=5_000)
    counters = CardCounters()
    card = values.card(uuid, counters=counters)
    card.read()
    values.fake.set(uuid, millijoules=2**64 - 1)
    values.after(card)
    values.fake.set(uuid, millijoules=6_000)
    values.after(card)

    assert counters.resets == {}


def test_a_card_without_an_energy_counter_adds_up_its_power(values: ValueRig) -> None:
    """R8: and says that it does. R9: it is never the other way round."""
    uuid = values.fake.card(0, milliwatts=100_000)
    values.fake.deny(uuid, Can.ENERGY)
    counters = CardCounters()
    card = values.card(uuid, counters=counters)
    said = card.read()
    assert (said.values[GPU_ENERGY], said.bases[GPU_ENERGY]) == (0, Basis("nvml", "power"))

    values.fake.set(uuid, milliwatts=200_000)
    assert values.after(card).values[GPU_ENERGY] == pytest.approx(150), "a straight line between the two readings"
    assert values.after(card, 3).values[GPU_ENERGY] == pytest.approx(750), "a short silence is bridged"
    assert values.after(card, 60).values[GPU_ENERGY] == pytest.approx(750), "a long one adds nothing"

    made_anew = values.card(uuid, counters=counters)
    assert values.after(made_anew).values[GPU_ENERGY] == pytest.approx(950), "it goes on through a new handle"
    assert counters.resets == {}


def test_an_energy_counter_that_stands_at_0_counts_nothing(values: ValueRig) -> None:
    """R5."""
    uuid = values.fake.card(0, milliwatts=100_000, millijoules=0)

    assert values.card(uuid).read().bases[GPU_ENERGY] == Basis("nvml", "power")


def test_an_energy_counter_that_fails_for_now_is_not_replaced(values: ValueRig) -> None:
    uuid = values.fake.card(0, milliwatts=100_000, millijoules=5)
    values.fake.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetTotalEnergyConsumption")

    assert state_of(values.card(uuid).read(), GPU_ENERGY) is FieldState.ERROR


def test_energy_and_power_that_cannot_be_told_are_missing(values: ValueRig) -> None:
    uuid = values.fake.card(0)
    values.fake.deny(uuid, Can.ENERGY | Can.POWER | Can.POWER_FIELDS)

    said = values.card(uuid).read()

    assert state_of(said, GPU_POWER) is FieldState.UNSUPPORTED
    assert state_of(said, GPU_ENERGY) is FieldState.UNSUPPORTED


@pytest.mark.parametrize(
    ("name", "basis"),
    [("Tesla T4", "instant"), ("NVIDIA A100-SXM4-80GB", "instant"), ("NVIDIA GeForce RTX 4090", "average")],
)
def test_power_without_its_field_means_what_the_header_says_of_the_chip(
    values: ValueRig, name: str, basis: str
) -> None:
    uuid = values.fake.card(0, name, milliwatts=50_000)
    values.fake.deny(uuid, Can.POWER_FIELDS)

    said = values.card(uuid).read()

    assert (said.values[GPU_POWER], said.bases[GPU_POWER]) == (50, Basis("nvml", basis))


def test_pcie_bytes_are_added_up_from_when_they_were_first_read(values: ValueRig) -> None:
    uuid = values.fake.card(0, H100, pcie_tx_bytes=2 * GIB, pcie_rx_bytes=5 * GIB)
    card = values.card(uuid)
    assert state_of(card.read(), GPU_PCIE_RECEIVED) is FieldState.NOT_READY, "until it is known which way it has"
    first = values.after(card)
    assert (first.values[GPU_PCIE_TRANSMITTED], first.values[GPU_PCIE_RECEIVED]) == (0, 0)

    values.fake.set(uuid, pcie_tx_bytes=2 * GIB + 77, pcie_rx_bytes=5 * GIB + 3)
    said = values.after(card)
    assert (said.values[GPU_PCIE_TRANSMITTED], said.values[GPU_PCIE_RECEIVED]) == (77, 3)
    assert said.bases[GPU_PCIE_RECEIVED] == COUNTER


def test_a_pcie_counter_of_32_bits_is_at_least_so_many_where_no_rate_helps(values: ValueRig) -> None:
    """Every 4 GiB it begins again, which nobody sees from outside."""
    uuid = values.fake.card(0, pcie_tx_bytes=4 * GIB - 10)
    values.fake.allow(uuid, Can.PCIE_COUNTERS)
    card = values.card(uuid)
    card.read()
    values.fake.set(uuid, pcie_tx_bytes=90)

    said = values.after(card)

    assert (said.values[GPU_PCIE_TRANSMITTED], said.bases[GPU_PCIE_TRANSMITTED]) == (100, AT_LEAST)


def test_pcie_bytes_of_a_newer_driver_are_told_as_they_stand(values: ValueRig) -> None:
    uuid = values.fake.card(0, H100, pcie_tx_bytes=2**40 + 1, pcie_rx_bytes=7)
    values.fake.allow(uuid, Can.GPM_COUNTERS)
    card = values.card(uuid)
    assert state_of(card.read(), GPU_PCIE_TRANSMITTED) is FieldState.NOT_READY, "not by another way for one second"

    said = values.after(card)

    assert (said.values[GPU_PCIE_TRANSMITTED], said.values[GPU_PCIE_RECEIVED]) == (2**40 + 1, 7)
    assert said.bases[GPU_PCIE_TRANSMITTED] == GPM


def test_pcie_bytes_are_added_up_from_rates_where_nothing_counts_them(values: ValueRig) -> None:
    uuid = values.fake.card(0, H100)
    values.fake.deny(uuid, Can.PCIE_COUNTERS)
    card = values.card(uuid)
    values.after(card)
    for total in (3 * MIB, 8 * MIB):
        values.fake.set(uuid, pcie_rx_bytes=total)
        said = values.after(card)

    assert said.values[GPU_PCIE_RECEIVED] == pytest.approx(8 * MIB, abs=2)
    assert said.bases[GPU_PCIE_RECEIVED] == GPM_RATE


@given(steps=st.lists(st.integers(0, 100 * GIB), max_size=20), start=st.integers(0, 2**32 - 1))
def test_a_narrow_counter_is_unwrapped_by_about_how_much_it_was(steps: list[int], start: int) -> None:
    """A rate that is right to a third of 4 GiB is enough to count every byte."""
    counter, true = ByteCounter(), start
    assert counter.step_bytes(start, None) == 0
    for step in steps:
        true += step
        assert counter.step_bytes(true % 2**32, step + GIB) == step
    assert not counter.is_wide


@given(start=st.integers(2**32, 2**60), step=st.integers(0, 2**45))
def test_a_wide_counter_is_what_it_is(start: int, step: int) -> None:
    counter = ByteCounter()
    counter.step_bytes(start, None)

    assert counter.step_bytes(start + step, None) == step
    assert counter.step_bytes(5, None) == 5, "it began again"
    assert counter.is_wide


def test_more_bytes_than_any_bus_moves_are_garbage_and_leave_no_trace() -> None:
    counter = ByteCounter()
    counter.step_bytes(10, None)
    assert counter.step_bytes(2**61, None) is None

    assert counter.step_bytes(30, None) == 20
    assert not counter.is_wide


def test_each_link_and_each_card_has_counters_of_its_own(values: ValueRig) -> None:
    uuid = values.fake.card(0, H100)
    for link, data in enumerate((5 * MIB, 9 * MIB)):
        values.fake.link(uuid, link, data_rx_bytes=data)
    counters = CardCounters()
    card = values.card(uuid, counters=counters)
    card.read()
    values.fake.link(uuid, 1, data_rx_bytes=MIB)
    values.after(card)

    assert counters.resets == {GPU_NVLINK_RECEIVED: 1}


def test_errors_that_are_counted_for_a_card_s_life_do_not_begin_again(values: ValueRig) -> None:
    uuid = values.fake.card(0, H100, ecc_corrected=[3, 40])
    counters = CardCounters()
    assert values.card(uuid, counters=counters).read().values[GPU_ECC_CORRECTED] == 40
    values.fake.load()
    values.nvml = type(values.nvml)(values.calls)

    assert values.card(uuid, counters=counters).read().values[GPU_ECC_CORRECTED] == 40
    assert counters.resets == {}
