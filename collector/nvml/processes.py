"""The processes on a card, as the driver lists them.

The library is asked itself: its entries have had two lengths under one name. Early drivers of 535 wrote 32 bytes
where all others write 24 (nvitop 75), and read with the wrong one, numbers of bytes become PIDs.
"""

import ctypes
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import structlog

from collector.nvml.driver import NO_INSTANCE, CardLostError, Driver, DriverError
from collector.nvml.room import Room
from domain.samples import FieldState
from domain.units import MIB

log = structlog.get_logger()

_MPS_LIST = "MPSCompute"
_LISTS = ("Compute", "Graphics", _MPS_LIST)
# The newest first; those before the second name no instance.
_VERSIONS = ("v3", "v2")
# nvml.h: what the driver writes where it does not say.
_UNTOLD_BYTES = 2**64 - 1
_ROOM = 64
_DETAIL_VERSION = 0x01000018


class ListedProcess(NamedTuple):
    """One process on one instance of a card; None where the driver does not say, or MIG is off."""

    pid: int
    used_bytes: int | None
    gi_id: int | None
    ci_id: int | None


class _Short(ctypes.Structure):
    """nvmlProcessInfo_v2_t, which is the third version's too."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("used_bytes", ctypes.c_ulonglong),
        ("gi_id", ctypes.c_uint),
        ("ci_id", ctypes.c_uint),
    )


class _Long(ctypes.Structure):
    """nvmlProcessDetail_v1_t, and what early drivers of 535 wrote in place of the other."""

    _fields_ = (*_Short._fields_, ("protected_bytes", ctypes.c_ulonglong))


class _DetailList(ctypes.Structure):
    """nvmlProcessDetailList_v1_t."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("mode", ctypes.c_uint),
        ("count", ctypes.c_uint),
        ("entries", ctypes.c_void_p),
    )


_Entry = type[_Short] | type[_Long]


class ProcessLists:
    """The lists of one card, asked once a second. Made anew where its handle changes."""

    def __init__(self, driver: Driver, handle: Any, is_seen: Callable[[int], bool]) -> None:
        """`is_seen` says whether there is a process of that PID."""
        self._driver = driver
        self._handle = handle
        self._is_seen = is_seen
        self._room = Room(_ROOM)
        self._entry: _Entry = _Short
        # By list, the calls that this driver may have.
        self._calls: dict[str, Sequence[str]] = {}

    @property
    def tells_mps_clients(self) -> bool:
        """Whether the driver lists clients of MPS, as far as it was asked by now."""
        return bool(self._calls.get(_MPS_LIST))

    def read(self) -> list[ListedProcess] | FieldState:
        """Each process on each instance, once, with all it uses there.

        A list that the driver lacks adds nothing; where it lacks all of them, or fails to tell one, a FieldState says
        why processes are not known. Raises CardLostError, DriverGoneError.
        """
        found: dict[tuple[int, int | None, int | None], ListedProcess] = {}
        lacking = 0
        for mode, name in enumerate(_LISTS):
            listed = self._list(mode, name)
            if listed is FieldState.UNSUPPORTED:
                lacking += 1
            elif isinstance(listed, FieldState):
                return listed
            else:
                for each in listed:
                    key = each.pid, each.gi_id, each.ci_id
                    # One that computes and draws is on two lists, each time with all it uses.
                    before = found.get(key, each)
                    told = [bytes_ for bytes_ in (before.used_bytes, each.used_bytes) if bytes_ is not None]
                    found[key] = each._replace(used_bytes=max(told, default=None))
        return FieldState.UNSUPPORTED if lacking == len(_LISTS) else list(found.values())

    def _list(self, mode: int, name: str) -> list[ListedProcess] | FieldState:
        """One list, by the newest call that this driver has."""
        for call in self._calls.get(name, [f"DeviceGet{name}RunningProcesses_{version}" for version in _VERSIONS]):
            answer = self._answer(call)
            if not isinstance(answer, FieldState):
                self._calls[name] = (call,)
                return self._plausible(*answer, mode)
            if answer is not FieldState.UNSUPPORTED:
                return answer
        self._calls[name] = ()
        return FieldState.UNSUPPORTED

    def _answer(self, call: str) -> tuple[int, Any] | FieldState:
        """How many entries the library wrote, and where."""
        try:
            return self._room.ask(lambda: self._ask(call))
        except CardLostError:
            raise
        except DriverError as error:
            return error.state

    def _ask(self, call: str) -> tuple[int, Any]:
        # Should its entries have the greater length, there is room for them, too.
        buffer = (_Long * self._room.entries)()
        count = ctypes.c_uint(self._room.entries)
        try:
            self._driver.ask_library(call, self._handle, ctypes.byref(count), buffer)
        finally:
            taken = self._room.take(count.value)
        return taken, buffer

    def _plausible(self, count: int, buffer: Any, mode: int) -> list[ListedProcess]:
        """The entries by the length that makes sense of them; those that make none by either tell no bytes."""
        listed = _entries(buffer, self._entry, count)
        strange = self._strange(listed)
        if not strange:
            return listed
        detailed = self._details(mode)
        if detailed is not None:
            return detailed
        other: _Entry = _Long if self._entry is _Short else _Short
        relisted = _entries(buffer, other, count)
        if self._strange(relisted):
            return [each._replace(used_bytes=None) if each in strange else each for each in listed]
        log.warning("process_entries_of_another_length", bytes=ctypes.sizeof(other))
        self._entry = other
        return relisted

    def _strange(self, listed: Iterable[ListedProcess]) -> set[ListedProcess]:
        """Those of no process that is there, with next to no memory: a card's context alone takes more."""
        return {
            each
            for each in listed
            if (each.used_bytes is None or each.used_bytes < MIB) and not self._is_seen(each.pid)
        }

    def _details(self, mode: int) -> list[ListedProcess] | None:
        """The list as a newer call tells it, whose entries have one length; None where the driver lacks the call."""
        buffer = (_Long * self._room.entries)()
        told = _DetailList(_DETAIL_VERSION, mode, self._room.entries, ctypes.addressof(buffer))
        try:
            self._driver.ask_library("DeviceGetRunningProcessDetailList", self._handle, ctypes.byref(told))
        except CardLostError:
            raise
        except DriverError:
            return None
        return _entries(buffer, _Long, min(told.count, self._room.entries))


def _entries(buffer: Any, entry: _Entry, count: int) -> list[ListedProcess]:
    entries = (entry * count).from_buffer(buffer)
    return [
        ListedProcess(
            each.pid,
            None if each.used_bytes == _UNTOLD_BYTES else each.used_bytes,
            None if each.gi_id == NO_INSTANCE else each.gi_id,
            None if each.ci_id == NO_INSTANCE else each.ci_id,
        )
        for each in entries
    ]
