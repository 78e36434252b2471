from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from domain.errors import InputError
from domain.inventory import MigInstance
from domain.mig import (
    A30_24,
    A100_40,
    A100_80,
    H100_80,
    H100_PCIE_80,
    H200_141,
    MigGeometry,
    MigProfile,
    Placeable,
    Placement,
    free_placements,
    geometry_of,
    largest_placeable,
    taken_by,
)
from domain.units import MIB
from tests.placements import placement_sets

FAMILIES = [A100_40, A100_80, H100_80, H100_PCIE_80, H200_141, A30_24]
EIGHT_SLICE_FAMILIES = [family for family in FAMILIES if family is not A30_24]
each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.key)
each_eight_slice_family = pytest.mark.parametrize("family", EIGHT_SLICE_FAMILIES, ids=lambda family: family.key)


def instance(geometry: MigGeometry, name: str, start: int, uuid: str = "MIG-1") -> MigInstance:
    profile = geometry.profile(name)
    return MigInstance(uuid, start, name, start, profile.slices, profile.sm_count, profile.vram_bytes)


def slots(family: MigGeometry, *names: str) -> list[MigProfile]:
    return [profile for profile in family.profiles if profile.slot in names]


def starts(taken: int, profile: MigProfile) -> list[int]:
    return [placement.start for placement in free_placements(taken, profile)]


def counts(profiles: Sequence[MigProfile]) -> tuple[int, int, int, int]:
    """Placement sets with the empty one, maximal sets, non-empty multisets, maximal multisets."""
    sets = list(placement_sets(profiles))
    maximal_sets = [each for each in sets if not any(starts(bits(each), profile) for profile in profiles)]
    return len(sets), len(maximal_sets), len(multisets(profiles)) - 1, len(maximal_multisets(profiles))


def bits(placements: Sequence[Placement]) -> int:
    return sum(placement.taken for placement in placements)


def multisets(profiles: Sequence[MigProfile]) -> set[frozenset[tuple[str, int]]]:
    return {frozen(each) for each in placement_sets(profiles)}


def frozen(placements: Sequence[Placement]) -> frozenset[tuple[str, int]]:
    return frozenset(Counter(placement.profile.slot for placement in placements).items())


def maximal_multisets(profiles: Sequence[MigProfile]) -> set[frozenset[tuple[str, int]]]:
    """Those to which nothing can be added even if every instance is placed anew."""
    possible = multisets(profiles)
    return {
        each
        for each in possible
        if not any(
            frozenset((Counter(dict(each)) + Counter([profile.slot])).items()) in possible for profile in profiles
        )
    }


@each_eight_slice_family
def test_a_card_of_eight_slices_has_the_known_number_of_placements(family: MigGeometry) -> None:
    """The counts are those of an independent enumeration of the driver's placement table."""
    assert counts(slots(family, "1g", "2g", "3g", "4g", "7g")) == (298, 19, 37, 12)


@each_eight_slice_family
def test_the_double_memory_profile_adds_its_known_placements(family: MigGeometry) -> None:
    assert counts(slots(family, "1g", "1g double memory", "2g", "3g", "4g", "7g")) == (723, 78, 77, 28)


def test_an_a30_has_the_known_number_of_placements() -> None:
    assert counts(slots(A30_24, "1g", "2g", "4g")) == (26, 5, 9, 4)


def test_the_full_cards_are_the_twelve_known_ones() -> None:
    """Among them 4x1g+3g, which published geometry tables forget."""
    named = [
        {"1g": 7},
        {"1g": 5, "2g": 1},
        {"1g": 3, "2g": 2},
        {"1g": 1, "2g": 3},
        {"1g": 4, "3g": 1},
        {"1g": 2, "2g": 1, "3g": 1},
        {"2g": 2, "3g": 1},
        {"1g": 3, "4g": 1},
        {"1g": 1, "2g": 1, "4g": 1},
        {"3g": 2},
        {"3g": 1, "4g": 1},
        {"7g": 1},
    ]
    found = maximal_multisets(slots(A100_80, "1g", "2g", "3g", "4g", "7g"))
    assert found == {frozenset(each.items()) for each in named}


