"""What is on record of a node's cards over a window, and what of it bears on one card in one second."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from domain.capacity import DeviceBalance, DeviceCapacity, DeviceState, Take, balance
from domain.clock import MICROSECONDS
from domain.grants import Grant
from domain.inventory import MigInstance
from domain.mig import geometry_of
from domain.period import Period, ceil_second
from meter.evidence.evidence import Evidence
from meter.evidence.presence import Presence
from store import capacity as facts

_FOREIGN = "foreign"


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
class OnCard:
    """What there was on a card in one second; instances in order of their slices."""

    grants: tuple[Grant, ...]
    holds: tuple[facts.Hold, ...]
    instances: tuple[facts.MigPeriod, ...]
    state: DeviceState


class CardRecord:
    """One period of a card with all that bears on its capacity; `lost` are the seconds in which it was said to be."""

    def __init__(self, device: facts.DevicePeriod, fleet: Fleet, lost: Sequence[Period]) -> None:
        uuid = device.gpu_uuid
        self.device = device
        self._grants = [each for each in fleet.grants if each.gpu_uuid == uuid]
        self._holds = [each for each in fleet.holds if each.gpu_uuid == uuid]
        self._instances = [each for each in fleet.instances if each.gpu_uuid == uuid]
        self._states = [each for each in fleet.states if each.gpu_uuid == uuid]
        self._lost = lost

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

    def at(self, second_s: int) -> OnCard:
        """What there was on the card in that second."""
        states = [each.state for each in self._states if holds_second(each.period, second_s)]
        present = (each for each in self._instances if holds_second(each.period, second_s))
        return OnCard(
            grants=tuple(each for each in self._grants if holds_second(each.period, second_s)),
            holds=tuple(each for each in self._holds if holds_second(each.period, second_s)),
            instances=tuple(sorted(present, key=lambda each: each.start_slice)),
            state=DeviceState(states[-1]) if states else DeviceState.OK,
        )

    def balance_at(self, second_s: int) -> DeviceBalance:
        """The seven states of the card in that second.

        Raises InputError where the MIG instances on record cannot exist together.
        """
        there = self.at(second_s)
        return balance(
            _capacity(self.device),
            [Take(each.compute_units, each.vram_bytes, each.mig_uuid) for each in there.grants],
            [Take(each.compute_units, each.vram_bytes, each.mig_uuid) for each in there.holds],
            [_instance(each) for each in there.instances],
            foreign_uuids=[each.mig_uuid for each in there.instances if is_foreign(each)],
            state=there.state,
            lost=any(holds_second(each, second_s) for each in self._lost),
        )


def card_records(fleet: Fleet, evidence: Evidence) -> Iterator[CardRecord]:
    """One for every period of a card on the evidence's node."""
    lost = _lost_periods(evidence)
    for device in fleet.devices:
        if device.node == evidence.node:
            yield CardRecord(device, fleet, lost.get(device.gpu_uuid, ()))


def holds_second(period: Period, second_s: int) -> bool:
    """Whether the instant at which the second begins lies in the period."""
    return period.start_us <= second_s * MICROSECONDS < period.end_us


def is_foreign(instance: facts.MigPeriod) -> bool:
    """Whether somebody else made the instance, so that it cannot be granted until it is adopted."""
    return instance.origin == _FOREIGN


def _lost_periods(evidence: Evidence) -> Mapping[str, Sequence[Period]]:
    lost: dict[str, list[Period]] = {}
    for gpu_uuid, mig_uuid, start_s, seconds, value in (
        evidence.presence().select("gpu_uuid", "mig_uuid", "start_s", "seconds", "value").iter_rows()
    ):
        if mig_uuid == "" and value == Presence.LOST:
            period = Period(start_s * MICROSECONDS, (start_s + seconds) * MICROSECONDS)
            lost.setdefault(gpu_uuid, []).append(period)
    return lost


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
