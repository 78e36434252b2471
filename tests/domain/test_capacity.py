"""What is free of a card, what its holders have, and that the seven states sum to the card."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.capacity import DeviceCapacity, DeviceState, Take, balance
from domain.errors import InputError
from domain.units import GIB, MIB
from tests.domain.cards import SHARED_4090, USABLE_4090_BYTES, WHOLE_4090, assert_conserved, states

SERVICE = st.tuples(st.sampled_from(DeviceState), st.booleans())


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


def test_over_granting_a_card_shows_as_a_residual_and_hides_in_no_state() -> None:
    found = balance(SHARED_4090, [Take(700, 10 * GIB), Take(600, 10 * GIB)])
    assert found.compute.residual == -300
    assert states(found.compute) == {"granted": 1_300}
    assert found.vram.residual == 0


def test_a_grant_of_an_instance_on_a_card_without_mig_is_over_granting() -> None:
    found = balance(WHOLE_4090, [Take(14, GIB, "MIG-1")])
    assert (found.compute.residual, found.vram.residual) == (-14, -GIB)


def test_unusable_sizes_are_refused() -> None:
    with pytest.raises(InputError, match="cannot balance the negative grant"):
        balance(WHOLE_4090, [Take(-1, 0)])
    with pytest.raises(InputError, match="cannot balance the negative grant"):
        balance(WHOLE_4090, [], [Take(0, -1)])
    with pytest.raises(InputError, match=r"cannot use a device of 10 bytes of which the driver keeps 11"):
        DeviceCapacity(1_000, 10, 11)


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
