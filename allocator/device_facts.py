"""What a card and a MIG instance are until something of them changes: the columns their periods are made of."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CardFacts:
    """A card, all but its UUID, node and interval. Columns as in store/tables/capacity.py."""

    device_index: int
    model: str
    sku: str
    compute_units: int
    vram_total_bytes: int
    vram_reserved_bytes: int
    mig_enabled: bool
    offered_profiles: str
    share_min_milli: int | None
    share_min_vram_bytes: int | None


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """A MIG instance, all but its UUID, origin and interval."""

    gpu_uuid: str
    gi_id: int
    profile: str
    start_slice: int
    slices: int
    sm_count: int
    vram_bytes: int

    def is_same_cut(self, other: "InstanceFacts") -> bool:
        """Whether both are the same piece of the same card, however its size is reported now."""
        return (self.gpu_uuid, self.profile, self.start_slice) == (other.gpu_uuid, other.profile, other.start_slice)
