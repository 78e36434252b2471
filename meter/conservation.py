"""In each device-second every compute unit and every byte is in exactly one state."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import polars as pl

from domain.capacity import DeviceBalance, DeviceCapacity, DeviceState, Take, balance
from domain.clock import MICROSECONDS
from domain.errors import InputError
from domain.grants import Grant
from domain.inventory import MigInstance
from domain.mig import geometry_of
from domain.period import Period, ceil_second
from meter.evidence.evidence import Evidence
from meter.evidence.presence import Presence
from store import capacity as facts


@dataclass(frozen=True, slots=True)
class Fleet:
    """What is on record of cards over a window: their periods, and what was taken of them.

    `devices` are those of the node, and those of cards that it holds grants on wherever they stand by now; `grants`
    those of the node, and those on its cards whatever node they name: a card may move while it is held.
    """

    devices: Sequence[facts.DevicePeriod]
    instances: Sequence[facts.MigPeriod]
    holds: Sequence[facts.Hold]
    states: Sequence[facts.DeviceStatePeriod]
    grants: Sequence[Grant]


@dataclass(frozen=True, slots=True)
class DeviceSpan:
    """A device over [start_s, end_s), in which nothing about its capacity changes."""

    gpu_uuid: str
    start_s: int
    end_s: int
    balance: DeviceBalance


@dataclass(frozen=True, slots=True)
class Residuals:
    """How much capacity a window cannot account for, in unit-seconds and byte-seconds; never negative.

    None: not known, because something is granted on a card that no inventory covers, or the record of its MIG
    instances contradicts itself.
    """

    compute_unit_seconds: int | None
    vram_byte_seconds: int | None


def residuals(fleet: Fleet, evidence: Evidence) -> Residuals:
    """What is left over when the seven states of every device-second of the window are summed.

    Sums absolute values, so that too much here never hides too little there.
    """
    if not _is_covered(fleet, evidence.period):
        return Residuals(None, None)
    try:
        spans = list(device_spans(fleet, evidence))
    except InputError:
        return Residuals(None, None)
    return Residuals(
        sum(abs(span.balance.compute.residual) * (span.end_s - span.start_s) for span in spans),
        sum(abs(span.balance.vram.residual) * (span.end_s - span.start_s) for span in spans),
    )


def device_spans(fleet: Fleet, evidence: Evidence) -> Iterable[DeviceSpan]:
    """Every device of the window's node, cut where anything about its capacity changes, with its balance.

    Raises InputError where MIG instances on record cannot exist together.
    """
    lost = _lost_runs(evidence.presence())
    for device in fleet.devices:
        held = device.period.intersect(evidence.period)
        if held is None or device.node != evidence.node:
            continue
        on_card = _OnCard(device, fleet, lost)
        cuts = sorted({held.first_second, ceil_second(held.end_us)} | on_card.cuts(held))
        for start_s, end_s in pairwise(cuts):
            yield DeviceSpan(device.gpu_uuid, start_s, end_s, on_card.balance_at(start_s))


class _OnCard:
    """All that bears on one device's capacity."""

    def __init__(
        self,
        device: facts.DevicePeriod,
        fleet: Fleet,
        lost: dict[str, list[Period]],
    ) -> None:
        uuid = device.gpu_uuid
        self._device = device
        self._grants = [each for each in fleet.grants if each.gpu_uuid == uuid]
        self._holds = [each for each in fleet.holds if each.gpu_uuid == uuid]
        self._instances = [each for each in fleet.instances if each.gpu_uuid == uuid]
        self._states = [each for each in fleet.states if each.gpu_uuid == uuid]
        self._lost = lost.get(uuid, [])

    def cuts(self, held: Period) -> set[int]:
        """The seconds inside `held` at which something changes."""
        periods = [
            *(each.period for each in self._grants),
            *(each.period for each in self._holds),
            *(each.period for each in self._instances),
            *(each.period for each in self._states),
            *self._lost,
        ]
        edges = {edge for each in periods if (met := each.intersect(held)) for edge in (met.start_us, met.end_us)}
        return {ceil_second(edge) for edge in edges}

    def balance_at(self, second_s: int) -> DeviceBalance:
        """The seven states of the device in that second."""
        device = self._device
        present = [each for each in self._instances if _holds_second(each.period, second_s)]
        states = [each.state for each in self._states if _holds_second(each.period, second_s)]
        return balance(
            _capacity(device),
            [_take(each) for each in self._grants if _holds_second(each.period, second_s)],
            [
                Take(each.compute_units, each.vram_bytes, each.mig_uuid)
                for each in self._holds
                if _holds_second(each.period, second_s)
            ],
            [_instance(each) for each in present],
            foreign_uuids=[each.mig_uuid for each in present if each.origin == "foreign"],
            state=DeviceState(states[-1]) if states else DeviceState.OK,
            lost=any(_holds_second(each, second_s) for each in self._lost),
        )


def _is_covered(fleet: Fleet, window: Period) -> bool:
    """Whether some device period stands behind every second of every grant."""
    for grant in fleet.grants:
        held = grant.period.intersect(window)
        if grant.is_record_only or held is None:
            continue
        seconds = sum(
            met.seconds
            for device in fleet.devices
            if device.gpu_uuid == grant.gpu_uuid and (met := device.period.intersect(held))
        )
        if seconds < held.seconds:
            return False
    return True


def _lost_runs(presence: pl.DataFrame) -> dict[str, list[Period]]:
    rows = presence.filter((pl.col("value") == Presence.LOST) & (pl.col("mig_uuid") == "")).iter_rows(named=True)
    lost: dict[str, list[Period]] = {}
    for row in rows:
        start_us = row["start_s"] * MICROSECONDS
        lost.setdefault(row["gpu_uuid"], []).append(Period(start_us, start_us + row["seconds"] * MICROSECONDS))
    return lost


def _holds_second(period: Period, second_s: int) -> bool:
    return period.start_us <= second_s * MICROSECONDS < period.end_us


def _capacity(device: facts.DevicePeriod) -> DeviceCapacity:
    return DeviceCapacity(
        compute_units=device.compute_units,
        vram_total_bytes=device.vram_total_bytes,
        vram_reserved_bytes=device.vram_reserved_bytes,
        share_grain=device.share_grain,
        mig_mode=device.mig_enabled,
        geometry=geometry_of(device.model, device.vram_total_bytes) if device.mig_enabled else None,
        offered_profiles=device.offered_profiles,
    )


def _take(grant: Grant) -> Take:
    return Take(grant.compute_units, grant.vram_bytes, grant.mig_uuid)


def _instance(each: facts.MigPeriod) -> MigInstance:
    return MigInstance(
        uuid=each.mig_uuid,
        gi_id=each.gi_id,
        profile=each.profile,
        start=each.start_slice,
        slices=each.slices,
        sm_count=each.sm_count,
        vram_bytes=each.vram_bytes,
    )
