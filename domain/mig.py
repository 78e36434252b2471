"""MIG geometry: which GPU instances fit on a card, and what could still be placed beside those that exist.

The table serves placement and simulation; what an instance is billed by is what its hardware reports. Starts
and sizes are those of `nvidia-smi mig -lgipp`, SM counts and sizes in bytes those of `nvidia-smi mig -lgip`
(A100, A30, H100 80GB HBM3 and H100 PCIe as their drivers print them; H200 from NVIDIA/mig-parted issue 120,
its starts those of every Hopper card seen). Drivers of other versions report sizes that differ by some MiB.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

from domain.errors import InputError
from domain.inventory import MigInstance
from domain.units import MIB

# No card has more memory slices; the bit above them stands for the one media extension a card has, so that
# "overlaps" is one test for slices and extension alike.
SLICES_MAX = 8
_MEDIA_BIT = 1 << SLICES_MAX
_MEDIA_SUFFIX = "+me"


@dataclass(frozen=True, slots=True)
class MigProfile:
    """A kind of GPU instance of one card model.

    `starts` are the memory slices it may begin at, `slices` how many it covers from there. `compute_slices`
    of a legal set never exceed the card's seven (four on A30) where its memory slices do not overlap, so no
    rule here looks at them. `sm_count` and `vram_bytes` are what one such instance offers.
    """

    name: str
    slot: str
    starts: tuple[int, ...]
    slices: int
    compute_slices: int
    sm_count: int
    vram_bytes: int


@dataclass(frozen=True, slots=True)
class Placement:
    """A profile at one of its starts."""

    profile: MigProfile
    start: int

    @property
    def taken(self) -> int:
        """The bits it takes, in the sense of `taken_by`."""
        return _bits(self.profile.name, self.start, self.profile.slices)


@dataclass(frozen=True, eq=False)
class MigGeometry:
    """Every profile of one family of cards. There is one object per family, compared by identity."""

    key: str
    profiles: tuple[MigProfile, ...]

    @property
    def full_card(self) -> MigProfile:
        """The profile that is the whole card; its SM count is the card's compute units in MIG mode."""
        return max(self.profiles, key=lambda profile: profile.slices)

    def profile(self, name: str) -> MigProfile:
        """The profile of that name, such as '1g.10gb'; InputError where the family has none."""
        for profile in self.profiles:
            if profile.name == name:
                return profile
        known = ", ".join(profile.name for profile in self.profiles)
        raise InputError(f"cannot find the MIG profile {name!r} on {self.key}: use one of {known}")


@dataclass(frozen=True, slots=True)
class Placeable:
    """The most that could still be placed: SMs and bytes maximised apart, so not by the same placements."""

    sm_count: int
    vram_bytes: int


def taken_by(instances: Iterable[MigInstance]) -> int:
    """The bitmask of what the instances of one card take: bit i is memory slice i, bit 8 the media extension.

    Raises InputError for what no card can hold: a slice outside 0..7, an empty instance, two that overlap.
    """
    taken = 0
    for instance in instances:
        start, slices = instance.start, instance.slices
        if start < 0 or slices < 1 or start + slices > SLICES_MAX:
            raise InputError(
                f"cannot place MIG instance {instance.uuid!r} on memory slices {start}:{slices}: a card has "
                f"slices 0 to {SLICES_MAX - 1}; report the inventory again"
            )
        bits = _bits(instance.profile, start, slices)
        if taken & bits:
            raise InputError(
                f"cannot place MIG instance {instance.uuid!r} ({instance.profile} at {start}:{slices}): it "
                "overlaps another on the card; report the inventory again"
            )
        taken |= bits
    return taken


def free_placements(taken: int, profile: MigProfile) -> tuple[Placement, ...]:
    """Where another instance of the profile fits beside what is taken (see `taken_by`), by rising start."""
    placements = (Placement(profile, start) for start in profile.starts)
    return tuple(placement for placement in placements if not taken & placement.taken)


def largest_placeable(geometry: MigGeometry, offered: Iterable[str], taken: int) -> Placeable:
    """The largest totals that instances of the offered profiles could add with everything taken staying put.

    Exact. Compute and VRAM are maximised apart: on an empty H100 sold as 1g.10gb and 1g.20gb, six of the first
    with one of the second give the most SMs, four of the second the most bytes. Raises InputError for an offered
    profile the family lacks.
    """
    return _largest(geometry, tuple(sorted(set(offered))), taken)


@cache
def _largest(geometry: MigGeometry, offered: tuple[str, ...], taken: int) -> Placeable:
    sm_count = vram_bytes = 0
    for name in offered:
        profile = geometry.profile(name)
        for placement in free_placements(taken, profile):
            rest = _largest(geometry, offered, taken | placement.taken)
            sm_count = max(sm_count, profile.sm_count + rest.sm_count)
            vram_bytes = max(vram_bytes, profile.vram_bytes + rest.vram_bytes)
    return Placeable(sm_count, vram_bytes)


def geometry_of(model: str, vram_total_bytes: int | None) -> MigGeometry | None:
    """The geometry of the card the driver calls `model`, such as 'NVIDIA H100 80GB HBM3'.

    None where the family is not known for certain: another name, or a size that does not hold the family's
    full-card instance, or is over a tenth larger. A size of None is one that a record does not tell.
    """
    geometry = _BY_MODEL.get(model.removeprefix("NVIDIA "))
    if geometry is None or vram_total_bytes is None:
        return geometry
    full_bytes = geometry.full_card.vram_bytes
    return geometry if full_bytes <= vram_total_bytes <= full_bytes + full_bytes // 10 else None


