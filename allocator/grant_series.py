"""Open grants as series: what the store of samples is told of who holds what."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from domain.grants import Grant
from domain.samples import SampleRun
from domain.series import GRANT, GRANT_COMPUTE, GRANT_INFO, GRANT_VRAM, Series


class GrantLabels(NamedTuple):
    """What tells one published grant from another, in the order of the catalogue; '' is no label."""

    gpu_uuid: str
    mig_uuid: str
    allocation: str
    tenant: str
    project: str
    kind: str


class GrantLevel(NamedTuple):
    """How much of a card is granted."""

    compute_ratio: float
    vram_bytes: int


def levels_of(grants: Iterable[Grant]) -> dict[GrantLabels, GrantLevel]:
    """The levels to publish. Grants of one allocation that no label tells apart are added up."""
    levels: dict[GrantLabels, GrantLevel] = {}
    for grant in grants:
        labels = GrantLabels(
            gpu_uuid=grant.gpu_uuid or "",
            mig_uuid=grant.mig_uuid or "",
            allocation=grant.allocation,
            tenant=grant.tenant,
            project=grant.project,
            kind=grant.kind,
        )
        before = levels.get(labels, GrantLevel(0.0, 0))
        levels[labels] = GrantLevel(
            before.compute_ratio + grant.compute_units / grant.compute_units_total,
            before.vram_bytes + grant.vram_bytes,
        )
    return levels


def open_runs(labels: GrantLabels, level: GrantLevel, second: int) -> Iterator[SampleRun]:
    """The samples that say the grant holds `second`."""
    return _runs(labels, second, 1, level)


def ended_runs(labels: GrantLabels, second: int) -> Iterator[SampleRun]:
    """The zeros that say the grant does not hold `second` any more."""
    return _runs(labels, second, 0, GrantLevel(0.0, 0))


def _runs(labels: GrantLabels, second: int, info: int, level: GrantLevel) -> Iterator[SampleRun]:
    named = dict(zip(GRANT, labels, strict=True))
    values: tuple[tuple[Series, int | float], ...] = (
        (GRANT_INFO, info),
        (GRANT_COMPUTE, level.compute_ratio),
        (GRANT_VRAM, level.vram_bytes),
    )
    for series, value in values:
        yield SampleRun(series, named, (second,), (value,))
