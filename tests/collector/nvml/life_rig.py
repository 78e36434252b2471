"""A source that lives, with its threads, over the fake driver: what a test waits for takes a second or two."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from collector.node_state import NodeState
from collector.nvml.driver_life import DriverStatus
from collector.nvml.source import NvmlSource
from collector.quiesce import QuiesceDesk
from domain.errors import UnavailableError
from domain.samples import DeviceReading, FieldState
from domain.series import GPU_UP
from tests.collector.patience import now_s, wait_until

NODE = "node-1"

New = Callable[..., NvmlSource]


class LiveSource:
    """A source at work: its desk, the kernel's log that it listens to, and what it says of a card."""

    def __init__(self, folder: Path, new: New, state: NodeState | None = None, *, quiesced: bool = False) -> None:
        self.folder = folder
        self.desk = QuiesceDesk(folder, NODE)
        self.kernel_log = folder / "kmsg"
        self.kernel_log.touch()
        self.source = new(state, quiesced=quiesced)
        self.source.start(self.desk, self.kernel_log)

    def look(self) -> None:
        """Let the look of every 5 s be now."""
        self.source._watch.look_soon()

    @property
    def status(self) -> DriverStatus:
        """What the driver is to it now."""
        return self.source._life.status()

    def card(self, uuid: str) -> DeviceReading:
        """What the card itself says now."""
        return self.source.read(uuid, now_s())[0]

    def is_up(self, uuid: str) -> int | float | FieldState | str | None:
        """1, 0, or why it cannot be told; `mute` where it gives no answer."""
        try:
            reading = self.card(uuid)
        except UnavailableError:
            return "mute"
        value = reading.values.get(GPU_UP)
        return reading.missing.get(GPU_UP) if value is None else value

    def wait_for(self, uuid: str, up: int | FieldState | str) -> None:
        """Wait until the card is so."""
        wait_until(lambda: self.is_up(uuid) == up)


@contextmanager
def living(folder: Path, new: New, state: NodeState | None = None, *, quiesced: bool = False) -> Iterator[LiveSource]:
    """Let a source live for as long as the block."""
    live = LiveSource(folder, new, state, quiesced=quiesced)
    try:
        yield live
    finally:
        live.source.close()
