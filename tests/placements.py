"""Every way to fill a MIG card: the enumeration that the geometry and the balance are held against."""

from collections.abc import Iterator, Sequence

from domain.mig import MigProfile, Placement


def placement_sets(profiles: Sequence[MigProfile]) -> Iterator[tuple[Placement, ...]]:
    """Every set of instances of these profiles that can exist together on one card, the empty set first."""
    placements = [Placement(profile, start) for profile in profiles for start in profile.starts]

    def extend(chosen: tuple[Placement, ...], taken: int, following: int) -> Iterator[tuple[Placement, ...]]:
        yield chosen
        for index in range(following, len(placements)):
            placement = placements[index]
            if not taken & placement.taken:
                yield from extend((*chosen, placement), taken | placement.taken, index + 1)

    return extend((), 0, 0)
