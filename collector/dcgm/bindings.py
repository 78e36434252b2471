"""A host engine by way of DCGM's own Python bindings, which its package installs in a folder and no registry has.

They are loaded from that folder when an engine is opened. Written after `testing/python3` of NVIDIA/DCGM 4.6
(`dcgm_agent.py`, `dcgm_structs.py`); those of version 3 connect by an older call. Only numbers of fields are used: the
names in `dcgm_fields.py` change.
"""

import ctypes
import importlib.util
import sys
import zlib
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from collector.dcgm.engine_address import EngineAddress
from collector.dcgm.field import BLANK_32_BITS, blank_text
from collector.dcgm.host_engine import (
    EngineCard,
    EngineError,
    EngineInstance,
    Entity,
    EntityGroup,
    FieldValue,
    Status,
)
from domain.errors import UnavailableError
from domain.units import MIB

# They import each other by these names, so that each must be there before those behind it.
_MODULES = ("dcgmvalue", "dcgm_structs", "dcgm_fields", "dcgm_agent")
_CONNECT_MILLISECONDS = 2_000
_OUR_NAMES = "gputab-"
# DCGM_FV_FLAG_LIVE_DATA: asked of the driver now, and not out of what is kept.
_LIVE = 1
_NVML_INDEX, _UUID, _MINOR, _RESERVED_MIB = 52, 54, 55, 253
_EMPTY_GROUP = 1
_UNLIMITED = 0


class _Watched(NamedTuple):
    """Entities and fields that are watched together, and the engine's names of the two groups."""

    entities: tuple[Entity, ...]
    fields: tuple[int, ...]
    group: Any
    field_group: Any