@each_family
def test_no_legal_set_exceeds_the_card(family: MigGeometry) -> None:
    """Compute slices never bind by themselves, and SMs and bytes never exceed the full-card instance."""
    full = family.full_card
    for each in placement_sets(family.profiles):
        profiles = [placement.profile for placement in each]
        assert sum(profile.compute_slices for profile in profiles) <= full.compute_slices
        assert sum(profile.sm_count for profile in profiles) <= full.sm_count
        assert sum(profile.vram_bytes for profile in profiles) <= full.vram_bytes
        assert sum(profile.name.endswith("+me") for profile in profiles) <= 1


@pytest.mark.parametrize(
    ("family", "sm_count"),
    [(A100_40, 98), (A100_80, 98), (H100_80, 132), (H100_PCIE_80, 114), (H200_141, 132), (A30_24, 56)],
    ids=lambda value: value.key if isinstance(value, MigGeometry) else str(value),
)
def test_a_card_in_mig_mode_counts_the_sms_of_its_full_card_profile(family: MigGeometry, sm_count: int) -> None:
    assert family.full_card.sm_count == sm_count


def test_a_small_instance_at_slice_one_blocks_what_needs_slice_zero() -> None:
    taken = taken_by([instance(H100_80, "1g.10gb", 1)])
    assert starts(taken, H100_80.profile("1g.10gb")) == [0, 2, 3, 4, 5, 6]
    assert starts(taken, H100_80.profile("2g.20gb")) == [2, 4]
    assert starts(taken, H100_80.profile("3g.40gb")) == [4]
    assert starts(taken, H100_80.profile("4g.40gb")) == []
    assert starts(taken, H100_80.profile("7g.80gb")) == []


def test_a_small_instance_at_slice_six_leaves_the_lower_half_free() -> None:
    taken = taken_by([instance(H100_80, "1g.10gb", 6)])
    assert starts(taken, H100_80.profile("3g.40gb")) == [0]
    assert starts(taken, H100_80.profile("4g.40gb")) == [0]


def test_a_card_has_one_media_extension_for_all_profiles() -> None:
    taken = taken_by([instance(A30_24, "1g.6gb+me", 0)])
    assert starts(taken, A30_24.profile("2g.12gb+me")) == []
    assert starts(taken, A30_24.profile("2g.12gb")) == [2]


