"""The simulated fleet: two nodes of eight RTX 4090 and one of four H100, two of them in MIG mode.

Names, sizes and the MIG layout are those of real cards as their drivers print them; UUIDs follow from the seed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from uuid import UUID

from domain.errors import InputError
from domain.inventory import Device, Inventory, MigInstance
from domain.mig import H100_80, MigProfile
from domain.units import MIB

DRIVER_VERSION = "590.48.01"


@dataclass(frozen=True, slots=True)
class CardModel:
    """What the simulation knows of a card model; power between the two states follows how busy the card is.

    `sm_active_milli` is how many of its SMs have work while some kernel runs; None where the model cannot tell.
    """

    name: str
    vram_total_mib: int
    vram_reserved_mib: int
    idle_milliwatts: int
    busy_milliwatts: int
    idle_celsius: int
    busy_celsius: int
    sm_idle_megahertz: int
    sm_busy_megahertz: int
    memory_idle_megahertz: int
    memory_busy_megahertz: int
    sm_active_milli: int | None


RTX_4090 = CardModel("NVIDIA GeForce RTX 4090", 24_564, 340, 22_000, 430_000, 33, 74, 210, 2_520, 405, 10_501, None)
H100_80G = CardModel("NVIDIA H100 80GB HBM3", 81_559, 479, 71_000, 690_000, 31, 66, 345, 1_980, 2_619, 2_619, 830)

# Profile and first memory slice of each instance, with the GI ids a driver gave for such a layout.
_MIXED = (("3g.40gb", 4, 2), ("2g.20gb", 0, 3), ("1g.10gb", 2, 9), ("1g.10gb", 3, 10))
_SEVENTHS = tuple(("1g.10gb", start, 7 + start) for start in range(7))


@dataclass(frozen=True, slots=True)
class SimulatedCard:
    """A card of the fleet."""

    node: str
    model: CardModel
    device: Device

    @property
    def slots(self) -> tuple[MigInstance | None, ...]:
        """What a tenant can hold: the instances of a card in MIG mode, else the card itself (None)."""
        return self.device.instances if self.device.mig_enabled else (None,)

    @property
    def usable_bytes(self) -> int:
        """What a tenant of the whole card may use."""
        return self.device.vram_total_bytes - self.device.vram_reserved_bytes


@dataclass(frozen=True)
class Fleet:
    """The cards of every node, by index; `seed` made their UUIDs."""

    seed: int
    nodes: Mapping[str, tuple[SimulatedCard, ...]]

    @cached_property
    def cards(self) -> dict[str, SimulatedCard]:
        """Every card by UUID."""
        return {card.device.uuid: card for cards in self.nodes.values() for card in cards}

    def devices(self, node: str) -> tuple[Device, ...]:
        """The inventory of a node. Raises InputError for a node that is not in the fleet."""
        if node not in self.nodes:
            raise InputError(f"cannot simulate the node {node!r}: use one of {', '.join(self.nodes)}")
        return tuple(card.device for card in self.nodes[node])

    def inventory(self, node: str, observed_s: int) -> Inventory:
        """What the node reports of itself in that second."""
        return Inventory(observed_s, self.devices(node))


def demo_fleet(seed: int) -> Fleet:
    """The fleet of the demo: `sim-4090-a`, `sim-4090-b`, `sim-h100`."""
    nodes = {
        node: tuple(_card(seed, node, index, RTX_4090) for index in range(8)) for node in ("sim-4090-a", "sim-4090-b")
    }
    layouts = ((), (), _MIXED, _SEVENTHS)
    nodes["sim-h100"] = tuple(_card(seed, "sim-h100", index, H100_80G, layout) for index, layout in enumerate(layouts))
    return Fleet(seed, nodes)


def stable_number(seed: int, *parts: object) -> int:
    """A number below 2^64 that looks random and is always the same for the same parts."""
    return int.from_bytes(_digest(seed, *parts)[:8])


def _card(
    seed: int, node: str, index: int, model: CardModel, layout: tuple[tuple[str, int, int], ...] = ()
) -> SimulatedCard:
    uuid = _uuid("GPU", seed, node, index)
    device = Device(
        uuid=uuid,
        index=index,
        model=model.name,
        vram_total_bytes=model.vram_total_mib * MIB,
        vram_reserved_bytes=model.vram_reserved_mib * MIB,
        mig_enabled=bool(layout),
        sm_count=H100_80.full_card.sm_count if layout else None,
        pci_bus_id=f"00000000:{0x10 + index:02X}:00.0",
        driver_version=DRIVER_VERSION,
        instances=tuple(
            _instance(seed, uuid, H100_80.profile(profile), start, gi_id) for profile, start, gi_id in layout
        ),
    )
    return SimulatedCard(node, model, device)


def _instance(seed: int, gpu_uuid: str, profile: MigProfile, start: int, gi_id: int) -> MigInstance:
    return MigInstance(
        uuid=_uuid("MIG", seed, gpu_uuid, start),
        gi_id=gi_id,
        profile=profile.name,
        start=start,
        slices=profile.slices,
        sm_count=profile.sm_count,
        vram_bytes=profile.vram_bytes,
    )


def _uuid(kind: str, seed: int, *parts: object) -> str:
    return f"{kind}-{UUID(bytes=_digest(seed, kind, *parts)[:16])}"


def _digest(seed: int, *parts: object) -> bytes:
    return blake2b("\x1f".join(str(part) for part in (seed, *parts)).encode(), digest_size=16).digest()
