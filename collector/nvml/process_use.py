"""What each process of a card has used of its SMs lately, as the driver samples it.

The library is asked itself: the bindings take a second call for the size of the first, between which the driver may
come to need more, and raise an error without a code where there is nothing to tell (nvml.h,
nvmlDeviceGetProcessUtilization).
"""

import ctypes
from collections.abc import Iterable
from typing import NamedTuple

from collector.nvml.driver import CardLostError, DriverError, name_of
from collector.nvml.probe import Probe
from collector.nvml.room import Room
from collector.nvml.stamp_clock import StampClock
from domain.clock import MICROSECONDS
from domain.samples import FieldState

# A sample says something of the second that it is read in if it is not older than this.
_FRESH_US = 2 * MICROSECONDS
_PERCENT_MAX = 100
# Some drivers ask for room for a hundred, whatever there is.
_ROOM = 128
_INFO_VERSION = 0x01000018
_CALLS = ("DeviceGetProcessUtilization", "DeviceGetProcessesUtilizationInfo")


class _Sample(ctypes.Structure):
    """nvmlProcessUtilizationSample_t."""

    _fields_ = (
        ("pid", ctypes.c_uint),
        ("at_us", ctypes.c_ulonglong),
        ("sm", ctypes.c_uint),
        ("memory", ctypes.c_uint),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
    )


class _Info(ctypes.Structure):
    """nvmlProcessUtilizationInfo_v1_t."""

    _fields_ = (
        ("at_us", ctypes.c_ulonglong),
        ("pid", ctypes.c_uint),
        ("sm", ctypes.c_uint),
        ("memory", ctypes.c_uint),
        ("encoder", ctypes.c_uint),
        ("decoder", ctypes.c_uint),
        ("jpeg", ctypes.c_uint),
        ("ofa", ctypes.c_uint),
    )


class _InfoList(ctypes.Structure):
    """nvmlProcessesUtilizationInfo_v1_t."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("count", ctypes.c_uint),
        ("since_us", ctypes.c_ulonglong),
        ("entries", ctypes.c_void_p),
    )


class _Used(NamedTuple):
    """When a sample was taken, by the driver's clock, and what it says."""

    at_us: int
    percent: int


class ProcessUse:
    """The samples of one card, asked once a second. Made anew where its handle changes."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe
        self._stamps = StampClock(probe)
        self._calls: tuple[str, ...] = _CALLS
        self._room = Room(_ROOM)
        self._last_seen_us = 0
        self._told: dict[int, _Used] = {}
        # Samples so far that no process can have.
        self.refused = 0

    def read(self) -> dict[int, int] | FieldState:
        """By PID, percent of SM time that it used lately, 0 to 100; a process that is not told of used none.

        The driver says what is new since it was last asked. Where nothing is, what it said before still holds while
        it is fresh, which is for two seconds; a PID in it may by now be nobody's. A FieldState says why nothing is
        known. Raises CardLostError, DriverGoneError.
        """
        if self._stamps.now_us(self._last_seen_us) is None:
            # A clock was set back, here or there: nothing would be newer for as long.
            self._last_seen_us = 0
        samples = self._ask_the_one_there_is()
        if isinstance(samples, FieldState):
            return samples
        by_time = sorted(samples, key=lambda sample: sample[1].at_us)
        told = {pid: used for pid, used in by_time if self._is_fresh(used.at_us) and self._is_percent(used.percent)}
        if told:
            self._told = told
            self._last_seen_us = max(used.at_us for used in told.values())
        return {pid: used.percent for pid, used in self._told.items() if self._is_fresh(used.at_us)}

    def forget(self, pids: Iterable[int]) -> None:
        """What was said of these PIDs does not hold any more: they are another process's now."""
        for pid in pids:
            self._told.pop(pid, None)

    def _is_fresh(self, at_us: int) -> bool:
        now_us = self._stamps.now_us(at_us)
        return now_us is not None and now_us - at_us <= _FRESH_US

    def _is_percent(self, percent: int) -> bool:
        is_percent = percent <= _PERCENT_MAX
        self.refused += not is_percent
        return is_percent

    def _ask_the_one_there_is(self) -> list[tuple[int, _Used]] | FieldState:
        for call in self._calls:
            answer = self._answer(call)
            if answer is not FieldState.UNSUPPORTED:
                self._calls = (call,)
                return answer
        self._calls = ()
        return FieldState.UNSUPPORTED

    def _answer(self, call: str) -> list[tuple[int, _Used]] | FieldState:
        """PID and use of each sample."""
        ask = self._ask_samples if call == _CALLS[0] else self._ask_infos
        try:
            return self._room.ask(lambda: ask(call))
        except CardLostError:
            raise
        except DriverError as error:
            return [] if name_of(error.code) == "NOT_FOUND" else error.state

    def _ask_samples(self, call: str) -> list[tuple[int, _Used]]:
        buffer = (_Sample * self._room.entries)()
        count = ctypes.c_uint(self._room.entries)
        since_us = ctypes.c_ulonglong(self._last_seen_us)
        try:
            self._probe.driver.ask_library(call, self._probe.handle, buffer, ctypes.byref(count), since_us)
        finally:
            taken = self._room.take(count.value)
        return [(each.pid, _Used(each.at_us, each.sm)) for each in buffer[:taken]]

    def _ask_infos(self, call: str) -> list[tuple[int, _Used]]:
        buffer = (_Info * self._room.entries)()
        asked = _InfoList(_INFO_VERSION, self._room.entries, self._last_seen_us, ctypes.addressof(buffer))
        try:
            self._probe.driver.ask_library(call, self._probe.handle, ctypes.byref(asked))
        finally:
            taken = self._room.take(asked.count)
        return [(each.pid, _Used(each.at_us, each.sm)) for each in buffer[:taken]]
