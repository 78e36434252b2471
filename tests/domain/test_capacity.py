from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.capacity import Balance, DeviceBalance, DeviceCapacity, DeviceState, ShareGrain, Take, balance
from domain.errors import InputError
from domain.inventory import MigInstance
from domain.mig import (
    A30_24,
    A100_80,
    H100_80,
    H200_141,
    MigGeometry,
    Placement,
    free_placements,
    taken_by,
)
from domain.units import GIB, MIB
from tests.placements import placement_sets

WHOLE_4090 = DeviceCapacity(1_000, 24_564 * MIB, 512 * MIB)
SHARED_4090 = DeviceCapacity(1_000, 24_564 * MIB, 512 * MIB, share_grain=ShareGrain(100, 2 * GIB))
USABLE_4090_BYTES = (24_564 - 512) * MIB


def mig_card(geometry: MigGeometry, *offered: str, total_mib: int = 81_920, reserved_mib: int = 669) -> DeviceCapacity:
    return DeviceCapacity(
        geometry.full_card.sm_count,
        total_mib * MIB,
        reserved_mib * MIB,
        mig_mode=True,
        geometry=geometry,
        offered_profiles=offered,
    )


def instance(geometry: MigGeometry, name: str, start: int) -> MigInstance:
    profile = geometry.profile(name)
    return MigInstance(f"MIG-{start}", start, name, start, profile.slices, profile.sm_count, profile.vram_bytes)


def take(existing: MigInstance) -> Take:
    return Take(existing.sm_count, existing.vram_bytes, existing.uuid)


def states(each: Balance) -> dict[str, int]:
    named = {
        name: getattr(each, name) for name in ("granted", "held", "idle", "stranded", "drained", "lost", "reserved")
    }
    return {name: amount for name, amount in named.items() if amount}


def assert_conserved(found: DeviceBalance) -> None:
    for each in found:
        assert min((0, *states(each).values())) >= 0
        assert each.residual == 0
        assert sum(states(each).values()) == each.total


def test_an_empty_card_sold_whole_is_idle_but_for_the_drivers_own() -> None:
    found = balance(WHOLE_4090, [])
    assert states(found.compute) == {"idle": 1_000}
    assert states(found.vram) == {"idle": USABLE_4090_BYTES, "reserved": 512 * MIB}
    assert_conserved(found)


def test_a_whole_grant_takes_all_but_the_drivers_own() -> None:
    found = balance(WHOLE_4090, [Take(1_000, USABLE_4090_BYTES)])
    assert states(found.compute) == {"granted": 1_000}
    assert states(found.vram) == {"granted": USABLE_4090_BYTES, "reserved": 512 * MIB}
    assert_conserved(found)


def test_what_a_part_leaves_of_a_card_sold_whole_is_stranded() -> None:
    """Nobody can be sold the rest, so it is not idle; the same on a hold."""
    granted = balance(WHOLE_4090, [Take(400, 4 * GIB)])
    held = balance(WHOLE_4090, [], [Take(400, 4 * GIB)])
    assert states(granted.compute) == {"granted": 400, "stranded": 600}
    assert states(held.compute) == {"held": 400, "stranded": 600}
    assert_conserved(granted)
    assert_conserved(held)


def test_a_shared_card_is_idle_while_the_smallest_share_fits_in_both_dimensions() -> None:
    left_bytes = 2 * GIB
    fits = balance(SHARED_4090, [Take(900, USABLE_4090_BYTES - left_bytes)])
    assert (fits.compute.idle, fits.vram.idle) == (100, left_bytes)
    too_few_units = balance(SHARED_4090, [Take(901, USABLE_4090_BYTES - left_bytes)])
    assert (too_few_units.compute.stranded, too_few_units.vram.stranded) == (99, left_bytes)
    too_few_bytes = balance(SHARED_4090, [Take(900, USABLE_4090_BYTES - left_bytes + 1)])
    assert (too_few_bytes.compute.stranded, too_few_bytes.vram.stranded) == (100, left_bytes - 1)
    for each in (fits, too_few_units, too_few_bytes):
        assert_conserved(each)


