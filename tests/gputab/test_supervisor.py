"""supervisord as gputab uses it: real processes, in order, gone at the end."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from domain.clock import SystemClock
from domain.errors import InputError, UnavailableError
from gputab.supervisor import Program, Supervisor, configuration

CLOCK = SystemClock()
SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()


def _until(condition: Callable[[], bool], timeout_s: float = 15) -> bool:
    deadline_s = CLOCK.monotonic_s() + timeout_s
    while CLOCK.monotonic_s() < deadline_s:
        if condition():
            return True
        CLOCK.sleep_s(0.05)
    return False


def _writes_pid(path: Path) -> list[str]:
    program = "import os, pathlib, sys, time; pathlib.Path(sys.argv[1]).write_text(str(os.getpid())); time.sleep(600)"
    return [sys.executable, "-c", program, str(path)]


@pytest.fixture
def pid_file(tmp_path: Path) -> Path:
    """Where a program writes its process id."""
    return tmp_path / "pid"


def test_a_program_gets_its_environment_and_its_log(tmp_path: Path) -> None:
    """A percent sign in a value is the value's own; what a program prints is in the file of its name."""
    words = [sys.executable, "-c", "import os, time; print(os.environ['GREETING'], flush=True); time.sleep(600)"]
    with Supervisor([Program("talker", words, 10, {"GREETING": "100% %(here)s"})], tmp_path, CLOCK) as supervisor:
        supervisor.start("talker", ready=lambda: (tmp_path / "talker.log").read_text().endswith("\n"))
        assert (tmp_path / "talker.log").read_text() == "100% %(here)s\n"


def test_no_program_outlives_the_block(tmp_path: Path, pid_file: Path) -> None:
    """Whatever is still running is stopped."""
    with Supervisor([Program("sleeper", _writes_pid(pid_file), 10)], tmp_path / "logs", CLOCK) as supervisor:
        supervisor.start("sleeper", ready=pid_file.exists)
        pid = int(pid_file.read_text())
        assert _is_alive(pid)
    assert not _is_alive(pid)


def test_a_program_that_dies_is_started_again(tmp_path: Path, pid_file: Path) -> None:
    """A kill -9 of a collector costs seconds, not the night."""
    with Supervisor([Program("sleeper", _writes_pid(pid_file), 10)], tmp_path / "logs", CLOCK) as supervisor:
        supervisor.start("sleeper", ready=pid_file.exists)
        before = int(pid_file.read_text())
        pid_file.unlink()
        os.kill(before, signal.SIGKILL)
        assert _until(pid_file.exists)
        assert int(pid_file.read_text()) != before


def test_a_program_that_cannot_run_is_named_with_its_log(tmp_path: Path) -> None:
    """One that ends at once is tried again, as a port may still be taken; then it is refused, in its own words.

    supervisord goes on trying: nobody may be there to start it when what it waits for has come.
    """
    words = [sys.executable, "-c", "print('cannot begin: no database; make one', flush=True); raise SystemExit(3)"]
    with Supervisor([Program("broken", words, 10)], tmp_path, CLOCK) as supervisor:
        with pytest.raises(UnavailableError) as refused:
            supervisor.start("broken", ready=lambda: False)
        (info,) = supervisor._rpc.getAllProcessInfo()
        assert info["statename"] in ("BACKOFF", "STARTING")
    log = tmp_path / "broken.log"
    assert str(refused.value) == (f"cannot keep 'broken' running (cannot begin: no database; make one): see '{log}'")
    assert log.read_text().count("cannot begin") > 1


def test_a_program_that_is_not_waited_for_is_found_out_by_a_check(tmp_path: Path) -> None:
    """As the demo's collectors and meter are, once a second."""
    words = [sys.executable, "-c", "raise SystemExit('cannot read the world; write it')"]
    with Supervisor([Program("broken", words, 10)], tmp_path, CLOCK) as supervisor:
        supervisor.start("broken")

        def watch() -> None:
            for _ in range(60):
                supervisor.check()
                CLOCK.sleep_s(0.5)

        with pytest.raises(UnavailableError, match="cannot read the world; write it"):
            watch()


def test_a_program_of_a_service_is_tried_for_longer_than_any_outage(tmp_path: Path) -> None:
    """supervisord waits 1 s, 2 s, 3 s and so on between starts."""
    text = configuration([Program("allocator", SLEEP, 10)], tmp_path, tmp_path / "s")
    (retries,) = re.findall(r"^startretries=(\d+)$", text, re.MULTILINE)
    assert sum(range(int(retries) + 1)) > 365 * 86_400


def test_programs_die_with_a_gputab_that_is_killed(tmp_path: Path, pid_file: Path) -> None:
    """Not even kill -9 of gputab leaves a process behind."""
    program = f"""
import sys, time
from pathlib import Path
from domain.clock import SystemClock
from gputab.supervisor import Program, Supervisor
sleeper = Program("sleeper", {_writes_pid(pid_file)!r}, 10)
supervisor = Supervisor([sleeper], Path({str(tmp_path / "logs")!r}), SystemClock())
supervisor.start("sleeper", ready=Path({str(pid_file)!r}).exists)
print("up", flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as gputab:
        assert gputab.stdout is not None
        assert gputab.stdout.readline() == "up\n"
        pid = int(pid_file.read_text())
        gputab.kill()
    assert _until(lambda: not _is_alive(pid))


def test_the_configuration_is_for_its_owner_alone(tmp_path: Path) -> None:
    """It holds tokens."""
    with Supervisor([Program("sleeper", SLEEP, 10, {"GPUTAB_TOKEN": "secret"})], tmp_path, CLOCK):
        assert (tmp_path / "supervisord.conf").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("value", ['a "quoted" word', "two\nlines"])
def test_a_value_that_the_configuration_cannot_hold_is_refused(value: str) -> None:
    """Better than a program that starts with half of it."""
    with pytest.raises(InputError, match="cannot hand PASSWORD to a supervised program"):
        configuration([Program("any", SLEEP, 10, {"PASSWORD": value})], Path("/tmp"), Path("/tmp/s"))
