"""The cards that a node has had: as they are, or where they are lost or sick, as they were last seen."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import structlog

from collector.node_state import NodeState
from collector.nvml.cards import Found, find_card
from collector.nvml.driver import CardLostError
from collector.nvml.driver_life import DriverAwayError, DriverLife
from collector.nvml.generations import Generations
from collector.nvml.mig import Place, address_of, missing_numbers
from collector.source import SourceGoneError
from collector.workers import Answers, Workers
from domain.errors import UnavailableError
from domain.inventory import Device

# One that has not answered by then is said to be as it was, and not asked again until it has.
_LOOK_SECONDS = 2.0

log = structlog.get_logger()


class KnownCard(NamedTuple):
    """A card, and how it can be asked: by handles that are good in one `opening` of the driver; 0 is in none.

    `handles` are those of its instances, by number. `is_lost` is that the driver does not have it any more.
    """

    device: Device
    opening: int = 0
    handle: Any = None
    places_max: int = 0
    places: tuple[Place, ...] = ()
    handles: Mapping[int, Any] = {}
    is_lost: bool = False

    @property
    def address(self) -> int:
        """Where its handle points, since the handles of one card are never equal; 0 where it has none."""
        return 0 if self.handle is None else address_of(self.handle)


class KnownCards:
    """Every card of the node by UUID. `look` is for one thread at a time, what is known may be read by any.

    Each card is taken up when it answers: one that hangs keeps no other waiting.
    """

    def __init__(self, life: DriverLife, state: NodeState) -> None:
        """`state` remembers them over restarts."""
        self._life = life
        self._state = state
        self.generations = Generations(state)
        # Held where a card is changed; what is looked up by readers is exchanged as a whole.
        self._lock = threading.Lock()
        self._by_uuid = {device.uuid: KnownCard(device) for device in state.remembered.devices}
        self._finders: Workers[int, str, str] = Workers(self._find, "find card")
        self.looked_in = 0
        """The opening of the driver in which a look last came to its end."""
        self._unseen: set[int] = set()
        self._warned: set[str] = set()

    @property
    def devices(self) -> tuple[Device, ...]:
        """All of them, by index."""
        return tuple(sorted((card.device for card in self._by_uuid.values()), key=lambda each: (each.index, each.uuid)))

    def card(self, gpu_uuid: str) -> KnownCard:
        """That card as it was last found."""
        return self._by_uuid[gpu_uuid]

    def cards(self) -> tuple[KnownCard, ...]:
        """All of them."""
        return tuple(self._by_uuid.values())

    def look(self) -> None:
        """Ask the driver which cards there are and what they are; one that fails to say stays as it was.

        Raises UnavailableError where the driver does not say how many there are, or where no card ever was and one
        fails to say; DriverAwayError and SourceGoneError where there is no driver.
        """
        with self._life.use("the inventory") as opened:
            opening = opened.opening
            driver_version = opened.driver.ask("SystemGetDriverVersion")
            count = opened.driver.ask("DeviceGetCount")
        told = self._finders.ask_all(dict.fromkeys(range(count), driver_version), _LOOK_SECONDS)
        for failure in told.failures.values():
            if isinstance(failure, DriverAwayError | SourceGoneError):
                raise failure
        unseen = _reasons(told)
        self._unseen &= unseen.keys()
        for index, reason in sorted(unseen.items()):
            self._note_unseen(index, str(reason))
        self._note_not_found(set(told.answers.values()), unseen)
        self.looked_in = opening
        if unseen and not self._by_uuid:
            raise unseen[min(unseen)]
        self._state.keep(devices=self.devices)

    def close(self) -> None:
        """End the threads that look."""
        self._finders.close()

    def _find(self, index: int, driver_version: str) -> str:
        """Take up the card of that index, and say its UUID."""
        with self._life.use(f"the inventory of card {index}") as opened:
            try:
                found = find_card(opened.driver, index, driver_version)
            except UnicodeDecodeError as error:  # the bindings decode what the driver says
                raise UnavailableError(f"cannot read the name of a card: {error}; see dmesg") from error
            # While the driver is held there can be no later opening, whose handle this one would take the place of.
            with self._lock:
                self._by_uuid = {**self._by_uuid, found.device.uuid: self._known(opened.opening, found)}
        return found.device.uuid

    def _known(self, opening: int, found: Found) -> KnownCard:
        uuid = found.device.uuid
        if not found.is_held and uuid not in self._warned:
            self._warned.add(uuid)
            log.warning(
                "persistence_mode_off",
                gpu_uuid=uuid,
                reason="the driver forgets the card, its counters too, when nobody holds it",
                remedy="run nvidia-persistenced, or `nvidia-smi -pm 1`",
            )
        before = self._by_uuid.get(uuid)
        if before is not None and before.opening == opening:
            # Who reads the card has not seen yet that they went, and what is there now may look the same.
            self.generations.miss(uuid, missing_numbers(before.places, found.places))
        device = replace(found.device, instances=self.generations.number(uuid, found.instances))
        handles = {each.itself.gi_id: each.handle for each in found.instances}
        card = KnownCard(device, opening, found.handle, found.places_max, found.places, handles)
        # Whoever reads the card goes by the object: a card that is as it was goes on as it was.
        return before if before is not None and _is_same(before, card) else card

    def _note_not_found(self, found: set[str], unseen: Mapping[int, UnavailableError]) -> None:
        """What is to be thought of the cards that were not among those found."""
        with self._lock:
            by_uuid = dict(self._by_uuid)
            for uuid in by_uuid.keys() - found:
                card = by_uuid[uuid]
                # One that was lost is so until it is found: that another fails to answer says nothing of it.
                is_lost = not unseen or card.is_lost or isinstance(unseen.get(card.device.index), CardLostError)
                if not (unseen or card.is_lost):
                    log.error("card_lost", gpu_uuid=uuid, index=card.device.index, pci_bus_id=card.device.pci_bus_id)
                    self.generations.miss(uuid, [each.gi_id for each in card.device.instances])
                # Where every card answered, and this is none of them, its handle is good for nothing.
                by_uuid[uuid] = (card if unseen else KnownCard(card.device))._replace(is_lost=is_lost)
            self._by_uuid = by_uuid

    def _note_unseen(self, index: int, reason: str) -> None:
        """Say once, with how many there are, that a card is as last seen, or left out where it never was."""
        if index not in self._unseen:
            self._unseen.add(index)
            known = {device.index for device in self.devices}
            event = "card_as_last_seen" if index in known else "card_left_out"
            log.error(event, index=index, reason=reason, unseen_cards=len(self._unseen))


def _is_same(one: KnownCard, other: KnownCard) -> bool:
    """Handles are compared by where they point; where those of instances do is in `places`."""
    if one.address != other.address:
        return False
    return one._replace(handle=None, handles={}) == other._replace(handle=None, handles={})


def _reasons(told: Answers[int, str]) -> dict[int, UnavailableError]:
    """By index, why a card was not found."""
    silent = UnavailableError(f"cannot see the card: the driver has not answered for {_LOOK_SECONDS:.0f} s; see dmesg")
    reasons = dict.fromkeys(told.late | told.busy, silent)
    for index, failure in told.failures.items():
        if isinstance(failure, UnavailableError):
            reasons[index] = failure
        else:
            reasons[index] = UnavailableError(f"cannot see the card: {failure!r}; report this as a fault")
    return reasons
