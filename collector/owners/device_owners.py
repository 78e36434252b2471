"""The owners of one device in a reading: what of it can be told, how, and why not the rest.

basis of compute    when
process_samples     the driver samples what each process uses of the SMs (of no card in MIG mode)
sole_owner          it does not, and all processes on the device are one owner's, or nobody's
sm_share            on a GPU instance with several owners: by the SMs of the compute instances that they run in
shared              several owners have what nothing splits: all of it is nobody's

Who shares what nothing splits has no ratio of it, which is not 0. Compute by owner is missing where the ratio is, or
where the driver fails to say what it can be split by. `at_least` as the basis of memory means that the driver does not
say how much some process uses: its owner has that much more, and `unattributed` less. An owner of whose processes it
says nothing has no bytes, not 0; where it says nothing of any, memory by owner is missing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from collector.owners.split import Claim, sole_owner, split_by_sms, split_compute, split_memory
from domain.samples import UNATTRIBUTED, Basis, ComputeSplit, DeviceReading, FieldState, OwnerUse
from domain.series import GPU_BUSY, GPU_GR_ACTIVE, GPU_MEMORY_USED, OWNER_COMPUTE, OWNER_MEMORY

_LISTED = Basis("nvml", "process_list")
_AT_LEAST = Basis("nvml", "at_least")
_SAMPLED = Basis("nvml", "process_samples")
_SOLE = Basis("nvml", "sole_owner")
_BY_SMS = Basis("nvml", "sm_share")
_SHARED = Basis("nvml", "shared")


class Compute(NamedTuple):
    """A device's busy ratio by owner, and on what basis; nothing, and why. `split` is that of `DeviceReading`.

    `unattributed` is among them wherever any ratio is told.
    """

    by_owner: Mapping[str, float]
    how: Basis | FieldState
    split: ComputeSplit | None = None


def compute_by_samples(
    reading: DeviceReading, claims: Sequence[Claim], owners: Mapping[int, str], percents: Mapping[int, int] | FieldState
) -> Compute:
    """Of a card by what the driver samples of each process; see `split_compute`."""
    ratio = reading.values.get(GPU_BUSY)
    if ratio is None:
        return Compute({}, reading.missing.get(GPU_BUSY, FieldState.UNSUPPORTED))
    if percents is FieldState.UNSUPPORTED:
        whole = _whole(claims, owners)
        return Compute(whole.of(ratio), whole.basis)
    if isinstance(percents, FieldState):
        return Compute({}, percents)
    return Compute(split_compute(ratio, percents, owners), _SAMPLED)


def compute_by_sms(
    reading: DeviceReading,
    claims: Sequence[Claim],
    owners: Mapping[int, str],
    sms: Callable[[], Mapping[int, int] | FieldState],
) -> Compute:
    """Of a GPU instance, of whose processes the driver samples nothing; `sms` are those of its compute instances."""
    split = _split_of_instance(claims, owners, sms)
    ratio = reading.values.get(GPU_GR_ACTIVE)
    if ratio is None:
        state = reading.missing.get(GPU_GR_ACTIVE, FieldState.UNSUPPORTED)
        return Compute({}, state, None if isinstance(split, FieldState) else split)
    if isinstance(split, FieldState):
        return Compute({}, split)
    return Compute(split.of(ratio), split.basis, split)


def _split_of_instance(
    claims: Sequence[Claim], owners: Mapping[int, str], sms: Callable[[], Mapping[int, int] | FieldState]
) -> ComputeSplit | FieldState:
    whole = _whole(claims, owners)
    # Within one compute instance the driver tells nobody apart, whatever its size.
    if whole.basis == _SOLE or len({claim.ci_id for claim in claims}) == 1:
        return whole
    told = sms()
    if isinstance(told, FieldState):
        return told
    parts = split_by_sms(1.0, claims, owners, told)
    return whole if parts is None else ComputeSplit(parts, _BY_SMS)


def _whole(claims: Sequence[Claim], owners: Mapping[int, str]) -> ComputeSplit:
    """All of a device as its one owner's, or where several share it as nobody's."""
    owner = sole_owner(claims, owners)
    if owner is None:
        return ComputeSplit({UNATTRIBUTED: 1.0}, _SHARED)
    return ComputeSplit({UNATTRIBUTED: 0.0, owner: 1.0}, _SOLE)


class DeviceOwners:
    """The owners of one device, from second to second."""

    def __init__(self) -> None:
        self._missing = _Merged()
        self._bases = _Merged()

    def unknown(self, reading: DeviceReading, state: FieldState) -> DeviceReading:
        """The reading without owners, and why."""
        missing = self._missing.of(reading.missing, {OWNER_MEMORY: state, OWNER_COMPUTE: state})
        return replace(reading, owners={}, missing=missing)

    def told(
        self, reading: DeviceReading, claims: Sequence[Claim], owners: Mapping[int, str], compute: Compute
    ) -> DeviceReading:
        """The reading with its owners: their bytes as far as they are told sum to its used memory, and their ratios to
        the one that `compute` is of."""
        used_bytes = reading.values.get(GPU_MEMORY_USED)
        if used_bytes is None:
            return self.unknown(reading, reading.missing.get(GPU_MEMORY_USED, FieldState.UNSUPPORTED))
        untold = [claim.pid for claim in claims if claim.used_bytes is None]
        bases: dict[Any, Basis] = {}
        missing: dict[Any, FieldState] = {}
        memory: dict[str, int | None]
        if claims and len(untold) == len(claims):
            memory = dict.fromkeys((UNATTRIBUTED, *_of(untold, owners)))
            missing[OWNER_MEMORY] = FieldState.UNSUPPORTED
        else:
            memory = dict.fromkeys(_of(untold, owners)) | split_memory(int(used_bytes), claims, owners)
            bases[OWNER_MEMORY] = _AT_LEAST if untold else _LISTED
        if isinstance(compute.how, Basis):
            bases[OWNER_COMPUTE] = compute.how
        else:
            missing[OWNER_COMPUTE] = compute.how
        # Who is in none of a card's samples has computed nothing; without samples, nothing is known of him.
        unsampled = 0.0 if compute.how == _SAMPLED else None
        return replace(
            reading,
            owners=_uses(memory, compute.by_owner, unsampled),
            missing=self._missing.of(reading.missing, missing),
            bases=self._bases.of(reading.bases, bases),
            split=compute.split,
        )


def _of(pids: Iterable[int], owners: Mapping[int, str]) -> set[str]:
    return {owners[pid] for pid in pids if pid in owners}


def _uses(
    memory: Mapping[str, int | None], compute: Mapping[str, float], unsampled: float | None
) -> dict[str, OwnerUse]:
    """Both by owner, of whom either is told; `unsampled` is the ratio of those who are not in `compute`.

    Who has computed and no longer has memory has 0 bytes, if any are told.
    """
    freed_bytes = None if memory[UNATTRIBUTED] is None else 0
    uses = {
        owner: OwnerUse(memory.get(owner, freed_bytes), compute.get(owner, unsampled))
        for owner in {**memory, **compute}
    }
    return {owner: use for owner, use in uses.items() if use != OwnerUse(None, None)}


class _Merged:
    """Two mappings in one, which is the same object as long as neither changes."""

    def __init__(self) -> None:
        self._parts: tuple[Mapping[Any, Any], Mapping[Any, Any]] = ({}, {})
        self._merged: Mapping[Any, Any] = {}

    def of(self, first: Mapping[Any, Any], second: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Both; `first` is known by its identity."""
        if self._parts[0] is not first or self._parts[1] != second:
            self._parts = first, second
            self._merged = {**first, **second}
        return self._merged
