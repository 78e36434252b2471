"""A card in MIG mode that one tenant has as a whole, instances and all."""

import pytest

from domain.capacity import DeviceCapacity, Take, balance
from domain.inventory import MigInstance
from domain.mig import H100_80
from domain.units import MIB

CARD = DeviceCapacity(
    132, 81_559 * MIB, 479 * MIB, mig_mode=True, geometry=H100_80, offered_profiles=("1g.10gb", "3g.40gb")
)
WHOLE = Take(132, (81_559 - 479) * MIB)
SMALL = MigInstance("MIG-0", 0, "1g.10gb", 0, 1, 16, 9_984 * MIB)


@pytest.mark.parametrize("instances", [[], [SMALL]], ids=["uncut", "cut"])
def test_a_whole_grant_takes_a_mig_card_with_all_that_is_on_it(instances: list[MigInstance]) -> None:
    found = balance(CARD, [WHOLE], instances=instances)
    assert (found.compute.residual, found.vram.residual) == (0, 0)
    assert (found.compute.granted, found.vram.granted) == WHOLE[:2]
    assert (found.compute.idle, found.vram.idle, found.vram.stranded) == (0, 0, 0)


def test_what_a_whole_grant_leaves_of_the_memory_of_a_mig_card_is_stranded() -> None:
    found = balance(CARD, [Take(132, 40_000 * MIB)], instances=[SMALL])
    assert found.vram.residual == 0
    assert (found.vram.idle, found.vram.stranded) == (0, (81_559 - 479 - 40_000) * MIB)


def test_an_instance_granted_beside_the_whole_card_is_over_granting() -> None:
    found = balance(CARD, [WHOLE, Take(16, 9_984 * MIB, "MIG-0")], instances=[SMALL])
    assert (found.compute.residual, found.vram.residual) == (-16, -9_984 * MIB)
