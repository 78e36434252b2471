"""What a node reports of its hardware: the facts behind capacity."""

from dataclasses import dataclass, field

# A node from which neither a sample nor a heartbeat came for so long is unreachable.
CONTACT_SECONDS = 10


@dataclass(frozen=True, slots=True)
class MigInstance:
    """A GPU instance that exists on a card, as the hardware reports it (sizes never come from its name).

    `start` and `slices` are memory slices; the instance covers [start, start + slices). `generation` counts how often
    its number has been given out on this card, as far as the node has seen it: both number and UUID come back.
    """

    uuid: str
    gi_id: int
    profile: str
    start: int
    slices: int
    sm_count: int
    vram_bytes: int
    generation: int = 1


@dataclass(frozen=True, slots=True)
class Device:
    """A card as its driver describes it; `vram_reserved_bytes` is what the driver keeps for itself.

    `sm_count` is the SM count of the full-card MIG profile where MIG is on, and None where it is off. `minor` is the
    number of its device file, by which Slurm counts cards; it and `numa_node` are None where they cannot be told.
    """

    uuid: str
    index: int
    model: str
    vram_total_bytes: int
    vram_reserved_bytes: int
    mig_enabled: bool = False
    sm_count: int | None = None
    pci_bus_id: str = ""
    driver_version: str = ""
    minor: int | None = None
    architecture: str = ""
    vbios_version: str = ""
    numa_node: int | None = None
    instances: tuple[MigInstance, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Inventory:
    """Every card a node had at the second `observed_s`; one that is missing is gone from that second on."""

    observed_s: int
    devices: tuple[Device, ...]
