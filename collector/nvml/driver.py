"""The door to the NVIDIA driver: the one file that imports its bindings.

Every call goes through `Driver.ask` or `Driver.answer`, where it is timed and where the driver's error codes (nvml.h)
become what the rest of the collector tells apart: a field that the card cannot tell, a card that is lost, a driver
that is gone.
"""

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pynvml

from collector.call_times import CallTimes
from collector.nvml.gpm_turn import GpmTurn
from collector.source import SourceGoneError
from domain.errors import UnavailableError
from domain.samples import FieldState

# Structures are versioned by their size (nvml.h, NVML_STRUCT_VERSION).
MEMORY_VERSION_2 = pynvml.nvmlMemory_v2
# What the driver says of a question that it does not know at all: one that is newer than itself.
INVALID_ARGUMENT = pynvml.NVML_ERROR_INVALID_ARGUMENT
IN_USE = pynvml.NVML_ERROR_IN_USE
INSUFFICIENT_SIZE = pynvml.NVML_ERROR_INSUFFICIENT_SIZE
# What stands for the number of an instance where there is none (nvml.h).
NO_INSTANCE = 0xFFFFFFFF

_STATES = {
    pynvml.NVML_ERROR_NOT_SUPPORTED: FieldState.UNSUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND: FieldState.UNSUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION: FieldState.NO_PERMISSION,
    pynvml.NVML_ERROR_NOT_FOUND: FieldState.NOT_READY,
    pynvml.NVML_ERROR_NO_DATA: FieldState.NOT_READY,
    pynvml.NVML_ERROR_NOT_READY: FieldState.NOT_READY,
    pynvml.NVML_ERROR_IN_USE: FieldState.NOT_READY,
}
_LOST = frozenset({pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED})
# Only a new process can load another library: the bindings never let go of the first.
_MISMATCH = frozenset({pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH})
_GONE = _MISMATCH | {
    pynvml.NVML_ERROR_UNINITIALIZED,
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED,
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND,
}
_BLOCKED = "see dmesg; a container that has lost its devices (after `systemctl daemon-reload`) has to be started again"
_REMEDIES = {
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "load the kernel module of the library's version, or reboot the node",
    pynvml.NVML_ERROR_UNKNOWN: _BLOCKED,
    pynvml.NVML_ERROR_NO_PERMISSION: _BLOCKED,
    pynvml.NVML_ERROR_OPERATING_SYSTEM: _BLOCKED,
}


class DriverError(UnavailableError):
    """The driver answered one question with an error; `state` is what that says of the field."""

    def __init__(self, call: str, code: int) -> None:
        """`call` is the function without its "nvml", `code` an nvmlReturn_t."""
        super().__init__(f"cannot read the card: nvml{call} answers {name_of(code)!r}; see dmesg")
        self.call = call
        self.code = code
        self.state = _STATES.get(code, FieldState.ERROR)

    @property
    def is_absence(self) -> bool:
        """Whether there is no such thing, as against a driver that fails to say."""
        return self.state is FieldState.UNSUPPORTED or self.code == pynvml.NVML_ERROR_NOT_FOUND


class CardLostError(DriverError):
    """The card itself is gone: it has fallen off the bus, or needs a reset."""

    def __init__(self, call: str, code: int) -> None:
        super().__init__(call, code)
        self.state = FieldState.LOST
        self.args = (f"cannot read the card: it is lost ({name_of(code)!r}); reset it, or reboot the node",)


class DriverGoneError(SourceGoneError):
    """The driver is gone, and with it every card; `needs_new_process` where this one can never open it again."""

    def __init__(self, call: str, code: int) -> None:
        remedy = _REMEDIES.get(code, "install it, load it, or see simulated cards by `gputab demo`")
        super().__init__(f"cannot reach the NVIDIA driver: nvml{call} answers {name_of(code)!r}; {remedy}")
        self.code = code
        self.needs_new_process = code in _MISMATCH


