"""Those who wait for the end of a claim, held until they leave.

The kernel keeps a connection that nobody accepts, also when who made it has gone. With a few of those nobody more could
see who has the claim.
"""

import select
import selectors
import socket
from contextlib import suppress
from functools import partial
from threading import Thread

from collector.tasks import THREAD_NAME

# Who comes when there are so many is sent away, and knows by then whose the claim is: no tenant is to use up what this
# process may have open.
_SEATS = 64
# Between two who come: one that comes and goes without end, or cannot be let in, must not keep this process busy.
_PAUSE_SECONDS = 0.01


class WaitingRoom:
    """The connections to a listening socket, on a thread of its own. Each is told one thing as it comes."""

    def __init__(self, node: str, door: socket.socket, word: bytes) -> None:
        """`door` is that socket, which is the room's from now on; `word` is what they are told."""
        door.setblocking(False)
        self._door = door
        self._word = word
        self._waiting: set[socket.socket] = set()
        self._bell, self._rung = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._rung, selectors.EVENT_READ)
        self._selector.register(door, selectors.EVENT_READ, self._let_in)
        self._thread = Thread(target=self._run, name=f"{THREAD_NAME} {node}", daemon=True)
        self._thread.start()

    def hand_on(self) -> None:
        """Let the program have the door that this process is about to become; who waits has to come again."""
        self._door.set_inheritable(True)

    def close(self) -> None:
        """Close the door, which frees its name, and only then let those who wait see it."""
        self._bell.close()
        self._thread.join()
        self._selector.close()
        for each in (self._door, self._rung, *self._waiting):
            each.close()

    def _run(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._rung:
                    return
                key.data()

    def _let_in(self) -> None:
        select.select([self._rung], [], [], _PAUSE_SECONDS)
        try:
            waiting, _ = self._door.accept()
        except OSError:
            # It has left again, or this process has too much open.
            return
        if len(self._waiting) == _SEATS:
            waiting.close()
            return
        with suppress(OSError):
            waiting.send(self._word)
        self._waiting.add(waiting)
        # None of them says anything: it will have left.
        self._selector.register(waiting, selectors.EVENT_READ, partial(self._see_off, waiting))

    def _see_off(self, waiting: socket.socket) -> None:
        self._selector.unregister(waiting)
        self._waiting.remove(waiting)
        waiting.close()
