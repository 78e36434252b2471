"""What each family of cards can tell, and by which of the driver's words: the one place that says so.

It is what the vendor's headers, documents and captures lead to expect, for people. What a card tells in fact is found
by asking it.
"""

from enum import StrEnum
from typing import NamedTuple

from domain.series import (
    GPU_BASIS_INFO,
    GPU_BUSY,
    GPU_CLOCK_EVENT,
    GPU_COMPUTE,
    GPU_DECODER_BUSY,
    GPU_DRAM_ACTIVE,
    GPU_ECC_CORRECTED,
    GPU_ECC_UNCORRECTED,
    GPU_ENCODER_BUSY,
    GPU_ENERGY,
    GPU_FIELD_STATE,
    GPU_FP16_ACTIVE,
    GPU_FP32_ACTIVE,
    GPU_FP64_ACTIVE,
    GPU_GR_ACTIVE,
    GPU_INFO,
    GPU_JPEG_BUSY,
    GPU_LAST_XID,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TEMPERATURE,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_NVLINK_RECEIVED,
    GPU_NVLINK_TRANSMITTED,
    GPU_OFA_BUSY,
    GPU_PCIE_RECEIVED,
    GPU_PCIE_TRANSMITTED,
    GPU_POWER,
    GPU_POWER_INSTANT,
    GPU_RECOVERY_ACTION,
    GPU_REMAPPED_ROWS,
    GPU_ROW_REMAP_FAILED,
    GPU_ROW_REMAP_PENDING,
    GPU_SM_ACTIVE,
    GPU_SM_ACTIVE_CYCLES,
    GPU_SM_CLOCK,
    GPU_SM_ELAPSED_CYCLES,
    GPU_SM_OCCUPANCY,
    GPU_TEMPERATURE,
    GPU_TENSOR_ACTIVE,
    GPU_THROTTLE,
    GPU_TOPOLOGY_LINK,
    GPU_UP,
    GPU_VGPU_BUSY,
    GPU_VGPU_MEMORY,
    GPU_XID_EVENTS,
    MIG_INFO,
    OWNER_COMPUTE,
    OWNER_MEMORY,
    Series,
)


class Family(StrEnum):
    """Cards, and MIG instances of cards, that tell the same."""

    GEFORCE = "RTX 3090, 4090"
    GEFORCE_BLACKWELL = "RTX 5090"
    AMPERE = "A100, A30, L40S"
    HOPPER = "H100, H200, B200"
    AMPERE_INSTANCE = "MIG of A100, A30"
    HOPPER_INSTANCE = "MIG of H100 on"


class Told(StrEnum):
    """Whether a family tells a series."""

    YES = "yes"
    SOME = "some"
    DCGM = "by DCGM"
    NO = "no"


class Capability(NamedTuple):
    """One series: by which words of NVML it is told, by which families (in their order), and what limits it.

    `dcgm` is where it comes from on a node that is read by DCGM, if that is none of DCGM's fields.
    """

    nvml: str
    told: tuple[Told, Told, Told, Told, Told, Told]
    note: str = ""
    dcgm: str = ""

    def of(self, family: Family) -> Told:
        """Whether that family tells it."""
        return self.told[list(Family).index(family)]


def family_of(model: str, architecture: str, *, is_instance: bool) -> Family:
    """The family of a card, or of a MIG instance on it, by its model's name and its architecture's."""
    is_new = architecture.lower() not in _BEFORE_HOPPER
    if is_instance:
        return Family.HOPPER_INSTANCE if is_new else Family.AMPERE_INSTANCE
    if "geforce" in model.lower():
        return Family.GEFORCE_BLACKWELL if is_new else Family.GEFORCE
    return Family.HOPPER if is_new else Family.AMPERE


_BEFORE_HOPPER = frozenset({"kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada"})

