"""The fake driver as tests hold it: the library built from C, and its world, changed while others look at it."""

import ctypes
import re
from pathlib import Path

from domain.inventory import MigInstance
from domain.mig import free_placements, taken_by
from domain.units import MIB
from tests.fakes.nvml.build import build
from tests.fakes.nvml.lifecycle import FaultInForce, Lifecycle, Open
from tests.fakes.nvml.measurements import Measurements
from tests.fakes.nvml.models import Can, Model, model_named
from tests.fakes.nvml.places import Value, write
from tests.fakes.nvml.state import CARDS, INSTANCES, Instance

__all__ = ["Can", "FakeDriver", "FaultInForce", "Model", "Open", "build"]

NOT_FOUND = 6
# What a driver of today offers events of: XID, ECC, power state, MIG, recovery action and the like.
_EVENTS = 0xFF9F
# GPU instance ids by memory slices: the first, and how many there are of it.
_GI_IDS = {8: (0, 1), 4: (1, 2), 2: (3, 4), 1: (7, 7)}


class FakeDriver(Measurements, Lifecycle):
    """The library built from C, and its world: cards, what is on them, what is told of them, what goes wrong."""

    def __init__(self, path: Path, state: Path | None = None, driver_version: str = "590.48.01") -> None:
        """Load the library of that path over a world without cards, kept in the file `state`."""
        super().__init__(path, state)
        self._models: dict[int, Model] = {}
        with self.state.writing() as world:
            world.driver_version = driver_version.encode()
            world.nvml_version = f"13.{driver_version}".encode()
            world.cuda_version = 13_010
            world.process_entry_bytes = 24
            world.process_utilization_idle_code = NOT_FOUND

    def card(
        self,
        index: int,
        name: str = "NVIDIA GeForce RTX 4090",
        *,
        model: Model | None = None,
        uuid: str | None = None,
        **fields: Value,
    ) -> str:
        """Put a card in, and say its UUID. `fields` are members of `Card` in `state.py`.

        What it can tell goes by its model, or by its name where that is a model's; any other tells everything.
        Cards are counted by `index`, 0..63; holes among them do not count.
        """
        model = model_named(name) if model is None else model
        uuid = f"GPU-{index:08d}-0000-0000-0000-000000000000" if uuid is None else uuid
        self._slots[uuid], self._models[index] = index, model
        with self.state.writing() as world:
            card = world.cards[index]
            ctypes.memset(ctypes.addressof(card), 0, ctypes.sizeof(card))
            write(card, {**model.card_fields(), **_BY_DEFAULT})
            bus = 0x65 + index
            write(
                card,
                {
                    "uuid": uuid,
                    "name": model.name,
                    "serial": f"16500{index:08d}",
                    "bus_id": f"00000000:{bus:02X}:00.0",
                    "pci_bus": bus,
                    "minor": index,
                    "topology": [50] * CARDS,
                },
            )
            if fields.get("mig_mode"):
                card.abilities |= Can.MIG
                card.mig_mode_pending = 1
            write(card, fields)
            card.exists = 1
        return uuid

    def instance(self, card: int, index: int, profile: str, **fields: Value) -> str:
        """Put a MIG device on a card, at that index of its list, and say its UUID.

        What the fields, members of `Instance` in `state.py`, do not say goes by the card's geometry where that has the
        profile; '2c.3g.40gb' is a compute instance of a 3g.40gb. The UUID depends on the card and the ids of the
        instances alone, so that it comes back when they do. A `ci_id` of NONE is a GPU instance with nothing in it.
        """
        there = self.world.cards[card]
        gi_id = fields.get("gi_id", 0)
        siblings = [each.ci_id for each in there.instances if each.exists and each.gi_id == gi_id]
        ci_id = fields.get("ci_id", next(free for free in range(INSTANCES) if free not in siblings))
        uuid = str(fields.get("uuid", f"MIG-{card:08d}-0000-0000-{gi_id:04d}-{ci_id:012d}"))
        self._rows[uuid] = (card, index)
        sizes = self._sizes(card, profile)
        own: dict[str, Value] = {**sizes, "ci_id": ci_id, **fields}
        if "total" not in own and isinstance(memory_mib := own.get("memory_mib"), int):
            own["total"] = memory_mib * MIB
        with self.state.writing():
            instance = there.instances[index]
            generation = instance.generation + 1
            for member, _ in instance._fields_:
                if member != "gpm":
                    setattr(instance, member, type(getattr(instance, member))())
            for counter in instance.gpm:
                counter.base = counter.rate = counter.since_us = 0
            name = f"{there.name.decode()} MIG {profile}"
            write(instance, {"uuid": uuid, "name": name, "generation": generation, **own})
            instance.exists = 1
        return uuid

    def create_instance(self, card_uuid: str, profile: str) -> str:
        """Make a GPU instance of that profile with one compute instance in it, where the card has room; say its UUID.

        The lowest free id of its size is taken, as drivers do, so that one that was destroyed is used again.
        """
        slot = self._slots[card_uuid]
        card, geometry = self.world.cards[slot], self._models[slot].geometry
        if geometry is None:
            raise ValueError(f"cannot make an instance on {card_uuid!r}: give the card a model that has MIG")
        there = [each for each in card.instances if each.exists]
        taken = taken_by(
            MigInstance("", each.gi_id, _profile_of(each), each.start, each.size, 1, 1)
            for each in _gpu_instances(there)
        )
        placement = free_placements(taken, geometry.profile(profile))[0]
        first, count = _GI_IDS[placement.profile.slices]
        gi_id = next(free for free in range(first, first + count) if free not in {each.gi_id for each in there})
        index = next(free for free in range(INSTANCES) if not card.instances[free].exists)
        return self.instance(slot, index, profile, gi_id=gi_id, start=placement.start)

    def destroy_instance(self, uuid: str) -> None:
        """Take a MIG device away: its handles are void, and its UUID is used again by the next of its ids."""
        self.set(uuid, exists=0)

    def _sizes(self, slot: int, profile: str) -> dict[str, Value]:
        compute, _, gpu = profile.rpartition("c.") if "c." in profile else ("", "", profile)
        slices = int(found[1]) if (found := re.match(r"(\d+)g", gpu)) else 1
        sizes: dict[str, Value] = {"gi_slices": slices, "ci_slices": int(compute or slices)}
        geometry = self._models[slot].geometry
        known = None if geometry is None else next((each for each in geometry.profiles if each.name == gpu), None)
        if known is not None:
            sms = known.sm_count * int(compute or slices) // slices
            sizes |= {"size": known.slices, "sms": sms, "memory_mib": known.vram_bytes // MIB}
        return sizes


def _gpu_instances(rows: list[Instance]) -> list[Instance]:
    return list({row.gi_id: row for row in rows}.values())


def _profile_of(row: Instance) -> str:
    name: bytes = row.name
    return name.decode().rpartition(" MIG ")[2]


_BY_DEFAULT: dict[str, Value] = {
    "celsius": 40,
    "memory_celsius": 45,
    "numa_node": 0,
    "persistence_mode": 1,
    "vbios": "96.00.74.00.01",
    "sample_period_us": 100_000,
    "supported_events": _EVENTS,
    "full_card_profile": 4,
}
