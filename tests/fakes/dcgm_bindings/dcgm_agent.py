"""In the place of DCGM's `dcgm_agent`: its functions by the same names, over the fake engines of `tests.fakes.dcgm`."""
# ruff: noqa: N802, N803, A002

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import c_void_p
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dcgm_structs  # type: ignore[import-not-found]

from collector.dcgm.host_engine import EngineError, Entity, EntityGroup
from tests.fakes.dcgm import SERVED, FakeConnection, FakeHostEngine
from tests.fakes.dcgm_lasting import LastingEngine

_numbers = itertools.count(11)
# What outlives a connection, by engine: groups and field groups with their names and members.
groups_of: dict[int, dict[int, tuple[str, list[Any]]]] = {}
field_groups_of: dict[int, dict[int, tuple[str, list[int]]]] = {}
# Entities of which no value is told, and the status that is told instead.
FAILING: dict[Entity, int] = {}


class _Handle:
    def __init__(self, engine: FakeHostEngine, persists: int) -> None:
        self.engine = engine
        self.connection: FakeConnection = engine.connect()
        self.persists = persists
        self.groups = groups_of.setdefault(id(engine), {})
        self.field_groups = field_groups_of.setdefault(id(engine), {})


def dcgmInit() -> int:
    return 0


def dcgmConnect_v3(connection_string: str, connectParams: Any) -> _Handle:
    _serve_file(connection_string)
    if connection_string not in SERVED or connectParams.version != 1 or connectParams.timeoutMs <= 0:
        raise dcgm_structs.DCGMError(-21)
    with _errors():
        return _Handle(SERVED[connection_string], connectParams.persistAfterDisconnect)


def dcgmConnect_v2(ip_address: str, connectParams: Any) -> _Handle:
    if ip_address not in SERVED or connectParams.addressIsUnixSocket != ip_address.startswith("/"):
        raise dcgm_structs.DCGMError(-21)
    with _errors():
        return _Handle(SERVED[ip_address], connectParams.persistAfterDisconnect)


def dcgmDisconnect(dcgm_handle: _Handle) -> int:
    dcgm_handle.connection.close()
    if not dcgm_handle.persists:
        dcgm_handle.engine.restart()
    return 0


def dcgmGetEntityGroupEntities(dcgm_handle: _Handle, entityGroup: int, flags: int) -> list[int]:
    with _errors():
        return [card.entity.number for card in dcgm_handle.connection.cards() if entityGroup == EntityGroup.GPU]


def dcgmGetGpuInstanceHierarchy(dcgm_handle: _Handle) -> SimpleNamespace:
    pairs = [(card, instance) for card in dcgm_handle.connection.cards() for instance in card.instances]
    if not pairs:
        raise dcgm_structs.DCGMError(-6)
    entities = [
        SimpleNamespace(
            entity=_pair(instance.entity),
            parent=_pair(card.entity),
            info=SimpleNamespace(nvmlInstanceId=instance.gi_id),
        )
        for card, instance in pairs
    ]
    return SimpleNamespace(count=len(entities), entityList=entities)


def dcgmGetDeviceAttributes(dcgm_handle: _Handle, gpuId: int) -> SimpleNamespace:
    card = next(card for card in dcgm_handle.connection.cards() if card.entity.number == gpuId)
    identifiers = SimpleNamespace(
        uuid=card.gpu_uuid,
        deviceName=card.model,
        pciBusId=card.pci_bus_id or "<<<NULL>>>",
        driverVersion=card.driver_version,
        vbios=card.vbios_version,
    )
    total = card.vram_total_bytes // 2**20 or 0x7FFFFFF2
    return SimpleNamespace(identifiers=identifiers, memoryUsage=SimpleNamespace(fbTotal=total))


