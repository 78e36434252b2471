"""What a host engine is asked to watch of each card, and why it does not watch the rest."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

import structlog

from collector.dcgm.field import DcgmField, Scope, Watch
from collector.dcgm.fields import FIELDS
from collector.dcgm.host_engine import EngineCard, EngineError, Entity, EntityGroup, HostEngine, state_of
from domain.clock import MICROSECONDS, Clock
from domain.samples import FieldState

# How far back a collector that was away can look: a restart, or an upgrade. Values are kept in the engine's memory.
KEEP_SECONDS = 300
_AGAIN_SECONDS = 30

log = structlog.get_logger()


class _Wanted(NamedTuple):
    """Fields that are watched together, of a card itself or of its instances."""

    gpu_uuid: str
    group: EntityGroup
    watch: Watch


class EngineWatches:
    """The watches of one connection. What the engine refuses for good is asked once, and said once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._watched: dict[_Wanted, tuple[Entity, ...]] = {}
        self._refused: dict[_Wanted, FieldState] = {}
        self._again_at_s: dict[_Wanted, float] = {}

    def watch(self, engine: HostEngine, cards: Iterable[EngineCard]) -> None:
        """Watch what is not watched yet of these cards. Raises EngineError where the connection is gone."""
        for card in cards:
            for wanted, entities in _wanted(card):
                is_new = self._watched.get(wanted) != entities
                if is_new or self._again_at_s.get(wanted, float("inf")) <= self._clock.monotonic_s():
                    self._watch(engine, wanted, entities)

    def retry(self, engine: HostEngine, cards: Iterable[EngineCard]) -> None:
        """Watch again what was refused for now, when its time has come; as `watch`."""
        now_s = self._clock.monotonic_s()
        if any(again_at_s <= now_s for again_at_s in self._again_at_s.values()):
            self.watch(engine, cards)

    def states(self, card: EngineCard, entity: Entity) -> dict[DcgmField, int | FieldState]:
        """Why the fields of an entity have no value as long as they have none: what is watched is not ready yet."""
        told: dict[DcgmField, int | FieldState] = {}
        for watch, fields in _FIELDS[entity.group].items():
            state = self._refused.get(_Wanted(card.gpu_uuid, entity.group, watch), FieldState.NOT_READY)
            told |= dict.fromkeys(fields, state)
        return told

    def _watch(self, engine: HostEngine, wanted: _Wanted, entities: tuple[Entity, ...]) -> None:
        numbers = [field.number for field in _FIELDS[wanted.group][wanted.watch]]
        self._watched[wanted] = entities
        self._again_at_s.pop(wanted, None)
        try:
            engine.watch(entities, numbers, MICROSECONDS, KEEP_SECONDS)
        except EngineError as error:
            if error.is_disconnected:
                raise
            self._note_refused(wanted, error)
            return
        if self._refused.pop(wanted, None) is not None:
            log.info("fields_watched", gpu_uuid=wanted.gpu_uuid, of=wanted.group.name, fields=wanted.watch.name)

    def _note_refused(self, wanted: _Wanted, error: EngineError) -> None:
        state = state_of(error.status)
        if state is not FieldState.UNSUPPORTED:
            self._again_at_s[wanted] = self._clock.monotonic_s() + _AGAIN_SECONDS
        if self._refused.get(wanted) is state:
            return
        self._refused[wanted] = state
        names = {"gpu_uuid": wanted.gpu_uuid, "of": wanted.group.name, "fields": wanted.watch.name, "state": str(state)}
        log.warning("fields_not_watched", **names, reason=str(error))


def _wanted(card: EngineCard) -> Iterator[tuple[_Wanted, tuple[Entity, ...]]]:
    for group, entities in (
        (EntityGroup.GPU, (card.entity,)),
        (EntityGroup.GPU_INSTANCE, tuple(each.entity for each in card.instances)),
    ):
        if entities:
            yield from ((_Wanted(card.gpu_uuid, group, watch), entities) for watch in _FIELDS[group])


def _by_watch(scopes: Collection[Scope]) -> Mapping[Watch, tuple[DcgmField, ...]]:
    fields = [field for field in FIELDS if field.scope in scopes]
    grouped = {watch: tuple(field for field in fields if field.watch is watch) for watch in Watch}
    return {watch: its_fields for watch, its_fields in grouped.items() if its_fields}


# What a card tells by itself, and what an instance does.
_FIELDS = {EntityGroup.GPU: _by_watch(tuple(Scope)), EntityGroup.GPU_INSTANCE: _by_watch((Scope.ANY,))}
