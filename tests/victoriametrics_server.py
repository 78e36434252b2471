"""A VictoriaMetrics of a test's own, on loopback, with the command that gputab starts one by."""

from collections.abc import Sequence
from pathlib import Path

import httpx

from domain.clock import SystemClock
from machine.process import Child
from victoriametrics.launcher import RETENTION, command

# How long a busy machine may take for what takes a second.
START_TIMEOUT_S = 60.0


def start(*, binary: Path, port: int, folder: Path, retention: str = RETENTION, flags: Sequence[str] = ()) -> Child:
    """A server that answers, with its data and its log in `folder`; of equal flags the last counts.

    The caller stops it, by `with` or `stop`. Raises UnavailableError, and leaves no process, where it does not come up.
    """
    words = command(binary=binary, port=port, data_dir=folder / "data", retention=retention)
    return until_healthy(Child([*words, *flags], log=folder / "log"), f"http://127.0.0.1:{port}/health")


def until_healthy(child: Child, url: str) -> Child:
    """The server, as soon as it answers at `url` that it is well.

    Raises UnavailableError, and leaves no process, where it does not come up.
    """

    def answers() -> bool:
        try:
            return httpx.get(url, trust_env=False).is_success
        except httpx.TransportError:
            return False

    try:
        child.wait_until(answers, timeout_s=START_TIMEOUT_S, clock=SystemClock())
    except BaseException:
        child.stop()
        raise
    return child
