"""Who collects for a node: one process of a machine at a time, though several may have been started.

The claim is a name among the kernel's own for Unix sockets (unix(7), "abstract"). All processes of a network namespace
see it, it ends with the process that has it, however that ends, and leaves no file behind.
"""

import errno
import hashlib
import os
import select
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import structlog

from collector.waiting_room import WaitingRoom

# pid, uid and gid of who listens, as they were when it began to: SO_PEERCRED of unix(7).
_CREDENTIALS = struct.Struct("3i")
# So many can come at once, before the waiting room has let the first in.
_COMING = 128
# A path has no more (PATH_MAX).
_WORD_BYTES = 4_096
# One that is about to listen, or has just ended, says nothing for a moment.
_TRIES = 20
_TRY_SECONDS = 0.1

log = structlog.get_logger()


class Holder(NamedTuple):
    """Who has a claim, and a connection to it that ends when it does; the PID is 0 in another PID namespace."""

    pid: int
    uid: int
    connection: socket.socket


class NodeClaim:
    """This process's claim to be the one that tells of a node; used from one thread.

    Only who runs as root, or as this very user, is believed to have it: any user can take a name, and a tenant must not
    keep a node from being measured.
    """

    def __init__(self, node: str, store_url: str, state: Path) -> None:
        """Collectors of one node are in each other's way where they tell the same store.

        `state` is the file in which this one puts down what is to be known over restarts; the next is told of it.
        """
        store = urlsplit(store_url)
        # Without a password that may be in it, since all names are for everyone to see.
        told = f"{node}\n{store.hostname}\n{store.port}\n{store.path}"
        self._node = node
        self.name = f"\0gputab-collector-{hashlib.sha256(told.encode()).hexdigest()[:32]}"
        """Of the socket."""
        self.former_state: Path | None = None
        """That file of the last that was waited for; None where none was, or it had no time to say."""
        self._state = state
        self._mine: WaitingRoom | None = None
        self._holder: Holder | None = None

    @property
    def holder_pid(self) -> int | None:
        """The process that has it instead; None where none is known to."""
        return self._holder.pid if self._holder is not None else None

    def take(self) -> bool:
        """Whether the node is ours now: nobody who is believed has it, or this machine knows no such names.

        One that was handed on by a former program of this process is ours.
        """
        for _ in range(_TRIES):
            try:
                if self._mine is None:
                    word = os.fsencode(self._state.absolute())
                    self._mine = WaitingRoom(self._node, self._handed_on() or self._listen(), word)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    log.warning("node_not_claimed", node=self._node, error=error.strerror, remedy="run one collector")
                    return True
            if self._mine is not None:
                self._let_go_of_holder()
                return True
            self._holder = self._holder or self._find_holder()
            if self._holder is not None:
                return not self._is_believed(self._holder)
            select.select([], [], [], _TRY_SECONDS)
        log.warning(
            "node_claim_not_believed", node=self._node, remedy="end the process that has it; it does not answer"
        )
        return True

    def wait(self, seconds: float) -> None:
        """Return when who has it has ended, or after so long."""
        while select.select([] if self._holder is None else [self._holder.connection], [], [], seconds)[0]:
            if not self._hear_holder():
                self._let_go_of_holder()
                # One that has too many waiting, or becomes a new program, lets go of us and lives on.
                select.select([], [], [], _TRY_SECONDS)
                return

    def hand_on(self) -> None:
        """Let the program have it that this process is about to become."""
        if self._mine is not None:
            self._mine.hand_on()

    def close(self) -> None:
        """Give it up, to whoever waits for that."""
        self._let_go_of_holder()
        if self._mine is not None:
            self._mine.close()
            self._mine = None

    def _handed_on(self) -> socket.socket | None:
        """The socket of that name that a former program of this process has left open for us."""
        for path in Path("/proc/self/fd").iterdir():
            fd = int(path.name)
            # That of the list itself is open no more.
            with suppress(OSError):
                if not (os.get_inheritable(fd) and stat.S_ISSOCK(os.fstat(fd).st_mode)):
                    continue
                with socket.fromfd(fd, socket.AF_UNIX, socket.SOCK_STREAM) as copy:
                    if copy.getsockname() == self.name.encode():
                        os.close(fd)
                        return socket.socket(fileno=copy.detach())
        return None

    def _listen(self) -> socket.socket:
        mine = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            mine.bind(self.name)
            mine.listen(_COMING)
        except OSError:
            mine.close()
            raise
        return mine

    def _find_holder(self) -> Holder | None:
        """Who has the claim; None where it does not answer."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.setblocking(False)
        try:
            connection.connect(self.name)
            pid, uid, _ = _CREDENTIALS.unpack(
                connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
            )
        except OSError:
            connection.close()
            return None
        return Holder(pid, uid, connection)

    def _is_believed(self, holder: Holder) -> bool:
        if _is_one_of_us(holder):
            return True
        remedy = "run one collector a node, as root; if that process is none, end it"
        log.warning("node_claim_not_believed", node=self._node, pid=holder.pid, uid=holder.uid, remedy=remedy)
        return False

    def _hear_holder(self) -> bool:
        """Note what has come of who has it; False where nothing has, or it has ended."""
        word = b""
        if self._holder is not None and _is_one_of_us(self._holder):
            with suppress(OSError):
                word = self._holder.connection.recv(_WORD_BYTES)
        if word:
            self.former_state = Path(os.fsdecode(word))
        return bool(word)

    def _let_go_of_holder(self) -> None:
        if self._holder is not None:
            # It may have ended as soon as it had said it.
            self._hear_holder()
            self._holder.connection.close()
            self._holder = None


def _is_one_of_us(holder: Holder) -> bool:
    return holder.uid in {0, os.geteuid()}
