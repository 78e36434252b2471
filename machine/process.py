"""Child processes: short ones whose words we want, servers that end when told to and when we die."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from domain.clock import Clock
from domain.errors import UnavailableError

POLL_INTERVAL_S = 0.02
LOG_TAIL_BYTES = 4096


class Child:
    """A server process of ours, in a session of its own, its output appended to a log file.

    A session of its own keeps Ctrl-C from it: the terminal signals the whole foreground group, and a server
    must outlive the clients that still flush to it. Where util-linux's setpriv is on PATH the kernel sends
    SIGTERM to the child when the *thread* that made it ends, however it ends: make children in a thread that
    stays.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        folder: Path | None = None,
    ) -> None:
        """Start `command` without a shell, in `folder` (None: the current one).

        Raises UnavailableError where there is no such program.
        """
        words = [str(word) for word in command]
        if shutil.which(words[0]) is None:
            raise UnavailableError(f"cannot start '{words[0]}': it is not an executable program; install it")
        self.name = Path(words[0]).name
        self.log = log
        setpriv = shutil.which("setpriv")
        tie = [setpriv, "--pdeathsig", "TERM", "--"] if setpriv is not None else []
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*tie, *words],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """None while it runs; the negative signal number where a signal ended it."""
        return self._process.poll()

    def wait_until(self, probe: Callable[[], bool], *, timeout_s: float, clock: Clock) -> None:
        """Block until `probe` is true.

        Raises UnavailableError, with the last line of the log, when the process ends or the time is over
        first. The child runs on: leaving the `with` block stops it.
        """
        deadline_s = clock.monotonic_s() + timeout_s
        while not probe():
            if self.exit_code is not None:
                raise UnavailableError(f"cannot use {self.name}: it ended with {self.exit_code}; {self._last_words()}")
            if clock.monotonic_s() >= deadline_s:
                raise UnavailableError(
                    f"cannot use {self.name}: it was not ready after {timeout_s:g} s; {self._last_words()}"
                )
            clock.sleep_s(POLL_INTERVAL_S)

    def stop(self, *, grace_s: float = 10) -> int:
        """End it, by SIGKILL of its whole session when `grace_s` is over, and return the exit code.

        A second call does nothing.
        """
        if self._process.poll() is None:
            self._process.terminate()
            try:
                return self._process.wait(timeout=grace_s)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
        return self._process.wait()

    def _last_words(self) -> str:
        last = last_line(self.log)
        return f"'{self.log}' ends with '{last}'" if last else f"'{self.log}' is empty"


def last_line(log: Path) -> str:
    """The last line of the file that has something in it, as far as its last 4 KiB tell; '' where there is none."""
    with log.open("rb") as output:
        output.seek(max(0, output.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
        lines = output.read().decode("utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def run(
    command: Sequence[str | Path], *, folder: Path | None = None, timeout_s: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `command` to its end, without a shell or input; `stdout` has what it printed, its errors among it.

    Raises OSError where it cannot be started, subprocess.TimeoutExpired where it was killed for taking longer.
    """
    return subprocess.run(
        command,
        cwd=folder,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )


def free_port() -> int:
    """A TCP port on loopback that nothing listens on now. Another process may take it before we do."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port
