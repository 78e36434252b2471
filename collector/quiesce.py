"""Letting go of the cards so that an operator can change them, and taking them up again: the two sides of it.

Two files per node, in the folder of data. One exists while the cards are to be let go of, over restarts too. In the
other the collector says what it holds; it is locked for as long as the collector lives, however that ends.
"""

import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import IO, NamedTuple
from urllib.parse import quote

import structlog

from domain.clock import Clock
from domain.errors import UnavailableError

# A collector that a supervisor starts again is there by then.
_NOBODY_SECONDS = 5.0
_POLL_SECONDS = 0.1

log = structlog.get_logger()


class Holding(NamedTuple):
    """What a collector says: the driver's state, whether nothing of it is held, and whose calls still hold it."""

    state: str
    is_released: bool
    in_the_way: tuple[str, ...]


class QuiesceDesk:
    """The collector's side: whether the cards are to be let go of, and what is said of that."""

    def __init__(self, data_dir: Path, node: str) -> None:
        self._request = _request_path(data_dir, node)
        self._report = _report_path(data_dir, node)
        self._file: IO[str] | None = None
        self._signalled: bool | None = None
        self._said: Holding | None = None
        self._failing: set[str] = set()

    def signal(self, *, quiesce: bool) -> None:
        """A signal asks for it, or takes it back; fit for a signal handler."""
        self._signalled = quiesce

    def is_wanted(self) -> bool:
        """Whether the cards are to be let go of. What a signal asked for is put down in the file."""
        signalled = self._signalled
        if signalled is None:
            return self._request.exists()
        try:
            (_ask if signalled else _take_back)(self._request)
        except OSError as error:
            self._fail("quiesce_not_noted", self._request, error)
        else:
            self._failing.discard("quiesce_not_noted")
            # Another signal may have come meanwhile.
            if self._signalled is signalled:
                self._signalled = None
        return signalled

    def say(self, holding: Holding) -> None:
        """Say what is held now, where that has changed."""
        if holding == self._said:
            return
        try:
            if self._file is None:
                self._report.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._report.open("a+")
                fcntl.flock(self._file, fcntl.LOCK_EX)
            self._file.seek(0)
            self._file.truncate()
            self._file.write(json.dumps({"pid": os.getpid(), **holding._asdict()}) + "\n")
            self._file.flush()
        except OSError as error:
            self._fail("quiesce_unanswered", self._report, error)
        else:
            self._said = holding
            self._failing.discard("quiesce_unanswered")

    def close(self) -> None:
        """The collector ends."""
        if self._file is not None:
            self._file.close()

    def _fail(self, event: str, path: Path, error: OSError) -> None:
        if event not in self._failing:
            log.error(event, path=str(path), error=error.strerror, remedy="free the disk, or let us write there")
        self._failing.add(event)


class QuiesceCaller:
    """The operator's side."""

    def __init__(self, data_dir: Path, node: str, clock: Clock) -> None:
        self._node = node
        self._request = _request_path(data_dir, node)
        self._report = _report_path(data_dir, node)
        self._clock = clock

    def quiesce(self, patience_s: float) -> None:
        """Ask the collector to let go of the cards, and return when it holds nothing of them.

        Raises UnavailableError where it does not within `patience_s`, as while a call hangs in the driver: then the
        request stands. Where no collector of the node runs it is taken back.
        """
        was_asked = self._request.exists()
        self._change(_ask)
        try:
            held = self._wait_for(lambda holding: holding.is_released and holding.state == "quiesced", patience_s)
        except UnavailableError:
            if not was_asked:
                self._change(_take_back)
            raise
        if held is not None:
            users = ", ".join(held.in_the_way) or "the driver itself"
            raise UnavailableError(
                f"cannot release the cards of {self._node!r}: after {patience_s:.0f} s a call still hangs ({users}); "
                "see dmesg, or kill the collector (the request stands: take it back by `gputab quiesce --resume`)"
            )

    def resume(self, patience_s: float) -> str:
        """Take the request back, and return the state of the driver once the collector has taken it up again.

        Raises UnavailableError where it does not within `patience_s`, or where no collector of the node runs, in
        which case the next one will.
        """
        self._change(_take_back)
        last = ""

        def is_over(holding: Holding) -> bool:
            nonlocal last
            last = holding.state
            return holding.state != "quiesced"

        if self._wait_for(is_over, patience_s) is not None:
            raise UnavailableError(
                f"cannot see that the cards of {self._node!r} are taken up again after {patience_s:.0f} s; "
                "see the collector's log"
            )
        return last

    def _wait_for(self, is_done: Callable[[Holding], bool], patience_s: float) -> Holding | None:
        """None once it is done, else what is held at the end of our patience. Raises where nobody is there."""
        began_s = self._clock.monotonic_s()
        seen_s = began_s
        while True:
            holding = self._read()
            now_s = self._clock.monotonic_s()
            if holding is not None:
                seen_s = now_s
                if is_done(holding):
                    return None
                if now_s - began_s >= patience_s:
                    return holding
            elif now_s - seen_s >= _NOBODY_SECONDS:
                raise UnavailableError(
                    f"cannot reach the collector of {self._node!r}: none that reads the cards by the driver runs here; "
                    "name its node by --node, use its 'data_dir', or start it"
                )
            self._clock.sleep_s(_POLL_SECONDS)

    def _read(self) -> Holding | None:
        """What the collector says; None where none runs, or it has not said anything yet."""
        try:
            with self._report.open() as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    said = json.loads(file.read())
                    return Holding(said["state"], said["is_released"], tuple(said["in_the_way"]))
        except (FileNotFoundError, ValueError):
            pass
        except OSError as error:
            raise UnavailableError(
                f"cannot read {str(self._report)!r}: {error.strerror}; call this as the collector's user"
            ) from error
        return None

    def _change(self, change: Callable[[Path], None]) -> None:
        try:
            change(self._request)
        except OSError as error:
            raise UnavailableError(
                f"cannot change {str(self._request)!r}: {error.strerror}; call this as the collector's user, or free "
                "the disk"
            ) from error


def _request_path(data_dir: Path, node: str) -> Path:
    return data_dir / f"quiesce-{quote(node, safe='')}"


def _report_path(data_dir: Path, node: str) -> Path:
    return data_dir / f"driver-{quote(node, safe='')}.json"


def _ask(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()


def _take_back(path: Path) -> None:
    path.unlink(missing_ok=True)
