"""Where a card or MIG device lies in the world, by its UUID, and what is written of it."""

import ctypes
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.fakes.nvml.models import Can
from tests.fakes.nvml.state import NONE, Card, Instance, StateFile

Value = int | str | Sequence[int]


class Places:
    """The world of one library and the UUIDs in it."""

    def __init__(self, path: Path, state: Path | None = None) -> None:
        """Load the library of that path, with an empty world in the file `state`, by default beside it."""
        self.path = path
        self.library = ctypes.CDLL(str(path))
        self.library.fake_now_us.restype = self.library.fake_millijoules.restype = ctypes.c_uint64
        self.state = StateFile(path.with_name("fake-nvml.state") if state is None else state)
        self._slots: dict[str, int] = {}
        self._rows: dict[str, tuple[int, int]] = {}
        if self.library.fake_open(str(self.state.path).encode()):
            raise OSError(f"cannot map the state {self.state.path}: build the library again")

    @property
    def world(self) -> Any:
        """The mapped world. To change several things as one, see `StateFile.writing`."""
        return self.state.world

    def env(self) -> dict[str, str]:
        """What the environment of a process needs to see this world when it loads NVML."""
        return {"LD_LIBRARY_PATH": str(self.path.parent), "FAKE_NVML_STATE": str(self.state.path)}

    def place(self, uuid: str) -> tuple[int, int]:
        """The slot of a card and the row of a MIG device on it, NONE for the card itself."""
        if uuid in self._rows:
            return self._rows[uuid]
        return self._slots[uuid], NONE

    def card_of(self, uuid: str) -> Card:
        """The card, also of a MIG device."""
        card: Card = self.world.cards[self.place(uuid)[0]]
        return card

    def at(self, uuid: str) -> Card | Instance:
        """What is written of a card or MIG device."""
        slot, row = self.place(uuid)
        found: Card | Instance = self.world.cards[slot] if row == NONE else self.world.cards[slot].instances[row]
        return found

    def set(self, uuid: str, **fields: Value) -> None:
        """Change members of a card or MIG device, all at once: numbers, texts, or sequences for arrays.

        Their names are in `state.py`.
        """
        with self.state.writing():
            write(self.at(uuid), fields)

    def allow(self, uuid: str, abilities: Can) -> None:
        """Let a card answer what it did not."""
        with self.state.writing():
            self.card_of(uuid).abilities |= int(abilities)

    def deny(self, uuid: str, abilities: Can) -> None:
        """Let a card answer NOT_SUPPORTED where it told something."""
        with self.state.writing():
            self.card_of(uuid).abilities &= ~int(abilities)

    def now_us(self) -> int:
        """The driver's time in epoch microseconds."""
        return int(self.library.fake_now_us())

    def quirks(self, **quirks: int) -> None:
        """Let the driver be a peculiar one. All are numbers; what is normal stands in brackets.

        `process_entry_bytes`: 24, or 32 as some of 535 had it in the third version of the process lists [24].
        `process_utilization_room`: what the sizing call asks for whatever there is, such as 100 [0: what there is].
        `process_utilization_idle_code`: the answer where no process did anything, 0 being SUCCESS [6, NOT_FOUND].
        `process_utilization_stale`: 1 where old entries are told again [0].
        `samples_on_boot_clock`: 1 where stamps of finer samples count from boot, not from the epoch [0].
        `mig_busy_is_zero`: 1 where a card in MIG mode says 0 % instead of NOT_SUPPORTED [0].
        `boot_us`, `shift_us`: the epoch microsecond of boot, and by how much the driver's clock is off [0].
        """
        with self.state.writing() as world:
            write(world, quirks)

    def set_clock(self, now_us: int) -> None:
        """Let the driver's time stand at that microsecond; 0 lets it run again."""
        with self.state.writing() as world:
            world.now_us = now_us


def write(struct: Any, fields: Mapping[str, Value]) -> None:
    """Set members of a struct of the state."""
    for name, value in fields.items():
        if isinstance(value, str):
            setattr(struct, name, value.encode())
        elif isinstance(value, int):
            setattr(struct, name, value)
        else:
            array = getattr(struct, name)
            array[: len(value)] = list(value)