def test_the_real_mix_of_an_h100_is_legal_and_its_sizes_are_the_reported_ones() -> None:
    """3g.40gb, 2g.20gb and two 1g.10gb with the bytes that driver 590.48.01 reported on one card."""
    names = ["3g.40gb", "2g.20gb", "1g.10gb", "1g.10gb"]
    assert [H100_80.profile(name).vram_bytes // MIB for name in names] == [40_448, 20_096, 9_984, 9_984]
    placed = [instance(H100_80, name, start) for name, start in zip(names, [4, 0, 2, 3], strict=True)]
    assert taken_by(placed) == 0b1111_1111


@pytest.mark.parametrize(
    "instances",
    [
        [instance(A100_80, "3g.40gb", 0, "MIG-a"), instance(A100_80, "1g.10gb", 3, "MIG-b")],
        [instance(A100_80, "1g.10gb+me", 0, "MIG-a"), instance(A100_80, "1g.10gb+me", 1, "MIG-b")],
        [MigInstance("MIG-b", 1, "3g.40gb", 6, 4, 42, 1)],
        [MigInstance("MIG-b", 1, "1g.10gb", -1, 1, 14, 1)],
        [MigInstance("MIG-b", 1, "1g.10gb", 0, 0, 14, 1)],
    ],
    ids=["slices overlap", "two media extensions", "past the last slice", "before the first", "no slice"],
)
def test_instances_that_no_card_can_hold_are_refused(instances: list[MigInstance]) -> None:
    with pytest.raises(InputError, match="cannot place MIG instance 'MIG-b'"):
        taken_by(instances)


@pytest.mark.parametrize(
    ("model", "vram_mib", "family"),
    [
        ("NVIDIA H100 80GB HBM3", 81_559, H100_80),
        ("NVIDIA H100 PCIe", 81_559, H100_PCIE_80),
        ("NVIDIA A100-SXM4-80GB", 81_920, A100_80),
        ("NVIDIA A100 80GB PCIe", 81_920, A100_80),
        ("NVIDIA A100-PCIE-40GB", 40_960, A100_40),
        ("A100-SXM4-40GB", 40_536, A100_40),
        ("NVIDIA A30", 24_576, A30_24),
        ("NVIDIA H200", 143_771, H200_141),
    ],
)
def test_a_model_is_known_by_the_drivers_name(model: str, vram_mib: int, family: MigGeometry) -> None:
    assert geometry_of(model, vram_mib * MIB) is family


@pytest.mark.parametrize(
    ("model", "vram_mib"),
    [
        ("NVIDIA H100 NVL", 95_830),
        ("NVIDIA H100", 81_559),
        ("NVIDIA H100 80GB HBM3", 65_247),
        ("NVIDIA A100-SXM4-40GB", 81_920),
        ("NVIDIA GeForce RTX 4090", 24_564),
        ("", 81_559),
    ],
)
def test_a_geometry_is_never_guessed(model: str, vram_mib: int) -> None:
    """Another name, or a size that is not the family's, has no geometry at all."""
    assert geometry_of(model, vram_mib * MIB) is None


def test_compute_and_memory_are_maximised_apart() -> None:
    """Six small ones beside one of double memory have the most SMs, four of double memory the most bytes."""
    best = largest_placeable(H100_80, ["1g.10gb", "1g.20gb"], 0)
    assert best == Placeable(sm_count=6 * 16 + 26, vram_bytes=4 * 20_096 * MIB)


def test_what_is_not_offered_cannot_be_placed() -> None:
    assert largest_placeable(H100_80, [], 0) == Placeable(0, 0)
    assert largest_placeable(H100_80, ["7g.80gb"], taken_by([instance(H100_80, "1g.10gb", 6)])) == Placeable(0, 0)


def test_an_unknown_offered_profile_is_named_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"cannot find the MIG profile '1g\.5gb' on A100-80: use one of 1g\.10gb"):
        largest_placeable(A100_80, ["1g.5gb"], 0)


@st.composite
def _cards(draw: st.DrawFn) -> tuple[MigGeometry, tuple[Placement, ...], list[str]]:
    """A family, instances in place on a card of it, and the profiles that are offered."""
    family = draw(st.sampled_from(FAMILIES))
    placed: tuple[Placement, ...] = ()
    for _ in range(draw(st.integers(0, 7))):
        free = [each for profile in family.profiles for each in free_placements(bits(placed), profile)]
        if free:
            placed = (*placed, draw(st.sampled_from(free)))
    names = [profile.name for profile in family.profiles]
    return family, placed, draw(st.lists(st.sampled_from(names), unique=True))


@settings(max_examples=settings().max_examples * 60 // 100, deadline=None)
@given(_cards())
def test_the_largest_placeable_is_that_of_full_enumeration(
    card: tuple[MigGeometry, tuple[Placement, ...], list[str]],
) -> None:
    """Every set of offered instances is tried beside what is in place, without memory and without pruning."""
    family, placed, offered = card
    taken = bits(placed)
    profiles = [family.profile(name) for name in offered]
    beside = [each for each in placement_sets(profiles) if not taken & bits(each)]
    assert largest_placeable(family, offered, taken) == Placeable(
        max(sum(each.profile.sm_count for each in chosen) for chosen in beside),
        max(sum(each.profile.vram_bytes for each in chosen) for chosen in beside),
    )
