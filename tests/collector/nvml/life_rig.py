"""A source that lives, with its threads, over the fake driver: what a test waits for takes a second or two."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from collector.node_state import NodeState
from collector.nvml.source import NvmlSource
from collector.quiesce import QuiesceCaller, QuiesceDesk
from domain.errors import UnavailableError
from domain.samples import DeviceReading, FieldState
from domain.series import COLLECTOR_DRIVER_STATE, GPU_UP
from tests.collector.patience import CLOCK, PATIENCE_S, now_s, wait_until

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
    def driver_state(self) -> str:
        """What the driver is to it now, as it says itself."""
        said = [each for each in self.source.values() if each.series is COLLECTOR_DRIVER_STATE and each.value == 1]
        assert len(said) == 1
        return said[0].labels["state"]

    def quiesce(self, patience_s: float = PATIENCE_S) -> None:
        """As `gputab quiesce`: it is over once nothing of the cards is held, or raises UnavailableError."""
        QuiesceCaller(self.folder, NODE, CLOCK).quiesce(patience_s)

    def resume(self) -> None:
        """As `gputab quiesce --resume`."""
        QuiesceCaller(self.folder, NODE, CLOCK).resume(PATIENCE_S)

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


def state_after_a_run(folder: Path, new: New) -> NodeState:
    """What a node remembers of its cards where a collector has run on it and ended."""
    path = folder / "node.json"
    with living(folder, new, NodeState(path)):
        pass
    return NodeState(path)
