"""Why a value is missing, in words, and what helps."""

from typing import NamedTuple

from collector.capabilities import CAPABILITIES
from domain.samples import FieldState
from domain.series import OWNER_COMPUTE, OWNER_MEMORY, Series


class Reason(NamedTuple):
    """Words; `remedy` is empty where nothing is wrong, and `is_wrong` whether something is."""

    words: str
    remedy: str = ""
    is_wrong: bool = False


_REASONS = {
    FieldState.NO_PERMISSION: Reason(
        "the driver does not tell it to this user",
        "run the collector as root, or load the driver with NVreg_RestrictProfilingToAdminUsers=0",
        is_wrong=True,
    ),
    FieldState.NOT_READY: Reason("there is no value of this second yet"),
    FieldState.LOST: Reason("the card is lost", "reset it, or reboot the node; see dmesg", is_wrong=True),
    FieldState.ERROR: Reason("the driver answers with an error", "see dmesg", is_wrong=True),
    FieldState.GARBAGE: Reason(
        "the driver says what no card can have", "see dmesg, or change the driver", is_wrong=True
    ),
    FieldState.STALE: Reason("the source repeats an old value", "restart what it comes from", is_wrong=True),
    FieldState.SUSPECT: Reason(
        "the profiler says 0 of a card at work", "restart DCGM, or reset the card", is_wrong=True
    ),
    FieldState.PROFILER_BUSY: Reason("another profiler has the card", "stop it, as by `dcgmi profile --pause`"),
    FieldState.QUIESCED: Reason("the cards are let go of", "take them up by `gputab quiesce --resume`"),
    FieldState.ATTRIBUTION_UNAVAILABLE: Reason(
        "the PIDs that the driver names, or the names of their cgroups, are not those seen here",
        "run the collector in the host's PID and cgroup namespaces, as by --pid=host --cgroupns=host",
        is_wrong=True,
    ),
}


def reason_of(state: FieldState, series: Series) -> Reason:
    """Why a device has no value of the series, of which its source said this."""
    return _REASONS.get(state) or Reason(CAPABILITIES[series].note or "this card or its driver does not tell it")


def untold(series: Series, *, has_instances: bool) -> Reason:
    """Why a source says nothing at all of a series; `has_instances`: of a card in MIG mode."""
    if has_instances and series in (OWNER_MEMORY, OWNER_COMPUTE):
        return Reason("told of each instance")
    return Reason(CAPABILITIES[series].note or "nothing to tell now")
