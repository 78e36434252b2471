"""What happens to cards and driver while somebody watches: faults, loss, reload, exchange, events."""

import os
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pynvml

from tests.fakes.nvml.places import Places
from tests.fakes.nvml.state import CARDS, EVENTS, FAULTS, NONE


@dataclass(frozen=True)
class Open:
    """What processes that live hold open."""

    inits: int
    event_sets: int
    system_event_sets: int
    gpm_samples: int


class FaultInForce:
    """A fault as it was set: what it did, and its end."""

    def __init__(self, driver: "Lifecycle", row: int) -> None:
        self._driver, self._fault = driver, driver.world.faults[row]
        self._tag = self._fault.tag

    @property
    def calls(self) -> int:
        """How many calls it could have struck."""
        return int(self._fault.calls)

    @property
    def hits(self) -> int:
        """How many it struck."""
        return int(self._fault.hits)

    @property
    def waiting(self) -> int:
        """How many threads hang in it now."""
        return int(self._fault.waiting)

    def take_back(self) -> None:
        """End it: calls that hang go on."""
        if self._fault.tag == self._tag:
            with self._driver.state.writing():
                self._fault.exists = 0
            self._driver.library.fake_wake()


class Lifecycle(Places):
    """The part of the fake driver that breaks it and mends it."""

    def fault(
        self,
        code: int,
        call: str = "",
        uuid: str | None = None,
        *,
        entry: int = NONE,
        garbage: int | None = None,
        hang: bool = False,
        delay_us: int = 0,
        after: int = 0,
        times: int = 0,
        probability: float = 0,
        seed: int = 0,
    ) -> FaultInForce:
        """Let a call (all, where empty) of a card or MIG device (any, where None) answer with `code`.

        `garbage` is a pattern of 64 bits that takes the place of what a call that succeeds says. The first `after`
        calls are spared, `times` are struck (0: all), each with that probability of a series that `seed` fixes.
        `entry` strikes one field, metric, sensor or sample kind instead of the whole call. The first fault that was
        set and matches wins. A code of 0 with nothing else takes all faults back.
        """
        world = self.world
        if not (code or garbage is not None or hang or delay_us):
            self.clear_faults()
            return FaultInForce(self, 0)  # of a row that is not in force: it does nothing more
        slot, place = (NONE, NONE) if uuid is None else self.place(uuid)
        with self.state.writing():
            row = next(row for row in range(FAULTS) if not world.faults[row].exists)
            fault = world.faults[row]
            fault.tag += 1
            fault.calls = fault.hits = fault.waiting = 0
            fault.call, fault.slot, fault.row, fault.entry = call.encode(), slot, place, entry
            fault.code, fault.hangs, fault.delay_us = code, int(hang), delay_us
            fault.has_garbage, fault.garbage = int(garbage is not None), garbage or 0
            fault.after, fault.times, fault.per_million, fault.seed = after, times, round(probability * 10**6), seed
            fault.exists = 1
            world.fault_count = max(world.fault_count, row + 1)
        return FaultInForce(self, row)

    def clear_faults(self) -> None:
        """Take all faults back: calls that hang go on."""
        with self.state.writing() as world:
            for row in range(world.fault_count):
                world.faults[row].exists = 0
            world.fault_count = 0
        self.library.fake_wake()

    def lose(self, uuid: str, code: int = pynvml.NVML_ERROR_GPU_IS_LOST) -> None:
        """Let a card fall off the bus with all that is on it."""
        with self.state.writing():
            self.card_of(uuid).lost_code = code

    def find(self, uuid: str) -> None:
        """Let a card that was lost be back."""
        with self.state.writing():
            self.card_of(uuid).lost_code = 0

    def remove(self, uuid: str) -> None:
        """Take a card out: there is one less, and the indexes behind it shift."""
        with self.state.writing():
            self.card_of(uuid).exists = 0
        self.system_event(uuid, pynvml.nvmlSystemEventTypeGpuDriverUnbind)

    def plug(self, uuid: str) -> None:
        """Put a card back that was taken out."""
        with self.state.writing():
            self.card_of(uuid).exists = 1
        self.system_event(uuid, pynvml.nvmlSystemEventTypeGpuDriverBind)

    def unload(self, code: int = pynvml.NVML_ERROR_DRIVER_NOT_LOADED) -> None:
        """Let every call answer that the driver is not there."""
        with self.state.writing() as world:
            world.driver_code = code
        self.library.fake_wake()

    def load(self) -> None:
        """Load the driver again: handles of before are void until a new initialisation, and counters start at 0."""
        cards = [slot for slot in range(CARDS) if self.world.cards[slot].exists]
        energies = {slot: int(self.library.fake_millijoules(slot)) for slot in cards}
        with self.state.writing() as world:
            world.driver_code = 0
            world.load += 1
            for slot, millijoules in energies.items():
                card = world.cards[slot]
                # What a simulated card used goes on from where it was; the counter is modulo 2^64.
                card.millijoules = (card.millijoules - millijoules) % 2**64
                card.ecc_corrected[0] = card.ecc_uncorrected[0] = 0
                card.perf_policy_ns[:] = [0] * len(card.perf_policy_ns)
                card.clock_event_ns[:] = [0] * len(card.clock_event_ns)

    def exchange(self, driver_version: str) -> None:
        """Put another driver in place: a library that is loaded answers with a version mismatch for ever."""
        with self.state.writing() as world:
            world.generation += 1
            world.driver_version = driver_version.encode()
            world.nvml_version = f"13.{driver_version}".encode()
        self.library.fake_wake()

    def event(self, uuid: str, event_type: int, data: int = 0, *, gi_id: int = NONE, ci_id: int = NONE) -> None:
        """Let something happen to a card: an XID is type 8 with its number as data."""
        self._happen(type=event_type, data=data, slot=self.place(uuid)[0], gi_id=gi_id, ci_id=ci_id, is_system=0)

    def system_event(self, uuid: str, event_type: int) -> None:
        """Let the driver say that it let go of a card or took it."""
        self._happen(type=event_type, slot=self.place(uuid)[0], is_system=1)

    def _happen(self, **fields: Any) -> None:
        with self.state.writing() as world:
            event = world.events[world.event_count % EVENTS]
            for name, value in {"data": 0, "gi_id": NONE, "ci_id": NONE, "at_us": self.now_us(), **fields}.items():
                setattr(event, name, value)
            world.event_count += 1
        self.library.fake_wake()

    def calls(self, name: str) -> int:
        """How often a call was made, by whatever process."""
        return sum(int(tally.calls) for tally in self.world.tallies if tally.call == name.encode())

    def opened(self) -> Open:
        """What is open now; a process that ended has let go of everything, however it ended."""
        living = [client for client in self.world.clients if client.pid and _lives(client.pid)]
        return Open(
            inits=sum(client.inits for client in living),
            event_sets=sum(client.event_sets for client in living),
            system_event_sets=sum(client.system_event_sets for client in living),
            gpm_samples=sum(client.gpm_samples for client in living),
        )


def _lives(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False
