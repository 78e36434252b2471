"""The door to the NVIDIA driver: the one file that imports its bindings.

Every call goes through `Driver.ask` or `Driver.answer`, where it is timed and where the driver's error codes (nvml.h)
become what the rest of the collector tells apart: a field that the card cannot tell, a card that is lost, a driver
that is gone.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pynvml

from collector.call_times import CallTimes
from collector.source import SourceGoneError
from domain.errors import UnavailableError
from domain.samples import FieldState

# Structures are versioned by their size (nvml.h, NVML_STRUCT_VERSION).
MEMORY_VERSION_2 = pynvml.nvmlMemory_v2

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
        super().__init__(
            f"cannot reach the NVIDIA driver: nvml{call} answers {name_of(code)!r}; install it, load it, or see "
            "simulated cards by `gputab demo`"
        )
        self.code = code
        self.needs_new_process = code in _MISMATCH


class Driver:
    """The driver of this machine; safe to use from several threads as far as NVML is."""

    def __init__(self, calls: CallTimes) -> None:
        """Opens it. Raises DriverGoneError where there is none, or not for this process."""
        self._calls = calls
        self._functions: dict[str, Callable[..., Any]] = {}
        self.ask("Init")

    def ask(self, call: str, *arguments: Any, **options: Any) -> Any:
        """What `nvml<call>` answers. Raises DriverError, CardLostError or DriverGoneError.

        UnicodeDecodeError where the driver says text that is none: the bindings decode it.
        """
        function = self._functions.get(call)
        if function is None:
            # The bindings themselves may be older than the function.
            function = self._functions[call] = getattr(pynvml, f"nvml{call}", _lacking)
        began_s = self._calls.now_s()
        try:
            answer = function(*arguments, **options)
        except pynvml.NVMLError as error:
            code = int(error.value)
            self._calls.note(call, began_s, name_of(code))
            if code in _LOST:
                raise CardLostError(call, code) from error
            if code in _GONE:
                raise DriverGoneError(call, code) from error
            raise DriverError(call, code) from error
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

    def close(self) -> None:
        """Let go of the driver; one that is gone has let go of us."""
        with suppress(DriverError, DriverGoneError):
            self.ask("Shutdown")


def name_of(code: int) -> str:
    """The name of an nvmlReturn_t without its prefix, such as `GPU_IS_LOST`; its number where it has none here."""
    return _NAMES.get(code, str(code))


def _lacking(*_: Any, **__: Any) -> Any:
    raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


_NAMES: dict[int, str] = {
    value: name.removeprefix("NVML_ERROR_")
    for name, value in vars(pynvml).items()
    if name.startswith("NVML_ERROR_") and isinstance(value, int)
}
