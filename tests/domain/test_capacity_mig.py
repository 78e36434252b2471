"""A card in MIG mode: what its instances have, what still fits beside them, and what nobody can use."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.capacity import DeviceCapacity, DeviceState, Take, balance
from domain.inventory import MigInstance
from domain.mig import (
    A30_24,
    A100_80,
    H100_80,
    H200_141,
    Placement,
    free_placements,
    taken_by,
)
from domain.units import GIB, MIB
from tests.domain.cards import assert_conserved, instance, mig_card, states, take
from tests.placements import placement_sets

SERVICE = st.tuples(st.sampled_from(DeviceState), st.booleans())
CARD_MIB = {"A100-80": (81_920, 669), "H100-80": (81_559, 479), "H200-141": (143_771, 614), "A30-24": (24_576, 300)}


def test_two_halves_of_an_a100_leave_a_seventh_of_its_compute_stranded() -> None:
    """Both 3g.40gb use all memory; the last 14 of 98 SMs no profile can use beside them.

    At $3.00 an hour for the card's compute: $1.285714 each, $0.428571 stranded, the three summing to $3.00.
    """
    halves = [instance(A100_80, "3g.40gb", 0), instance(A100_80, "3g.40gb", 4)]
    card = mig_card(A100_80, *(profile.name for profile in A100_80.profiles))
    found = balance(card, [take(half) for half in halves], instances=halves)
    assert states(found.compute) == {"granted": 84, "stranded": 14}
    assert states(found.vram) == {
        "granted": 2 * 40_192 * MIB,
        "stranded": (81_920 - 669 - 2 * 40_192) * MIB,
        "reserved": 669 * MIB,
    }
    assert_conserved(found)
    assert 3 * Fraction(found.compute.granted, 2 * found.compute.total) == Fraction(9, 7)
    assert 3 * Fraction(found.compute.stranded, found.compute.total) == Fraction(3, 7)


def test_idle_counts_instances_that_exist_and_what_fits_beside_them() -> None:
    """A 1g at slice 1 blocks the lower half: of an H100 sold as 3g and 4g only one 3g can still be made."""
    small = instance(H100_80, "1g.10gb", 1)
    card = mig_card(H100_80, "3g.40gb", "4g.40gb", total_mib=81_559, reserved_mib=479)
    ungranted = balance(card, [], instances=[small])
    assert states(ungranted.compute) == {"idle": 16 + 60, "stranded": 132 - 76}
    assert ungranted.vram.idle == (9_984 + 40_448) * MIB
    granted = balance(card, [take(small)], instances=[small])
    assert states(granted.compute) == {"granted": 16, "idle": 60, "stranded": 132 - 76}
    assert_conserved(ungranted)
    assert_conserved(granted)


def test_an_existing_instance_has_the_size_its_hardware_reports() -> None:
    odd = MigInstance("MIG-0", 0, "3g.40gb", 0, 4, 58, 39_000 * MIB)
    found = balance(mig_card(H100_80, total_mib=81_559, reserved_mib=479), [], instances=[odd])
    assert (found.compute.idle, found.vram.idle) == (58, 39_000 * MIB)
    assert_conserved(found)


def test_a_foreign_instance_takes_its_slices_and_offers_nothing() -> None:
    foreign = instance(A100_80, "4g.40gb", 0)
    card = mig_card(A100_80, "3g.40gb")
    found = balance(card, [], instances=[foreign], foreign_uuids=[foreign.uuid])
    assert states(found.compute) == {"idle": 42, "stranded": 56}
    assert balance(card, [], instances=[foreign]).compute.idle == 56 + 42
    assert_conserved(found)


def test_an_instance_granted_in_part_offers_nothing_more() -> None:
    whole = instance(A30_24, "4g.24gb", 0)
    card = mig_card(A30_24, "4g.24gb", total_mib=24_576, reserved_mib=300)
    found = balance(card, [Take(28, 10 * GIB, whole.uuid)], instances=[whole])
    assert states(found.compute) == {"granted": 28, "stranded": 28}
    assert_conserved(found)


def test_a_model_without_known_geometry_offers_only_the_instances_that_exist() -> None:
    card = DeviceCapacity(188, 97_887 * MIB, 700 * MIB, mig_mode=True, offered_profiles=("1g.24gb",))
    existing = MigInstance("MIG-0", 0, "1g.24gb", 0, 1, 46, 23_674 * MIB)
    found = balance(card, [], instances=[existing])
    assert states(found.compute) == {"idle": 46, "stranded": 188 - 46}
    assert_conserved(found)


def test_the_drivers_reserve_gives_way_to_a_full_card_instance() -> None:
    """An H100's 7g.80gb is larger than total - reserved; granting it is legal and its residual 0."""
    full = instance(H100_80, "7g.80gb", 0)
    card = mig_card(H100_80, "7g.80gb", total_mib=81_559, reserved_mib=479)
    found = balance(card, [take(full)], instances=[full])
    assert states(found.vram) == {"granted": 81_152 * MIB, "reserved": 407 * MIB}
    assert_conserved(found)


