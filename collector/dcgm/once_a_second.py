"""One question per second, whoever asks first: the threads of all cards wait for one answer."""

from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

_Answer = TypeVar("_Answer")


class OnceASecond(Generic[_Answer]):
    """Asks once for each second; safe to use from several threads."""

    def __init__(self, ask: Callable[[int], _Answer]) -> None:
        """`ask` is called with the second, and may raise."""
        self._ask = ask
        self._lock = Lock()
        self._second_s: int | None = None
        self._latest: Future[_Answer] = Future()

    def of_second(self, second_s: int) -> _Answer:
        """The answer of that second, the same one for all who ask; its error is raised for all of them, too."""
        with self._lock:
            # Not "later": a clock may be set back.
            is_first = second_s != self._second_s
            if is_first:
                self._second_s, self._latest = second_s, Future()
            latest = self._latest
        if is_first:
            try:
                latest.set_result(self._ask(second_s))
            except Exception as error:  # noqa: BLE001 - each thread that waits raises it
                latest.set_exception(error)
        return latest.result()