class Driver:
    """The driver of this machine; safe to use from several threads as far as NVML is."""

    def __init__(self, calls: CallTimes) -> None:
        """Opens it. Raises DriverGoneError where there is none, or not for this process."""
        self._calls = calls
        self._functions: dict[str, Callable[..., Any]] = {"VgpuInstanceGetFbUsage": _vgpu_used_bytes}
        # Asked for performance metrics from several threads at once, the driver has crashed.
        self.gpm_turn = GpmTurn(calls.now_s)
        try:
            self.ask("Init")
        except DriverError as error:
            raise DriverGoneError(error.call, error.code) from error

    def ask(self, call: str, *arguments: Any, **options: Any) -> Any:
        """What `nvml<call>` answers. Raises DriverError, CardLostError or DriverGoneError.

        UnicodeDecodeError where the driver says text that is none: the bindings decode it.
        """
        function = self._functions.get(call)
        if function is None:
            # The bindings themselves may be older than the function.
            function = self._functions[call] = getattr(pynvml, f"nvml{call}", _lacking)
        return self._timed(call, function, arguments, options)

    def ask_library(self, call: str, *arguments: Any) -> None:
        """As `ask`, of the library's own function with C's arguments: for structures that the bindings get wrong."""
        self._timed(call, _ask_library, (f"nvml{call}", *arguments), {})

    def _timed(self, call: str, function: Callable[..., Any], arguments: Any, options: Any) -> Any:
        began_s = self._calls.now_s()
        try:
            answer = function(*arguments, **options)
        except pynvml.NVMLError as error:
            code = int(error.value)
            self._calls.note(call, began_s, name_of(code))
            raise _failure(call, code) from error
        self._calls.note(call, began_s)
        return answer

    def answer(self, call: str, *arguments: Any, **options: Any) -> Any:
        """As `ask`, but a FieldState where this is all that fails: one field's failure is that field's alone."""
        try:
            return self.ask(call, *arguments, **options)
        except CardLostError:
            raise
        except DriverError as error:
            return error.state

    def fact(self, call: str, *arguments: Any, **options: Any) -> Any:
        """As `ask`, but None where there is no such thing, and only there: no card changes by failing to answer."""
        try:
            return self.ask(call, *arguments, **options)
        except DriverError as error:
            if not error.is_absence:
                raise
            return None

    def state(self, call: str, code: int) -> FieldState:
        """What an error says of one of many values that a call answers; UNSUPPORTED where it does not know the value.

        Raises CardLostError and DriverGoneError, as `answer` does.
        """
        failure = _failure(call, code)
        if isinstance(failure, CardLostError | DriverGoneError):
            raise failure
        return FieldState.UNSUPPORTED if code == INVALID_ARGUMENT else failure.state

    def next_event(self, events: Any, timeout_ms: int) -> Any:
        """The next event of a set; None where none came in time. It waits by design, so it is not timed.

        By the second version of the call: drivers lack the third. Raises as `ask`.
        """
        try:
            return pynvml.nvmlEventSetWait_v2(events, timeout_ms)
        except pynvml.NVMLError as error:
            code = int(error.value)
            if code == pynvml.NVML_ERROR_TIMEOUT:
                return None
            raise _failure("EventSetWait_v2", code) from error

    def close(self) -> None:
        """Let go of the driver; one that is gone has let go of us."""
        with suppress(DriverError, DriverGoneError):
            self.ask("Shutdown")


def gpm_request(metrics: Sequence[int]) -> Any:
    """A nvmlGpmMetricsGet_t for these metrics, to be used again and again: it is 19 kB."""
    request = pynvml.c_nvmlGpmMetricsGet_t()
    request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
    request.numMetrics = len(metrics)
    for row, metric in zip(request.metrics, metrics, strict=False):
        row.metricId = metric
    return request


def name_of(code: int) -> str:
    """The name of an nvmlReturn_t without its prefix, such as `GPU_IS_LOST`; its number where it has none here."""
    return _NAMES.get(code, str(code))


def _failure(call: str, code: int) -> DriverError | DriverGoneError:
    if code in _LOST:
        return CardLostError(call, code)
    if code in _GONE:
        return DriverGoneError(call, code)
    return DriverError(call, code)


def _vgpu_used_bytes(vgpu: int) -> int:
    """nvmlVgpuInstanceGetFbUsage, which writes 64 bits: the bindings keep 32 of them."""
    function = getattr(pynvml.nvmlLib, "nvmlVgpuInstanceGetFbUsage", None)
    if function is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    used_bytes = ctypes.c_uint64()
    code = function(vgpu, ctypes.byref(used_bytes))
    if code != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(code)
    return used_bytes.value


def _lacking(*_: Any, **__: Any) -> Any:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


def _ask_library(name: str, *arguments: Any) -> None:
    pynvml._nvmlCheckReturn(pynvml._nvmlGetFunctionPointer(name)(*arguments))  # noqa: SLF001 - they have no other door


_NAMES: dict[int, str] = {
    value: name.removeprefix("NVML_ERROR_")
    for name, value in vars(pynvml).items()
    if name.startswith("NVML_ERROR_") and isinstance(value, int)
}
