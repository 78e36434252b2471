"""Cards to balance: a 4090 sold whole or in shares, and cards in MIG mode with instances on them."""

from domain.capacity import Balance, DeviceBalance, DeviceCapacity, ShareGrain, Take
from domain.inventory import MigInstance
from domain.mig import (
    MigGeometry,
)
from domain.units import GIB, MIB

WHOLE_4090 = DeviceCapacity(1_000, 24_564 * MIB, 512 * MIB)
SHARED_4090 = DeviceCapacity(1_000, 24_564 * MIB, 512 * MIB, share_grain=ShareGrain(100, 2 * GIB))
USABLE_4090_BYTES = (24_564 - 512) * MIB


def mig_card(geometry: MigGeometry, *offered: str, total_mib: int = 81_920, reserved_mib: int = 669) -> DeviceCapacity:
    """A card in MIG mode that offers these profiles; an A100 unless its size is said."""
    return DeviceCapacity(
        geometry.full_card.sm_count,
        total_mib * MIB,
        reserved_mib * MIB,
        mig_mode=True,
        geometry=geometry,
        offered_profiles=offered,
    )


def instance(geometry: MigGeometry, name: str, start: int) -> MigInstance:
    """One as the table has it, named after the slice it begins at."""
    profile = geometry.profile(name)
    return MigInstance(f"MIG-{start}", start, name, start, profile.slices, profile.sm_count, profile.vram_bytes)


def take(existing: MigInstance) -> Take:
    """A grant or a hold of all of an instance."""
    return Take(existing.sm_count, existing.vram_bytes, existing.uuid)


def states(each: Balance) -> dict[str, int]:
    """The states that hold something, of one dimension."""
    named = {
        name: getattr(each, name) for name in ("granted", "held", "idle", "stranded", "drained", "lost", "reserved")
    }
    return {name: amount for name, amount in named.items() if amount}


def assert_conserved(found: DeviceBalance) -> None:
    """Nothing is negative, nothing is left over, and the states sum to the card."""
    for each in found:
        assert min((0, *states(each).values())) >= 0
        assert each.residual == 0
        assert sum(states(each).values()) == each.total