def test_the_free_part_of_a_lost_card_is_lost_and_the_granted_part_stays_granted() -> None:
    found = balance(SHARED_4090, [Take(250, 6 * GIB)], [Take(250, 6 * GIB)], lost=True)
    assert states(found.compute) == {"granted": 250, "held": 250, "lost": 500}
    assert states(found.vram) == {
        "granted": 6 * GIB,
        "held": 6 * GIB,
        "lost": USABLE_4090_BYTES - 12 * GIB,
        "reserved": 512 * MIB,
    }
    assert_conserved(found)


@pytest.mark.parametrize("state", [DeviceState.DRAINING, DeviceState.FAILED])
def test_the_free_part_of_a_card_out_of_service_is_drained_unless_it_is_lost(state: DeviceState) -> None:
    drained = balance(SHARED_4090, [Take(250, 6 * GIB)], state=state)
    assert states(drained.compute) == {"granted": 250, "drained": 750}
    lost = balance(SHARED_4090, [Take(250, 6 * GIB)], state=state, lost=True)
    assert states(lost.compute) == {"granted": 250, "lost": 750}
    assert_conserved(drained)
    assert_conserved(lost)


def test_a_suspect_card_is_still_in_service() -> None:
    assert balance(SHARED_4090, [], state=DeviceState.SUSPECT) == balance(SHARED_4090, [])


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


def test_over_granting_a_card_shows_as_a_residual_and_hides_in_no_state() -> None:
    found = balance(SHARED_4090, [Take(700, 10 * GIB), Take(600, 10 * GIB)])
    assert found.compute.residual == -300
    assert states(found.compute) == {"granted": 1_300}
    assert found.vram.residual == 0


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


def test_a_grant_of_an_instance_on_a_card_without_mig_is_over_granting() -> None:
    found = balance(WHOLE_4090, [Take(14, GIB, "MIG-1")])
    assert (found.compute.residual, found.vram.residual) == (-14, -GIB)


def test_instances_larger_than_their_card_show_as_a_residual() -> None:
    """A card registered with too few SMs cannot balance what its instances report."""
    full = instance(H100_80, "7g.80gb", 0)
    card = DeviceCapacity(114, 81_559 * MIB, 0, mig_mode=True, geometry=H100_80)
    assert balance(card, [take(full)], instances=[full]).compute.residual == -18


def test_unusable_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="cannot balance the negative grant"):
        balance(WHOLE_4090, [Take(-1, 0)])
    with pytest.raises(InputError, match="cannot balance the negative grant"):
        balance(WHOLE_4090, [], [Take(0, -1)])
    with pytest.raises(InputError, match=r"cannot use a device of 10 bytes of which the driver keeps 11"):
        DeviceCapacity(1_000, 10, 11)


SERVICE = st.tuples(st.sampled_from(DeviceState), st.booleans())
CARD_MIB = {"A100-80": (81_920, 669), "H100-80": (81_559, 479), "H200-141": (143_771, 614), "A30-24": (24_576, 300)}


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


@settings(max_examples=settings().max_examples * 150 // 100, deadline=None)
@given(
    st.sampled_from([WHOLE_4090, SHARED_4090]),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 12 * GIB), st.booleans()), max_size=6),
    SERVICE,
)
def test_any_takes_of_a_card_without_mig_balance_to_their_excess(
    card: DeviceCapacity, takes: list[tuple[int, int, bool]], service: tuple[DeviceState, bool]
) -> None:
    """The residual is 0 where the takes fit and minus the excess where they do not, per dimension."""
    grants = [Take(units, size) for units, size, is_held in takes if not is_held]
    holds = [Take(units, size) for units, size, is_held in takes if is_held]
    found = balance(card, grants, holds, state=service[0], lost=service[1])
    units_taken = sum(units for units, _, _ in takes)
    bytes_taken = sum(size for _, size, _ in takes)
    assert found.compute.residual == -max(0, units_taken - 1_000)
    assert found.vram.residual == -max(0, bytes_taken - USABLE_4090_BYTES)
    for each in found:
        assert min((0, *states(each).values())) == 0
        assert each.residual == each.total - sum(states(each).values())
