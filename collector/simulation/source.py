"""A source whose cards are simulated: one node of the fleet of a world file that is being written."""

import threading
from pathlib import Path

from collector.simulation.world import World
from collector.simulation.world_file import WorldReader
from domain.inventory import Device
from domain.samples import DeviceReading


class SimulatedSource:
    """A `Source` of the cards of `node` in the world of `path`."""

    name = "simulator"

    def __init__(self, path: Path, node: str) -> None:
        """Raises InputError for a node outside the fleet, UnavailableError where the world has not begun."""
        self._node = node
        self._reader = WorldReader(path)
        self._lock = threading.Lock()
        self._looked_s = 0
        self._world = self._reader.world()
        self._world.fleet.devices(node)

    def inventory(self) -> tuple[Device, ...]:
        """The cards of the node; a lost one stays in it."""
        return self._world.fleet.devices(self._node)

    def read(self, gpu_uuid: str, second_s: int) -> list[DeviceReading]:
        """What the card says in that second, by what the file says of it now."""
        return self._world_at(second_s).readings(gpu_uuid, second_s)

    def close(self) -> None:
        """Nothing is held open."""

    def _world_at(self, second_s: int) -> World:
        """The world with every line there was when the second began; the first card that asks looks."""
        with self._lock:
            if second_s != self._looked_s:
                self._world = self._reader.world()
                self._looked_s = second_s
            return self._world
