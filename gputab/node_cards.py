"""The cards of this machine by its driver, and where Linux keeps what a collector wants to know of them."""

from pathlib import Path

from collector.call_times import CallTimes
from collector.node_state import NodeState, node_state_path
from collector.nvml.source import NvmlSource
from collector.owners.processes import ProcessTable
from collector.owners.records import OwnerRecords
from domain.clock import Clock
from settings.gputab import Settings

KERNEL_LOG = Path("/dev/kmsg")
_PROC = Path("/proc")
_BOOT_ID = _PROC / "sys/kernel/random/boot_id"


def open_node_state(data_dir: Path, node: str) -> NodeState:
    """What the node remembers of its cards. Raises UnavailableError where that may not be read."""
    boot = _BOOT_ID.read_text().strip() if _BOOT_ID.exists() else ""
    return NodeState(node_state_path(data_dir, node), boot)


def open_cards(
    config: Settings, clock: Clock, calls: CallTimes, state: NodeState | None = None, *, quiesced: bool = False
) -> NvmlSource:
    """The cards; see `NvmlSource`. Without a `state` nothing is remembered."""
    processes = ProcessTable(_PROC, OwnerRecords(config.owner_records))
    give_up_s = config.driver_gone_exit_seconds
    return NvmlSource(clock, calls, processes, state or NodeState(None), quiesced=quiesced, give_up_s=give_up_s)
