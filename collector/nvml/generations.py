"""How often the number of a GPU instance has been given out.

Numbers are used again, and so are UUIDs: the next tenant's instance can look like the last one's. What tells them
apart is counted here: it was missed, or it is of another profile, place or set of compute instances.
"""

import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace

from collector.node_state import GivenOut, NodeState
from collector.nvml.mig import Instance
from domain.inventory import MigInstance


class Generations:
    """The numbers given out on each card, as far as the node remembers; safe to use from several threads."""

    def __init__(self, state: NodeState) -> None:
        """`state` remembers them over restarts."""
        self._state = state
        self._lock = threading.Lock()

    def miss(self, gpu_uuid: str, numbers: Iterable[int]) -> None:
        """These are gone; one that is found again is another, whatever it looks like."""
        self._change(gpu_uuid, dict.fromkeys(numbers))

    def miss_all(self) -> None:
        """What is found from here on is new: nobody saw whether it was there all the time."""
        for gpu_uuid, numbers in self._state.remembered.instances.items():
            self.miss(gpu_uuid, numbers)

    def number(self, gpu_uuid: str, found: Sequence[Instance]) -> tuple[MigInstance, ...]:
        """All the instances that are on a card now, each with its generation."""
        there = {each.itself.gi_id: _identity(each) for each in found}
        known = self._state.remembered.instances.get(gpu_uuid, {})
        numbers = self._change(gpu_uuid, dict.fromkeys(known.keys() - there.keys()) | there)
        return tuple(
            replace(each.itself, generation=numbers[each.itself.gi_id].generation)
            for each in sorted(found, key=lambda each: each.itself.gi_id)
        )

    def _change(self, gpu_uuid: str, now: dict[int, str | None]) -> dict[int, GivenOut]:
        """What each number is given out to now; None is to nobody."""
        with self._lock:
            remembered = self._state.remembered.instances
            numbers = dict(remembered.get(gpu_uuid, {}))
            for number, to in now.items():
                before = numbers.get(number)
                if to is None:
                    if before is not None:
                        numbers[number] = replace(before, is_there=False)
                elif before is None or not before.is_there or before.to != to:
                    numbers[number] = GivenOut(before.generation + 1 if before else 1, to, is_there=True)
            if numbers != remembered.get(gpu_uuid, {}):
                self._state.keep(instances={**remembered, gpu_uuid: numbers})
            return numbers


def _identity(found: Instance) -> str:
    itself = found.itself
    compute = ",".join(map(str, sorted(found.compute_sms)))
    return f"{itself.uuid} {itself.profile} {itself.start}+{itself.slices} {compute}"