class BoundHostEngine:
    """A `HostEngine` behind DCGM's bindings. A process has one connection at a time: so DCGM wants it."""

    def __init__(self, address: EngineAddress, folder: Path) -> None:
        """Connects. Raises UnavailableError where the bindings or DCGM's library are not there, else EngineError."""
        self._agent, self._structs = _load(folder)
        self._watched: list[_Watched] = []
        try:
            self._structs._dcgmInit()  # noqa: SLF001 - it is how they load the library
        except self._structs.DCGMError as error:
            raise UnavailableError(
                f"cannot load libdcgm.so for the bindings in {str(folder)!r}: {error}; install "
                "datacenter-gpu-manager-4-core, or collect without --dcgm-engine"
            ) from error
        self._ask("begin", self._agent.dcgmInit)
        self._handle = self._connect(address)

    def cards(self) -> tuple[EngineCard, ...]:
        """The cards there are now, with their GPU instances. Raises EngineError."""
        numbers = self._ask("list the cards", self._agent.dcgmGetEntityGroupEntities, self._handle, EntityGroup.GPU, 0)
        instances: dict[int, list[EngineInstance]] = {number: [] for number in numbers}
        for card_number, instance in self._instances():
            instances.setdefault(card_number, []).append(instance)
        return tuple(self._card(number, tuple(instances[number])) for number in numbers)

    def watch(self, entities: Collection[Entity], fields: Collection[int], period_us: int, keep_s: float) -> None:
        """Have these fields read every `period_us` and kept for `keep_s`. Raises EngineError."""
        wanted, numbers = tuple(sorted(entities)), tuple(sorted(fields))
        group, field_group = self._group(wanted), self._field_group(numbers)
        watch = self._agent.dcgmWatchFields
        self._ask("watch fields", watch, self._handle, group, field_group, period_us, keep_s, _UNLIMITED)
        watched = _Watched(wanted, numbers, group, field_group)
        # Watched anew, it is asked for once all the same.
        self._watched = [each for each in self._watched if each[:2] != watched[:2]] + [watched]

    def values_since(self, since_us: int) -> list[FieldValue]:
        """Every value that is watched by this connection, kept, and of that instant or later. Raises EngineError."""
        values: list[FieldValue] = []
        failures: list[EngineError] = []

        def take(group: int, number: int, raw: Any, count: int, _: Any) -> int:
            entity = Entity(EntityGroup(group), number)
            values.extend(_value(entity, raw[place]) for place in range(count))
            return 0

        callback = self._agent.dcgmFieldValueEntityEnumeration_f(take)
        ask = self._agent.dcgmGetValuesSince_v2
        for each in self._watched:
            try:
                self._ask("read values", ask, self._handle, each.group, each.field_group, since_us, callback, None)
            except EngineError as error:
                failures.append(error)
                if error.is_disconnected or len(failures) == len(self._watched):
                    raise
                status = error.status
                values += [FieldValue(entity, field, since_us, None, status) for entity, field in _pairs(each)]
        return values

    def close(self) -> None:
        """Let go of the connection; what is watched goes on."""
        with suppress(EngineError):
            self._ask("disconnect", self._agent.dcgmDisconnect, self._handle)

    def _connect(self, address: EngineAddress) -> Any:
        structs, agent, where = self._structs, self._agent, address.url
        if hasattr(agent, "dcgmConnect_v3"):
            connect, params = agent.dcgmConnect_v3, structs.c_dcgmConnectV3Params_v1()
            params.version = structs.c_dcgmConnectV3Params_version
        else:
            connect, params = agent.dcgmConnect_v2, structs.c_dcgmConnectV2Params_v2()
            params.version = structs.c_dcgmConnectV2Params_version
            params.addressIsUnixSocket = 0 if address.host else 1
            where = address.host or address.socket or ""
        params.timeoutMs = _CONNECT_MILLISECONDS
        # What is watched outlives this process: the next one finds the seconds that it missed.
        params.persistAfterDisconnect = 1
        return self._ask(f"connect to {address.url!r}", connect, where, params)

    def _instances(self) -> Iterator[tuple[int, EngineInstance]]:
        """The GPU instances, each with the number of its card."""
        try:
            told = self._ask("list MIG instances", self._agent.dcgmGetGpuInstanceHierarchy, self._handle)
        except EngineError as error:
            if error.status not in (Status.NOT_SUPPORTED, Status.NO_DATA):
                raise
            return
        for place in range(told.count):
            each = told.entityList[place]
            if each.entity.entityGroupId == EntityGroup.GPU_INSTANCE:
                entity = Entity(EntityGroup.GPU_INSTANCE, each.entity.entityId)
                mig_uuid = self._facts(entity, _UUID)[0]
                named = mig_uuid if isinstance(mig_uuid, str) and mig_uuid.startswith("MIG-") else None
                yield each.parent.entityId, EngineInstance(entity, each.info.nvmlInstanceId, named)

    def _card(self, number: int, instances: tuple[EngineInstance, ...]) -> EngineCard:
        told = self._ask("describe a card", self._agent.dcgmGetDeviceAttributes, self._handle, number)
        named, total_mib = told.identifiers, told.memoryUsage.fbTotal
        entity = Entity(EntityGroup.GPU, number)
        index, minor, reserved_mib = self._facts(entity, _NVML_INDEX, _MINOR, _RESERVED_MIB)
        return EngineCard(
            entity=entity,
            gpu_uuid=_text(named.uuid),
            nvml_index=index if isinstance(index, int) else None,
            minor=minor if isinstance(minor, int) else None,
            model=_text(named.deviceName),
            pci_bus_id=_text(named.pciBusId),
            driver_version=_text(named.driverVersion),
            vbios_version=_text(named.vbios),
            vram_total_bytes=0 if _is_blank(total_mib) else total_mib * MIB,
            vram_reserved_bytes=reserved_mib * MIB if isinstance(reserved_mib, int) else 0,
            instances=instances,
        )

    def _facts(self, entity: Entity, *fields: int) -> list[int | float | str | None]:
        """What the driver says of the entity now, None where it does not."""
        pair = self._structs.c_dcgmGroupEntityPair_t()
        pair.entityGroupId, pair.entityId = int(entity.group), entity.number
        ask = self._agent.dcgmEntitiesGetLatestValues
        try:
            told = self._ask("ask for facts", ask, self._handle, [pair], list(fields), _LIVE)
        except EngineError as error:
            if error.is_disconnected:
                raise
            return [None] * len(fields)
        values = [_value(entity, each) for each in told]
        return [None if each.status or _is_blank(each.value) else each.value for each in values]

    def _group(self, entities: tuple[Entity, ...]) -> Any:
        """The group of these entities, by its name; one from before the instances of a card changed is removed."""
        members = [f"{entity.group:d}.{entity.number}" for entity in entities]
        name = _OUR_NAMES + ",".join(members)
        for number in self._ask("list groups", self._agent.dcgmGroupGetAllIds, self._handle):
            group = ctypes.c_void_p(number)
            found = self._ask("describe a group", self._agent.dcgmGroupGetInfo, self._handle, group).groupName
            if found == name:
                return group
            if found.startswith(_OUR_NAMES) and set(found.removeprefix(_OUR_NAMES).split(",")) & set(members):
                with suppress(EngineError):
                    self._ask("remove a group", self._agent.dcgmGroupDestroy, self._handle, group)
        group = self._ask("make a group", self._agent.dcgmGroupCreate, self._handle, _EMPTY_GROUP, name)
        add = self._agent.dcgmGroupAddEntity
        for entity in entities:
            self._ask("fill a group", add, self._handle, group, int(entity.group), entity.number)
        return group

    def _field_group(self, fields: tuple[int, ...]) -> Any:
        """The group of these fields, which outlives a connection as watches do; its name says what is in it."""
        name = f"{_OUR_NAMES}{zlib.crc32(repr(fields).encode()):08x}"
        told = self._ask("list field groups", self._agent.dcgmFieldGroupGetAll, self._handle)
        for place in range(told.numFieldGroups):
            if told.fieldGroups[place].fieldGroupName == name:
                return ctypes.c_void_p(told.fieldGroups[place].fieldGroupId)
        return self._ask("make a field group", self._agent.dcgmFieldGroupCreate, self._handle, list(fields), name)

    def _ask(self, question: str, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except self._structs.DCGMError as error:
            raise EngineError(question, int(error.value), str(error)) from error


def _load(folder: Path) -> tuple[ModuleType, ModuleType]:
    """`dcgm_agent` and `dcgm_structs` of that folder, and of no other. Raises UnavailableError."""
    for name in _MODULES:
        loaded = sys.modules.get(name)
        path = folder / f"{name}.py"
        if loaded is not None and loaded.__file__ == str(path):
            continue
        spec = importlib.util.spec_from_file_location(name, path)
        try:
            if spec is None or spec.loader is None:
                raise ImportError(name)
            sys.modules[name] = module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        except Exception as error:
            sys.modules.pop(name, None)
            raise UnavailableError(
                f"cannot load DCGM's Python bindings from {str(folder)!r}: {error}; install "
                "datacenter-gpu-manager-4-core, or set dcgm_bindings to the folder with dcgm_agent.py"
            ) from error
    return sys.modules["dcgm_agent"], sys.modules["dcgm_structs"]


def _value(entity: Entity, raw: Any) -> FieldValue:
    """A `c_dcgmFieldValue` as it is: by the letter of its type, of which blobs are none of ours."""
    kind = chr(raw.fieldType)
    value: int | float | str | None = None
    if raw.status == Status.OK and kind == "d":
        value = float(raw.value.dbl)
    elif raw.status == Status.OK and kind in "it":
        value = int(raw.value.i64)
    elif raw.status == Status.OK and kind == "s":
        # The bindings decode it; what is no text is no answer.
        with suppress(UnicodeDecodeError):
            value = str(raw.value.str)
    return FieldValue(entity, int(raw.fieldId), int(raw.ts), value, int(raw.status))


def _pairs(watched: _Watched) -> Iterator[tuple[Entity, int]]:
    return ((entity, field) for entity in watched.entities for field in watched.fields)


def _text(text: str) -> str:
    return "" if blank_text(text) is not None else text


def _is_blank(value: int | float | str | None) -> bool:
    """Whether a fact is not told; none of them is a number as large as the smallest blank."""
    if isinstance(value, str):
        return blank_text(value) is not None
    return value is None or value >= BLANK_32_BITS.start