def dcgmEntitiesGetLatestValues(
    dcgmHandle: _Handle,
    entities: list[SimpleNamespace],
    fieldIds: list[int],
    flags: int,
) -> list[SimpleNamespace]:
    assert flags == 1, "asked of the driver, not out of what is kept"
    cards = dcgmHandle.connection.cards()
    facts: dict[Entity, dict[int, int | str | None]] = {
        card.entity: {52: card.nvml_index, 55: card.minor, 253: card.vram_reserved_bytes // 2**20} for card in cards
    }
    facts |= {each.entity: {54: each.mig_uuid} for card in cards for each in card.instances}
    told = []
    for pair in entities:
        entity = Entity(EntityGroup(pair.entityGroupId), pair.entityId)
        told += [_raw(number, 5, facts[entity].get(number), status=0) for number in fieldIds]
    return told


def dcgmGroupGetAllIds(dcgmHandle: _Handle) -> list[int]:
    return list(dcgmHandle.groups)


def dcgmGroupGetInfo(dcgm_handle: _Handle, group_id: c_void_p) -> SimpleNamespace:
    return SimpleNamespace(groupName=dcgm_handle.groups[_id(group_id)][0])


def dcgmGroupCreate(dcgm_handle: _Handle, type: int, groupName: str) -> c_void_p:
    assert type == 1, "an empty group"
    number = next(_numbers)
    dcgm_handle.groups[number] = (groupName, [])
    return c_void_p(number)


def dcgmGroupDestroy(dcgm_handle: _Handle, group_id: c_void_p) -> int:
    del dcgm_handle.groups[_id(group_id)]
    return 0


def dcgmGroupAddEntity(dcgm_handle: _Handle, group_id: c_void_p, entityGroupId: int, entityId: int) -> int:
    dcgm_handle.groups[_id(group_id)][1].append(Entity(EntityGroup(entityGroupId), entityId))
    return 0


def dcgmFieldGroupGetAll(dcgm_handle: _Handle) -> SimpleNamespace:
    groups = [
        SimpleNamespace(fieldGroupName=name, fieldGroupId=number)
        for number, (name, _) in dcgm_handle.field_groups.items()
    ]
    return SimpleNamespace(numFieldGroups=len(groups), fieldGroups=groups)


def dcgmFieldGroupCreate(dcgm_handle: _Handle, fieldIds: list[int], fieldGroupName: str) -> c_void_p:
    if fieldGroupName in {name for name, _ in dcgm_handle.field_groups.values()}:
        raise dcgm_structs.DCGMError(-26)
    number = next(_numbers)
    dcgm_handle.field_groups[number] = (fieldGroupName, fieldIds)
    return c_void_p(number)


def dcgmWatchFields(
    dcgm_handle: _Handle,
    groupId: c_void_p,
    fieldGroupId: c_void_p,
    updateFreq: int,
    maxKeepAge: float,
    maxKeepSamples: int,
) -> int:
    entities = dcgm_handle.groups[_id(groupId)][1]
    fields = dcgm_handle.field_groups[_id(fieldGroupId)][1]
    with _errors():
        dcgm_handle.connection.watch(entities, fields, updateFreq, maxKeepAge)
    return 0


def dcgmFieldValueEntityEnumeration_f(callback: Callable[..., int]) -> Callable[..., int]:
    return callback


def dcgmGetValuesSince_v2(
    dcgm_handle: _Handle,
    groupId: c_void_p,
    fieldGroupId: c_void_p,
    sinceTimestamp: int,
    enumCB: Callable[..., int],
    userData: object,
) -> int:
    entities = dcgm_handle.groups[_id(groupId)][1]
    fields = dcgm_handle.field_groups[_id(fieldGroupId)][1]
    if failing := [FAILING[entity] for entity in entities if entity in FAILING]:
        raise dcgm_structs.DCGMError(failing[0])
    with _errors():
        values = dcgm_handle.connection.values_since(sinceTimestamp)
    for each in values:
        if each.entity in entities and each.field in fields:
            raw = _raw(each.field, each.time_us, each.value, each.status)
            enumCB(int(each.entity.group), each.entity.number, [raw], 1, userData)
    return dcgm_handle.engine.clock.now_us() + 1


def _serve_file(address: str) -> None:
    """An engine that outlives this process lies in a file, where one of a real machine has its socket."""
    path = Path(address.removeprefix("unix://"))
    if address not in SERVED and path.is_file():
        SERVED[address] = LastingEngine(path)


def _pair(entity: Entity) -> SimpleNamespace:
    return SimpleNamespace(entityGroupId=int(entity.group), entityId=entity.number)


def _raw(number: int, time_us: int, value: int | float | str | None, status: int) -> SimpleNamespace:
    kind = {float: "d", int: "i", str: "s"}.get(type(value), "b")
    told = SimpleNamespace(dbl=value, i64=value, str=value)
    return SimpleNamespace(fieldId=number, fieldType=ord(kind), status=status, ts=time_us, value=told)


def _id(number: c_void_p) -> int:
    assert isinstance(number, c_void_p), "a plain number is passed as one of 32 bits"
    return number.value or 0


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except EngineError as error:
        raise dcgm_structs.DCGMError(error.status) from error
