"""Children end when told to, when they will not, and when we die."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from domain.clock import FrozenClock, SystemClock
from domain.errors import UnavailableError
from machine.process import Child, free_port

IN_GOOD_ORDER = 'trap "echo stopping; exit 7" TERM; echo ready; while :; do sleep 0.02; done'
STUBBORN = 'trap "" TERM; sleep 1000 & echo $!; echo ready; while :; do sleep 0.02; done'

PARENT = """
import sys
from pathlib import Path
from machine.process import Child
child = Child(["sleep", "1000"], log=Path(sys.argv[1]))
print(child.pid, flush=True)
sys.stdin.read()
"""


def shell(script: str, log: Path) -> Child:
    return Child(["sh", "-c", script], log=log)


def says_ready(child: Child) -> Callable[[], bool]:
    return lambda: "ready" in child.log.read_text()


def is_gone(pid: int) -> bool:
    """Dead, whether or not its new parent has already reaped it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(pid: int) -> bool:
    return wait_until(lambda: is_gone(pid))


def wait_until(condition: Callable[[], bool]) -> bool:
    deadline_s = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline_s:
        time.sleep(0.02)
    return condition()


def test_a_child_is_asked_to_end_in_good_order(tmp_path: Path) -> None:
    with shell(IN_GOOD_ORDER, tmp_path / "log") as child:
        child.wait_until(says_ready(child), timeout_s=10, clock=SystemClock())
        assert child.exit_code is None
        assert child.stop() == 7
        assert child.stop() == 7, "a second stop does nothing"
    assert (tmp_path / "log").read_text() == "ready\nstopping\n"


def test_a_child_that_will_not_end_is_killed_with_all_it_started(tmp_path: Path) -> None:
    child = shell(STUBBORN, tmp_path / "log")
    child.wait_until(says_ready(child), timeout_s=10, clock=SystemClock())
    grandchild = int((tmp_path / "log").read_text().split()[0])
    assert child.stop(grace_s=0.1) == -signal.SIGKILL
    assert wait_until_gone(grandchild)


def test_leaving_the_block_by_an_error_stops_the_child(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ours"), shell("sleep 1000", tmp_path / "log") as child:
        raise ValueError("ours")
    assert child.exit_code == -signal.SIGTERM


def test_a_child_that_ends_early_is_told_with_its_last_words(tmp_path: Path) -> None:
    with shell("echo first; echo cannot open the port >&2; exit 3", tmp_path / "log") as child:
        expected = r"cannot use sh: it ended with 3; '.*log' ends with 'cannot open the port'"
        with pytest.raises(UnavailableError, match=expected):
            child.wait_until(lambda: False, timeout_s=10, clock=SystemClock())


def test_a_child_that_is_never_ready_is_told_and_can_still_be_stopped(tmp_path: Path) -> None:
    clock = FrozenClock(0)
    with shell("sleep 1000", tmp_path / "log") as child:
        with pytest.raises(UnavailableError, match=r"not ready after 5 s; '.*log' is empty"):
            child.wait_until(lambda: False, timeout_s=5, clock=clock)
        assert child.exit_code is None
    assert clock.monotonic_s() >= 5
    assert child.exit_code is not None


def test_a_log_is_added_to(tmp_path: Path) -> None:
    for word in ("one", "two"):
        child = shell(f"echo {word}", tmp_path / "deep" / "log")
        child._process.wait()
    assert (tmp_path / "deep" / "log").read_text() == "one\ntwo\n"


def test_a_child_runs_in_its_folder_and_outside_our_session(tmp_path: Path) -> None:
    """Ctrl-C goes to the whole foreground group; the child is to be stopped by us, in our order."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with Child(["sh", "-c", "pwd; exec sleep 1000"], log=tmp_path / "log", folder=folder) as child:
        child.wait_until(lambda: (tmp_path / "log").stat().st_size > 0, timeout_s=10, clock=SystemClock())
        assert os.getsid(child.pid) == child.pid != os.getsid(0)
    assert (tmp_path / "log").read_text().strip() == str(folder)


@pytest.mark.parametrize("program", ["no-such-program", "/etc/os-release", "/"])
def test_what_is_no_program_is_refused_before_anything_is_started(tmp_path: Path, program: str) -> None:
    with pytest.raises(UnavailableError, match=f"cannot start '{program}'"):
        Child([program], log=tmp_path / "log")
    assert not (tmp_path / "log").exists()


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv of util-linux")
def test_a_child_dies_with_its_parent_however_that_dies(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, tmp_path / "log"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        # By then setpriv has tied it, and has become what it was to run.
        assert wait_until(lambda: Path(f"/proc/{child}/comm").read_text() == "sleep\n")
        parent.kill()
        assert wait_until_gone(child)


def test_a_free_port_can_be_listened_on() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", free_port()))
        listener.listen()
