"""What a collector does beside sampling: each on a thread of its own, and all end where one of them breaks."""

from collections.abc import Callable, Iterable
from threading import Event, Thread

from domain.clock import Clock

# What the threads of a collector are called, with its node behind it.
THREAD_NAME = "collector of"


class Tasks:
    """Tasks at work, until an event of theirs is set."""

    def __init__(self, node: str, tasks: Iterable[Callable[[Event], None]], stop: Event) -> None:
        """Each is called with `stop`, and returns soon after that is set, which it is where one of them breaks."""
        self._failures: list[Exception] = []
        self._threads = [
            Thread(target=self._guard, args=(task, stop), name=f"{THREAD_NAME} {node}", daemon=True) for task in tasks
        ]
        for thread in self._threads:
            thread.start()

    @property
    def failure(self) -> Exception | None:
        """What broke the first that did."""
        return self._failures[0] if self._failures else None

    def join(self, seconds: float, clock: Clock) -> None:
        """Let them end, for at most so long."""
        until_s = clock.monotonic_s() + seconds
        for thread in self._threads:
            thread.join(max(0.0, until_s - clock.monotonic_s()))

    def is_at_work(self, number: int) -> bool:
        """Whether that task, counted from 0, has not ended."""
        return self._threads[number].is_alive()

    def _guard(self, task: Callable[[Event], None], stop: Event) -> None:
        """Where a task breaks all are to end, since a collector that only samples looks alive."""
        try:
            task(stop)
        except Exception as error:  # noqa: BLE001 - whatever it is, who started the tasks raises it
            self._failures.append(error)
            stop.set()