def _bits(profile_name: str, start: int, slices: int) -> int:
    media = _MEDIA_BIT if profile_name.endswith(_MEDIA_SUFFIX) else 0
    return ((1 << slices) - 1) << start | media


# slot -> (starts, memory slices, compute slices)
_Layout = dict[str, tuple[tuple[int, ...], int, int]]

_EIGHT_SLICES: _Layout = {
    "1g": ((0, 1, 2, 3, 4, 5, 6), 1, 1),
    "1g+me": ((0, 1, 2, 3, 4, 5, 6), 1, 1),
    "1g double memory": ((0, 2, 4, 6), 2, 1),
    "2g": ((0, 2, 4), 2, 2),
    "3g": ((0, 4), 4, 3),
    "4g": ((0,), 4, 4),
    "7g": ((0,), 8, 7),
}
_FOUR_SLICES: _Layout = {
    "1g": ((0, 1, 2, 3), 1, 1),
    "1g+me": ((0, 1, 2, 3), 1, 1),
    "2g": ((0, 2), 2, 2),
    "2g+me": ((0, 2), 2, 2),
    "4g": ((0,), 4, 4),
}


def _geometry(key: str, layout: _Layout, sold: dict[str, tuple[str, int, int]]) -> MigGeometry:
    """`sold` is slot -> (profile name, SMs, MiB)."""
    return MigGeometry(
        key,
        tuple(
            MigProfile(name, slot, *layout[slot], sm_count, vram_mib * MIB)
            for slot, (name, sm_count, vram_mib) in sold.items()
        ),
    )


A100_40 = _geometry(
    "A100-40",
    _EIGHT_SLICES,
    {
        "1g": ("1g.5gb", 14, 4_864),
        "1g+me": ("1g.5gb+me", 14, 4_864),
        "1g double memory": ("1g.10gb", 14, 9_856),
        "2g": ("2g.10gb", 28, 9_856),
        "3g": ("3g.20gb", 42, 19_968),
        "4g": ("4g.20gb", 56, 19_968),
        "7g": ("7g.40gb", 98, 40_192),
    },
)
A100_80 = _geometry(
    "A100-80",
    _EIGHT_SLICES,
    {
        "1g": ("1g.10gb", 14, 9_856),
        "1g+me": ("1g.10gb+me", 14, 9_856),
        "1g double memory": ("1g.20gb", 14, 19_968),
        "2g": ("2g.20gb", 28, 19_968),
        "3g": ("3g.40gb", 42, 40_192),
        "4g": ("4g.40gb", 56, 40_192),
        "7g": ("7g.80gb", 98, 80_384),
    },
)
H100_80 = _geometry(
    "H100-80",
    _EIGHT_SLICES,
    {
        "1g": ("1g.10gb", 16, 9_984),
        "1g+me": ("1g.10gb+me", 16, 9_984),
        "1g double memory": ("1g.20gb", 26, 20_096),
        "2g": ("2g.20gb", 32, 20_096),
        "3g": ("3g.40gb", 60, 40_448),
        "4g": ("4g.40gb", 64, 40_448),
        "7g": ("7g.80gb", 132, 81_152),
    },
)
# The PCIe card has 114 of the die's SMs, so its instances are smaller though their names are the same.
H100_PCIE_80 = _geometry(
    "H100-PCIE-80",
    _EIGHT_SLICES,
    {
        "1g": ("1g.10gb", 14, 9_984),
        "1g+me": ("1g.10gb+me", 14, 9_984),
        "1g double memory": ("1g.20gb", 14, 20_096),
        "2g": ("2g.20gb", 30, 20_096),
        "3g": ("3g.40gb", 46, 40_448),
        "4g": ("4g.40gb", 62, 40_448),
        "7g": ("7g.80gb", 114, 81_152),
    },
)
H200_141 = _geometry(
    "H200-141",
    _EIGHT_SLICES,
    {
        "1g": ("1g.18gb", 16, 16_384),
        "1g+me": ("1g.18gb+me", 16, 16_384),
        "1g double memory": ("1g.35gb", 26, 33_024),
        "2g": ("2g.35gb", 32, 33_024),
        "3g": ("3g.71gb", 60, 71_168),
        "4g": ("4g.71gb", 64, 71_168),
        "7g": ("7g.141gb", 132, 143_104),
    },
)
A30_24 = _geometry(
    "A30-24",
    _FOUR_SLICES,
    {
        "1g": ("1g.6gb", 14, 5_836),
        "1g+me": ("1g.6gb+me", 14, 5_836),
        "2g": ("2g.12gb", 28, 11_672),
        "2g+me": ("2g.12gb+me", 28, 11_672),
        "4g": ("4g.24gb", 56, 23_344),
    },
)

# The driver's names without the vendor, which drivers before 470 leave out.
_BY_MODEL = {
    "A100-SXM4-40GB": A100_40,
    "A100-PCIE-40GB": A100_40,
    "A100-SXM4-80GB": A100_80,
    "A100 80GB PCIe": A100_80,
    "H100 80GB HBM3": H100_80,
    "H100 PCIe": H100_PCIE_80,
    "H200": H200_141,
    "A30": A30_24,
}
