"""What there is to grant: cards with what is taken of them, as integers of one instant."""

from collections.abc import Sequence
from dataclasses import dataclass

from domain.capacity import Amount, DeviceState, ShareGrain, Take
from domain.units import MIB, WHOLE_GPU_UNITS


@dataclass(frozen=True, slots=True)
class StockInstance:
    """A MIG instance that exists; sizes as the hardware reports them."""

    mig_uuid: str
    profile: str
    start_slice: int
    sm_count: int
    vram_bytes: int
    is_foreign: bool


@dataclass(frozen=True, slots=True)
class Card:
    """A card, how it is sold, and everything that is granted or held of it.

    `vram_usable_bytes` is total - reserved; in MIG mode the total, since a full-card instance may be larger than
    what the driver's reserve leaves. `share_grain` is None on a card sold whole or in MIG instances.
    `state_reason` is '' where nothing was said, and to tenants. `is_silent`: its node is not reachable.
    """

    gpu_uuid: str
    node: str
    device_index: int
    model: str
    sku: str
    compute_units: int
    vram_usable_bytes: int
    mig_enabled: bool
    share_grain: ShareGrain | None
    state: DeviceState
    state_reason: str
    is_silent: bool
    takes: Sequence[Take]
    instances: Sequence[StockInstance]

    @property
    def free(self) -> Amount:
        """What is not taken; below 0 where more is taken than there is, which is a fault and never capacity."""
        return Amount(
            self.compute_units - sum(take.compute_units for take in self.takes),
            self.vram_usable_bytes - sum(take.vram_bytes for take in self.takes),
        )

    @property
    def free_instances(self) -> Sequence[StockInstance]:
        """Instances that can be granted: ours or adopted, and nobody's.

        None of them where something is taken of the card that names no instance: it may be any.
        """
        taken = {take.mig_uuid for take in self.takes}
        if None in taken:
            return ()
        return [each for each in self.instances if each.mig_uuid not in taken and not each.is_foreign]

    def share_vram_bytes(self, milli_gpu: int) -> int:
        """The VRAM that goes with a share: the same proportion, down to whole MiB, but not below the grain."""
        return max(
            self.share_grain.min_vram_bytes if self.share_grain else 0,
            proportional_vram_bytes(self.vram_usable_bytes, milli_gpu),
        )


def proportional_vram_bytes(vram_usable_bytes: int, milli_gpu: int) -> int:
    """Thousandths of a card's VRAM, down to whole MiB."""
    return vram_usable_bytes * milli_gpu // WHOLE_GPU_UNITS // MIB * MIB
