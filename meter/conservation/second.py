"""One second of a node: its cards, what is on them, and in which states their capacity is."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from domain.capacity import DeviceBalance
from domain.errors import InputError
from domain.grants import Grant
from meter.conservation.fleet import CardRecord, Fleet, OnCard, card_records, holds_second
from meter.conservation.residuals import Residuals
from meter.evidence.evidence import Evidence
from meter.evidence.presence import Presence
from store.capacity import DevicePeriod


@dataclass(frozen=True, slots=True)
class CardSecond:
    """A card of the node, and what there was on it.

    `presence` is None where the evidence does not know the card. `balance` is None where it cannot be known, and then
    `why_unknown` says why.
    """

    device: DevicePeriod
    there: OnCard
    presence: Presence | None
    balance: DeviceBalance | None
    why_unknown: str | None


@dataclass(frozen=True, slots=True)
class NodeSecond:
    """The second [second_s, second_s + 1) of a node: its cards by index, and the grants on a card that no inventory
    covers, whose capacity is not known."""

    node: str
    second_s: int
    cards: Sequence[CardSecond]
    uncovered: Sequence[Grant]

    @property
    def residuals(self) -> Residuals:
        """What of this second cannot be accounted for, as `residuals` has it of a window."""
        known = [card.balance for card in self.cards if card.balance is not None]
        if self.uncovered or len(known) < len(self.cards):
            return Residuals(None, None)
        return Residuals(
            sum(abs(each.compute.residual) for each in known), sum(abs(each.vram.residual) for each in known)
        )


def node_second(fleet: Fleet, evidence: Evidence, second_s: int) -> NodeSecond:
    """The second of the evidence's node. A card of which nothing can be said costs the others nothing."""
    standing = [each for each in fleet.devices if holds_second(each.period, second_s)]
    places = Counter(each.gpu_uuid for each in standing)
    presence = _presence_at(evidence, second_s)
    records = [each for each in card_records(fleet, evidence) if holds_second(each.device.period, second_s)]
    records.sort(key=lambda each: (each.device.device_index, each.device.gpu_uuid))
    return NodeSecond(
        evidence.node,
        second_s,
        [_card_second(each, second_s, presence, places) for each in records],
        tuple(_uncovered(fleet, second_s, places)),
    )


def _card_second(
    record: CardRecord, second_s: int, presence: Mapping[str, Presence], places: Mapping[str, int]
) -> CardSecond:
    uuid = record.device.gpu_uuid
    balance, why_unknown = None, None
    if places[uuid] > 1:
        why_unknown = f"the card {uuid!r} is on record {places[uuid]} times at once"
    else:
        try:
            balance = record.balance_at(second_s)
        except InputError as error:
            why_unknown = str(error)
    return CardSecond(record.device, record.at(second_s), presence.get(uuid), balance, why_unknown)


def _uncovered(fleet: Fleet, second_s: int, places: Mapping[str, int]) -> Iterator[Grant]:
    for grant in fleet.grants:
        if grant.gpu_uuid is not None and grant.gpu_uuid not in places and holds_second(grant.period, second_s):
            yield grant


def _presence_at(evidence: Evidence, second_s: int) -> dict[str, Presence]:
    """By card."""
    runs = evidence.presence().select("gpu_uuid", "mig_uuid", "start_s", "seconds", "value").iter_rows()
    return {
        gpu_uuid: Presence(value)
        for gpu_uuid, mig_uuid, start_s, seconds, value in runs
        if gpu_uuid and not mig_uuid and start_s <= second_s < start_s + seconds
    }