_YES, _SOME, _DCGM, _NO = Told.YES, Told.SOME, Told.DCGM, Told.NO
_ALL = (_YES, _YES, _YES, _YES, _YES, _YES)
_CARDS = (_YES, _YES, _YES, _YES, _NO, _NO)
_PROFILED = (_NO, _SOME, _DCGM, _YES, _DCGM, _YES)
_CYCLES = (_NO, _SOME, _NO, _SOME, _NO, _SOME)
_SOME_AND_NEW_INSTANCES = (_SOME, _SOME, _SOME, _SOME, _NO, _SOME)
_SERVERS_AND_SOME = (_SOME, _SOME, _YES, _YES, _NO, _NO)
_SERVERS = (_NO, _NO, _YES, _YES, _NO, _NO)
_SOME_SERVERS = (_NO, _NO, _SOME, _SOME, _NO, _NO)

_PROFILING = "measured from Hopper and GeForce Blackwell on; before, on data-centre cards, by DCGM's profiling module"
_NOT_WITH_MIG = "told neither of an instance nor of a card in MIG mode"
_WHOLE_CARD = "told of the whole card only"
_COUNTED = "only where the driver counts it (of an instance by GPM): the call that takes 20 ms is not made"
_LINKED = "only cards that have links tell it (SXM, NVL), for the whole card"
_VGPU_HOSTS = "only hosts of virtual GPUs tell it"
_CORRECTS = "only where error correction is on, for the whole card"
_HOSTS_NAMESPACES = "only in the host's PID and cgroup namespaces"
_REMAPS = "only cards that can replace rows tell it"