def test_idle_memory_is_never_more_than_is_free() -> None:
    """The table's full-card instance exceeds what an empty H100 has beside the driver's reserve."""
    found = balance(mig_card(H100_80, "7g.80gb", total_mib=81_559, reserved_mib=479), [])
    assert states(found.vram) == {"idle": 81_080 * MIB, "reserved": 479 * MIB}
    assert states(found.compute) == {"idle": 132}


def test_idle_compute_is_never_more_than_is_free() -> None:
    """A card registered with fewer SMs than its family's table has no more of them idle than it has."""
    card = DeviceCapacity(114, 81_559 * MIB, 0, mig_mode=True, geometry=H100_80, offered_profiles=("7g.80gb",))
    assert states(balance(card, []).compute) == {"idle": 114}


def test_granting_an_instance_twice_is_over_granting_though_the_card_has_room() -> None:
    small = instance(H100_80, "1g.10gb", 0)
    card = mig_card(H100_80, "1g.10gb", total_mib=81_559, reserved_mib=479)
    found = balance(card, [take(small)], [take(small)], instances=[small])
    assert (found.compute.residual, found.vram.residual) == (-16, -9_984 * MIB)
    assert found.compute.idle == 6 * 16


@pytest.mark.parametrize("mig_uuid", ["MIG-gone", None], ids=["gone instance", "the card itself"])
def test_a_grant_on_no_instance_of_a_mig_card_is_over_granting(mig_uuid: str | None) -> None:
    found = balance(mig_card(A100_80, "1g.10gb"), [Take(14, 9_856 * MIB, mig_uuid)])
    assert (found.compute.residual, found.vram.residual) == (-14, -9_856 * MIB)


def test_instances_larger_than_their_card_show_as_a_residual() -> None:
    """A card registered with too few SMs cannot balance what its instances report."""
    full = instance(H100_80, "7g.80gb", 0)
    card = DeviceCapacity(114, 81_559 * MIB, 0, mig_mode=True, geometry=H100_80)
    assert balance(card, [take(full)], instances=[full]).compute.residual == -18


@st.composite
def _mig_seconds(
    draw: st.DrawFn,
) -> tuple[DeviceCapacity, list[MigInstance], list[MigInstance], list[MigInstance]]:
    """A MIG card with the instances on it, those that are granted and those that are held."""
    geometry = draw(st.sampled_from([A100_80, H100_80, H200_141, A30_24]))
    names = [profile.name for profile in geometry.profiles]
    offered = draw(st.lists(st.sampled_from(names), unique=True))
    total_mib, reserved_mib = CARD_MIB[geometry.key]
    card = mig_card(geometry, *offered, total_mib=total_mib, reserved_mib=reserved_mib)
    placed: list[MigInstance] = []
    for _ in range(draw(st.integers(0, 7))):
        taken = taken_by(placed)
        free = [each for profile in geometry.profiles for each in free_placements(taken, profile)]
        if free:
            chosen: Placement = draw(st.sampled_from(free))
            placed.append(instance(geometry, chosen.profile.name, chosen.start))
    uses = draw(st.lists(st.sampled_from("ghf"), min_size=len(placed), max_size=len(placed)))
    granted = [each for each, use in zip(placed, uses, strict=True) if use == "g"]
    held = [each for each, use in zip(placed, uses, strict=True) if use == "h"]
    return card, placed, granted, held


@settings(max_examples=settings().max_examples * 150 // 100, deadline=None)
@given(_mig_seconds(), SERVICE)
def test_the_seven_states_of_any_legal_mig_card_sum_to_the_card(
    second: tuple[DeviceCapacity, list[MigInstance], list[MigInstance], list[MigInstance]],
    service: tuple[DeviceState, bool],
) -> None:
    card, placed, granted, held = second
    found = balance(
        card, [take(each) for each in granted], [take(each) for each in held], placed, state=service[0], lost=service[1]
    )
    assert_conserved(found)
    assert found.compute.granted == sum(each.sm_count for each in granted)
    assert found.vram.held == sum(each.vram_bytes for each in held)


@settings(max_examples=settings().max_examples * 60 // 100, deadline=None)
@given(_mig_seconds())
def test_idle_is_the_most_that_any_legal_set_with_everything_in_place_would_offer(
    second: tuple[DeviceCapacity, list[MigInstance], list[MigInstance], list[MigInstance]],
) -> None:
    """Against every set of new instances of the offered profiles, beside all that exist."""
    card, placed, granted, held = second
    assert card.geometry is not None
    found = balance(card, [take(each) for each in granted], [take(each) for each in held], placed)
    ungranted = [each for each in placed if each not in granted and each not in held]
    profiles = [card.geometry.profile(name) for name in card.offered_profiles]
    taken = taken_by(placed)
    new_sets = [new for new in placement_sets(profiles) if not any(placement.taken & taken for placement in new)]
    most_units = max(sum(each.profile.sm_count for each in new) for new in new_sets)
    most_bytes = max(sum(each.profile.vram_bytes for each in new) for new in new_sets)
    free_bytes = card.vram_total_bytes - found.vram.reserved - found.vram.granted - found.vram.held
    assert found.compute.idle == sum(each.sm_count for each in ungranted) + most_units
    assert found.vram.idle == min(free_bytes, sum(each.vram_bytes for each in ungranted) + most_bytes)
