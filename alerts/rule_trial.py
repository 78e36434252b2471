"""Tries rules on vmalert itself: does it load them, and do their unit tests pass?"""

import errno
import socket
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from alerts.rule_check import read_yaml
from domain.errors import InputError
from machine.lock import Progress, exclusive
from machine.process import run

TESTS = "*.test.yaml"
_LOAD_TIMEOUT_S = 60
_TEST_TIMEOUT_S = 300
# vmalert-tool serves what it evaluates there, on every address, and has no flag for it.
_TOOL_PORT = 8880


def load_problems(vmalert: Path, rules: Path) -> Iterator[str]:
    """Why vmalert would not load a file of rules; nothing where it would."""
    command: list[str | Path] = [vmalert, "-dryRun", f"-rule={rules}", "-loggerLevel=ERROR", "-loggerDisableTimestamps"]
    try:
        done = run(command, timeout_s=_LOAD_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        yield f"{rules}: vmalert has not loaded it after {_LOAD_TIMEOUT_S} s; split it"
        return
    if done.returncode != 0:
        said = " ".join(done.stdout.split()) or f"it ended with {done.returncode}"
        yield f"{rules}: vmalert does not load it: {said}"


def unit_test_problems(vmalert_tool: Path, rules: Sequence[Path], progress: Progress) -> Iterator[str]:
    """What unit tests say against these files: those that lie beside them, are called *.test.yaml and name them.

    Of a failed test the problem has every word of vmalert-tool, in several lines. One run at a time on this machine.
    """
    tests: dict[Path, None] = {}
    for path in rules:
        own = list(_tests_of(path))
        if not own:
            yield f"{path}: it has no unit test; name it in 'rule_files' of a {path.stem}.test.yaml beside it"
        tests.update(dict.fromkeys(own))
    with exclusive(vmalert_tool.parent, progress):
        for test in tests:
            progress(f"running {test}")
            if _is_taken(_TOOL_PORT):
                yield f"{test}: not run: vmalert-tool needs port {_TOOL_PORT}, which is in use; stop what has it"
                continue
            yield from _failures(vmalert_tool, test)


def _tests_of(rules: Path) -> Iterator[Path]:
    for test in sorted(rules.parent.glob(TESTS)):
        try:
            content = read_yaml(test)
        except InputError:
            # It may be about these rules: vmalert-tool says what is wrong with it.
            yield test
            continue
        named = content.get("rule_files", []) if isinstance(content, dict) else []
        if any(isinstance(name, str) and (test.parent / name).resolve() == rules.resolve() for name in named or []):
            yield test


def _failures(vmalert_tool: Path, test: Path) -> Iterator[str]:
    try:
        done = run([vmalert_tool, "unittest", f"--files={test}"], timeout_s=_TEST_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        yield f"{test}: not done after {_TEST_TIMEOUT_S} s; split it"
        return
    if done.returncode != 0:
        yield f"{test}: fails:\n{done.stdout.strip()}"


def _is_taken(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False