CAPABILITIES: dict[Series, Capability] = {
    GPU_UP: Capability("any answer", _ALL, dcgm="any value that is new"),
    GPU_BUSY: Capability("GetSamples (GPU_UTILIZATION), else GetUtilizationRates", _CARDS, _NOT_WITH_MIG),
    GPU_MEMORY_BUSY: Capability("GetSamples (MEMORY_UTILIZATION), else GetUtilizationRates", _CARDS, _NOT_WITH_MIG),
    GPU_COMPUTE: Capability(
        "the best of the others",
        (_YES, _YES, _YES, _YES, _DCGM, _YES),
        "as far as one of them is told",
        "the best of the others",
    ),
    GPU_SM_ACTIVE: Capability("GPM 2", _PROFILED, _PROFILING),
    GPU_SM_OCCUPANCY: Capability("GPM 3", _PROFILED, _PROFILING),
    GPU_GR_ACTIVE: Capability("GPM 1", _PROFILED, _PROFILING),
    GPU_TENSOR_ACTIVE: Capability("GPM 5", _PROFILED, _PROFILING),
    GPU_DRAM_ACTIVE: Capability("GPM 10", _PROFILED, _PROFILING),
    GPU_FP64_ACTIVE: Capability("GPM 11", _PROFILED, _PROFILING),
    GPU_FP32_ACTIVE: Capability("GPM 12", _PROFILED, _PROFILING),
    GPU_FP16_ACTIVE: Capability("GPM 13", _PROFILED, _PROFILING),
    GPU_SM_ACTIVE_CYCLES: Capability("GPM 249", _CYCLES, "only the newest drivers count it"),
    GPU_SM_ELAPSED_CYCLES: Capability("GPM 248", _CYCLES, "only the newest drivers count it"),
    GPU_ENCODER_BUSY: Capability("GetEncoderUtilization", _CARDS, _NOT_WITH_MIG),
    GPU_DECODER_BUSY: Capability("GetDecoderUtilization", _CARDS, _NOT_WITH_MIG),
    GPU_JPEG_BUSY: Capability("GetJpgUtilization", _CARDS, _NOT_WITH_MIG),
    GPU_OFA_BUSY: Capability("GetOfaUtilization", _CARDS, _NOT_WITH_MIG),
    GPU_MEMORY_TOTAL: Capability("GetMemoryInfo_v2", _ALL),
    GPU_MEMORY_RESERVED: Capability("GetMemoryInfo_v2", _ALL),
    GPU_MEMORY_USED: Capability("GetMemoryInfo_v2", _ALL),
    GPU_POWER: Capability("field 185, else GetPowerUsage", _CARDS, _WHOLE_CARD),
    GPU_POWER_INSTANT: Capability("field 186", _CARDS, _WHOLE_CARD),
    GPU_ENERGY: Capability(
        "GetTotalEnergyConsumption", _CARDS, "told of the whole card only; where it counts none, its power is added up"
    ),
    GPU_TEMPERATURE: Capability("GetTemperature", _CARDS, _WHOLE_CARD),
    GPU_MEMORY_TEMPERATURE: Capability("field 82", _SERVERS, "only cards with HBM tell it"),
    GPU_SM_CLOCK: Capability("GetClockInfo", _CARDS, _WHOLE_CARD),
    GPU_MEMORY_CLOCK: Capability("GetClockInfo", _CARDS, _WHOLE_CARD),
    GPU_PCIE_RECEIVED: Capability("field 198, else GPM 256 or 21", _SOME_AND_NEW_INSTANCES, _COUNTED),
    GPU_PCIE_TRANSMITTED: Capability("field 197, else GPM 255 or 20", _SOME_AND_NEW_INSTANCES, _COUNTED),
    GPU_NVLINK_RECEIVED: Capability("fields 139 or 204, by link", _SOME_SERVERS, _LINKED),
    GPU_NVLINK_TRANSMITTED: Capability("fields 138 or 202, by link", _SOME_SERVERS, _LINKED),
    GPU_VGPU_BUSY: Capability("GetVgpuUtilization", _SOME_SERVERS, _VGPU_HOSTS),
    GPU_VGPU_MEMORY: Capability("VgpuInstanceGetFbUsage", _SOME_SERVERS, _VGPU_HOSTS),
    OWNER_MEMORY: Capability(
        "the running processes, and their cgroups", _ALL, _HOSTS_NAMESPACES, "all used memory, as `unattributed`"
    ),
    OWNER_COMPUTE: Capability(
        "GetProcessUtilization, and cgroups",
        (_YES, _YES, _YES, _YES, _NO, _SOME),
        f"{_HOSTS_NAMESPACES}; of an instance the driver samples no process, and a rule splits it",
    ),
    GPU_XID_EVENTS: Capability("its events, and the kernel's log", _CARDS, "told once there was one"),
    GPU_LAST_XID: Capability(
        "", (_DCGM, _DCGM, _DCGM, _DCGM, _NO, _NO), "DCGM alone tells it; count the events instead"
    ),
    GPU_CLOCK_EVENT: Capability("GetCurrentClocksEventReasons", _CARDS, _WHOLE_CARD),
    GPU_THROTTLE: Capability("fields 74 to 81, 269 to 271", _SERVERS_AND_SOME, "as far as the driver counts it"),
    GPU_ECC_CORRECTED: Capability("GetTotalEccErrors", _SERVERS_AND_SOME, _CORRECTS),
    GPU_ECC_UNCORRECTED: Capability("GetTotalEccErrors", _SERVERS_AND_SOME, _CORRECTS),
    GPU_REMAPPED_ROWS: Capability("fields 142, 143", _SERVERS, _REMAPS),
    GPU_ROW_REMAP_PENDING: Capability("field 144", _SERVERS, _REMAPS),
    GPU_ROW_REMAP_FAILED: Capability("field 145", _SERVERS, _REMAPS),
    GPU_RECOVERY_ACTION: Capability(
        "field 230", (_SOME, _SOME, _SOME, _YES, _NO, _NO), "only drivers that know it tell it"
    ),
    GPU_FIELD_STATE: Capability("what it answers instead of a value", _ALL, dcgm="what it tells instead of a value"),
    GPU_BASIS_INFO: Capability("which of several ways it offers", _ALL, dcgm="by which door a value came"),
    GPU_INFO: Capability("its inventory", _CARDS, dcgm="what it tells of the card"),
    MIG_INFO: Capability("its inventory", (_NO, _NO, _NO, _NO, _YES, _YES), dcgm="that it tells of one"),
    GPU_TOPOLOGY_LINK: Capability(
        "GetTopologyCommonAncestor, GetP2PStatus, GetNvLinkRemotePciInfo",
        _CARDS,
        "only where there are two cards or more",
    ),
}
