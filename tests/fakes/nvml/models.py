"""Cards as their drivers present them: sizes, and which questions each answers."""

from dataclasses import dataclass
from enum import IntFlag, auto

from domain.mig import A100_80, H100_80, H200_141, MigGeometry
from domain.units import MIB


class Can(IntFlag):
    """What a card can tell; the rest is answered by NOT_SUPPORTED. In the order of `library/driver.h`."""

    UTILIZATION = auto()
    PROCESS_UTILIZATION = auto()
    SAMPLES = auto()
    POWER = auto()
    POWER_FIELDS = auto()
    ENERGY = auto()
    MEMORY = auto()
    MEMORY_TEMPERATURE = auto()
    CLOCK_EVENTS = auto()
    CLOCK_EVENT_COUNTERS = auto()
    PERF_POLICY = auto()
    PCIE_COUNTERS = auto()
    PCIE_THROUGHPUT = auto()
    ECC = auto()
    ROW_REMAP = auto()
    RETIRED_PAGES = auto()
    RECOVERY_ACTION = auto()
    NVLINK = auto()
    NVLINK_BYTES = auto()
    GPM = auto()
    GPM_COUNTERS = auto()
    GPM_STREAMING = auto()
    MIG = auto()
    ACCOUNTING = auto()
    NUMA = auto()
    VGPU = auto()
    JPEG_OFA = auto()
    EVENTS = auto()
    SERIAL = auto()


EVERYTHING = Can((1 << len(Can)) - 1)
# What every card since Turing tells.
_BASE = (
    Can.UTILIZATION
    | Can.PROCESS_UTILIZATION
    | Can.SAMPLES
    | Can.POWER
    | Can.POWER_FIELDS
    | Can.ENERGY
    | Can.MEMORY
    | Can.CLOCK_EVENTS
    | Can.PERF_POLICY
    | Can.PCIE_THROUGHPUT
    | Can.ACCOUNTING
    | Can.EVENTS
)
_DATA_CENTRE = _BASE | Can.ECC | Can.RECOVERY_ACTION | Can.NUMA | Can.SERIAL | Can.JPEG_OFA
_AMPERE = _DATA_CENTRE | Can.MEMORY_TEMPERATURE | Can.ROW_REMAP | Can.NVLINK | Can.MIG
_HOPPER = (
    _AMPERE | Can.CLOCK_EVENT_COUNTERS | Can.PCIE_COUNTERS | Can.NVLINK_BYTES | Can.GPM | Can.GPM_STREAMING
)  # the counters of GPM are of newer drivers than 590


@dataclass(frozen=True)
class Model:
    """A kind of card. Watts are at idle and at the limit; the numbers of `architecture` are NVML's."""

    name: str
    abilities: Can
    total_bytes: int
    reserved_bytes: int
    architecture: int
    compute_capability: tuple[int, int]
    sms: int
    idle_milliwatts: int
    limit_milliwatts: int
    sm_megahertz: int
    memory_megahertz: int
    links: int = 0
    geometry: MigGeometry | None = None

    def card_fields(self) -> dict[str, int]:
        """Members of the state's card."""
        major, minor = self.compute_capability
        return {
            "abilities": int(self.abilities),
            "total": self.total_bytes,
            "reserved": self.reserved_bytes,
            "architecture": self.architecture,
            "compute_major": major,
            "compute_minor": minor,
            "sms": self.sms,
            "idle_milliwatts": self.idle_milliwatts,
            "dynamic_milliwatts": self.limit_milliwatts - self.idle_milliwatts,
            "limit_milliwatts": self.limit_milliwatts,
            "milliwatts": self.idle_milliwatts,
            "sm_megahertz": self.sm_megahertz,
            "memory_megahertz": self.memory_megahertz,
            "ecc_mode": int(Can.ECC in self.abilities),
            "link_count": self.links,
            "full_card_sms": 0 if self.geometry is None else self.geometry.full_card.sm_count,
        }


_TURING, _AMPERE_CHIP, _ADA, _HOPPER_CHIP = 6, 7, 8, 9

RTX_4090 = Model(
    "NVIDIA GeForce RTX 4090", _BASE | Can.JPEG_OFA, 24_564 * MIB, 340 * MIB, _ADA, (8, 9), 128, 22_000, 450_000,
    2_520, 10_501,
)  # fmt: skip
L40S = Model(
    "NVIDIA L40S", _DATA_CENTRE | Can.ROW_REMAP | Can.VGPU, 46_068 * MIB, 609 * MIB, _ADA, (8, 9), 142, 33_000, 350_000,
    2_520, 9_001,
)  # fmt: skip
T4 = Model(
    "Tesla T4", _DATA_CENTRE & ~Can.JPEG_OFA | Can.RETIRED_PAGES | Can.VGPU, 15_360 * MIB, 448 * MIB, _TURING, (7, 5),
    40, 10_000, 70_000, 1_590, 5_001,
)  # fmt: skip
A100 = Model(
    "NVIDIA A100-SXM4-80GB", _AMPERE, 81_920 * MIB, 863 * MIB, _AMPERE_CHIP, (8, 0), 108, 60_000, 400_000, 1_410,
    1_593, 12, A100_80,
)  # fmt: skip
H100 = Model(
    "NVIDIA H100 80GB HBM3", _HOPPER, 81_559 * MIB, 479 * MIB, _HOPPER_CHIP, (9, 0), 132, 70_000, 700_000, 1_980,
    2_619, 18, H100_80,
)  # fmt: skip
H200 = Model(
    "NVIDIA H200", _HOPPER, 143_771 * MIB, 614 * MIB, _HOPPER_CHIP, (9, 0), 132, 75_000, 700_000, 1_980, 3_201, 18,
    H200_141,
)  # fmt: skip

MODELS = {model.name: model for model in (RTX_4090, L40S, T4, A100, H100, H200)}


def model_named(name: str) -> Model:
    """The model of that name, or one that can all there is in the size of a 4090."""
    known = MODELS.get(name)
    if known is not None:
        return known
    return Model(
        name,
        EVERYTHING,
        RTX_4090.total_bytes,
        RTX_4090.reserved_bytes,
        _HOPPER_CHIP,
        (9, 0),
        132,
        50_000,
        500_000,
        0,
        0,
    )
