"""The life of the driver in this process: opened once and held, given up where it goes or is to be let go, and back.

A driver that is unloaded comes back when it is loaded again; one that was exchanged (its library and its kernel module
differ) comes back only in a new process, since the bindings never let go of a library.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from enum import StrEnum
from typing import NamedTuple

import structlog

from collector.call_times import CallTimes
from collector.nvml.driver import Driver, DriverGoneError
from collector.source import DriverGivenUpError, NewProcessNeededError
from domain.errors import UnavailableError

# How long to wait after a failure to open it, doubled up to the last, until it was open for as long as that.
_FIRST_WAIT_SECONDS = 0.5
_LAST_WAIT_SECONDS = 10.0

log = structlog.get_logger()


class DriverState(StrEnum):
    """What the driver is to this process."""

    OPEN = "open"
    GONE = "gone"
    MISMATCH = "mismatch"
    QUIESCED = "quiesced"


class DriverStatus(NamedTuple):
    """The state, how often the driver was opened, whether nothing of it is held, and whose calls still hold it."""

    state: DriverState
    opened: int
    is_released: bool
    in_the_way: tuple[str, ...]


class Opened(NamedTuple):
    """An open driver; handles are good for the one opening in which they were given out."""

    driver: Driver
    opening: int


class DriverAwayError(UnavailableError):
    """The driver is not open now; `state` says why."""

    def __init__(self, state: DriverState) -> None:
        super().__init__(f"cannot ask the NVIDIA driver: it is {state}; wait until it is back")
        self.state = state


class DriverLife:
    """Holds the driver, lends it to who calls it, and lets go of it when nobody does; safe for several threads."""

    def __init__(self, calls: CallTimes, release: Callable[[], None], give_up_s: int | None = None) -> None:
        """`release` frees what was allocated in the driver; it is called with no one using it, before it is closed.

        `give_up_s` is for how long it may be gone before it is given up; None for ever.
        """
        self._calls = calls
        self._release = release
        self._give_up_s = give_up_s
        self._lock = threading.Lock()
        self._state = DriverState.GONE
        self._driver: Driver | None = None
        self._leaving: Driver | None = None
        self._is_closing = False
        self._users: list[str] = []
        self._opened = 0
        self._opened_at_s = 0.0
        self._wait_s = _FIRST_WAIT_SECONDS
        self._try_at_s = 0.0
        self._gone_since_s: float | None = None
        self._new_process_at_s: float | None = None
        self._failed: int | None = None

    def status(self) -> DriverStatus:
        """What it is now."""
        with self._lock:
            is_released = self._driver is None and self._leaving is None
            return DriverStatus(self._state, self._opened, is_released, tuple(sorted(set(self._users))))

    def open(self) -> None:
        """Open it now. Raises DriverGoneError where that fails, after which `tend` goes on trying."""
        try:
            driver = Driver(self._calls)
        except DriverGoneError as error:
            self._note_failed(error)
            raise
        with self._lock:
            self._driver = driver
            self._state = DriverState.OPEN
            self._opened += 1
            self._opened_at_s = self._calls.now_s()
            self._gone_since_s = self._new_process_at_s = self._failed = None
        log.info("driver_opened", times=self._opened)

    def start_quiesced(self) -> None:
        """Do not open it before `tend` is told to."""
        self._state = DriverState.QUIESCED
        _say_quiesced()

    @contextmanager
    def use(self, user: str) -> Iterator[Opened]:
        """Lend the driver to `user`, who keeps it from being closed meanwhile.

        Raises DriverAwayError where it is not open, and passes on a DriverGoneError, after which it is not.
        """
        with self._lock:
            if self._driver is None:
                raise DriverAwayError(self._state)
            opened = Opened(self._driver, self._opened)
            self._users.append(user)
        try:
            yield opened
        except DriverGoneError as error:
            self._note_gone(opened, error)
            raise
        finally:
            with self._lock:
                self._users.remove(user)

    def is_open(self, opened: Opened) -> bool:
        """Whether that opening still holds; whoever uses it for long looks at this several times a second."""
        return self._driver is opened.driver

    def require_process(self) -> None:
        """Raises NewProcessNeededError once only a new process can go on, DriverGivenUpError once it is given up.

        The first comes at once where this one had the driver open; else, since another one just failed, after 10 s, or
        never where it is given up some day.
        """
        now_s, since_s, due_s = self._calls.now_s(), self._gone_since_s, self._new_process_at_s
        if self._give_up_s is not None and since_s is not None and now_s - since_s >= self._give_up_s:
            raise DriverGivenUpError(
                f"cannot go on without the NVIDIA driver, which has been away for {self._give_up_s} s; start the "
                "container again that the collector is in, or see dmesg"
            )
        if due_s is not None and now_s >= due_s:
            raise NewProcessNeededError("cannot go on with the library of another driver; start the collector again")

    def tend(self, *, quiesce: bool) -> None:
        """Close or open the driver as is due. To be called several times a second, by one thread."""
        with self._lock:
            if quiesce and self._state is not DriverState.QUIESCED:
                self._leave(DriverState.QUIESCED)
                self._gone_since_s = self._new_process_at_s = None
                _say_quiesced()
        if self._leaving is not None:
            if self._close_left():
                log.info("driver_released", state=str(self._state))
        elif self._driver is None and not quiesce and self._is_due():
            # That it failed was said, and when to try again was noted.
            with suppress(DriverGoneError):
                self.open()

    def close(self) -> None:
        """Let go of the driver for good, unless a call hangs in it. May hang, as every call of the driver may."""
        with self._lock:
            self._leave(DriverState.QUIESCED)
        if self._leaving is not None:
            self._close_left()

    def _is_due(self) -> bool:
        return self._state is DriverState.QUIESCED or self._calls.now_s() >= self._try_at_s

    def _note_failed(self, error: DriverGoneError) -> None:
        with self._lock:
            self._state = _state_after(error)
            self._note_away(self._calls.now_s())
            is_news = self._failed != error.code
            self._failed = error.code
        if is_news:
            log.warning("driver_not_opened", state=str(self._state), reason=str(error))

    def _note_gone(self, opened: Opened, error: DriverGoneError) -> None:
        with self._lock:
            if self._driver is not opened.driver:
                return
            self._leave(_state_after(error))
            now_s = self._calls.now_s()
            if now_s - self._opened_at_s >= _LAST_WAIT_SECONDS:
                self._wait_s = _FIRST_WAIT_SECONDS
            self._note_away(now_s)
            state = str(self._state)
        log.warning("driver_gone", state=state, reason=str(error))

    def _note_away(self, now_s: float) -> None:
        """Note since when it is gone, when to try again, and when a new process is due. Call with the lock held."""
        # Later each time, as where one that was opened did not last.
        self._try_at_s = now_s + self._wait_s
        self._wait_s = min(2 * self._wait_s, _LAST_WAIT_SECONDS)
        if self._gone_since_s is None:
            self._gone_since_s = now_s
        if self._state is DriverState.MISMATCH and self._new_process_at_s is None:
            if self._opened:
                self._new_process_at_s = now_s
            elif self._give_up_s is None:
                self._new_process_at_s = now_s + _LAST_WAIT_SECONDS

    def _leave(self, state: DriverState) -> None:
        """Lend it no more. Call with the lock held."""
        self._state = state
        self._leaving = self._driver or self._leaving
        self._driver = None

    def _close_left(self) -> bool:
        """Close the driver that is lent no more; False while somebody still uses it."""
        with self._lock:
            if self._users or self._is_closing or self._leaving is None:
                return False
            driver, self._is_closing = self._leaving, True
        self._release()
        driver.close()
        with self._lock:
            self._leaving, self._is_closing = None, False
        return True


def _say_quiesced() -> None:
    # Who has forgotten it finds it in the log, also of a process that was started since.
    log.info("driver_quiesced", remedy="take the cards up again by `gputab quiesce --resume`")


def _state_after(error: DriverGoneError) -> DriverState:
    return DriverState.MISMATCH if error.needs_new_process else DriverState.GONE
