"""Makes the Python environment of a checkout: `python3 -m machine.environment .venv`.

Runs before anything is installed, so it and what it imports are the standard library alone. Works without
root and without python3-venv, which a fresh Debian lacks.
"""
# ruff: noqa: E402 # the check of the Python version has to stand before the imports that need it

import sys

OLDEST_PYTHON = (3, 11)


def refusal_of_python(major: int, minor: int) -> str:
    """What to tell the user of a Python that is too old."""
    oldest = ".".join(map(str, OLDEST_PYTHON))
    return (
        f"cannot set up with Python {major}.{minor}: gputab needs {oldest} or newer; run `make setup PYTHON=python3.12`"
    )


if sys.version_info[:2] < OLDEST_PYTHON:
    sys.exit(refusal_of_python(sys.version_info[0], sys.version_info[1]))

import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from domain.errors import GputabError, InputError, UnavailableError
from machine.debian import unpack
from machine.lock import Progress, exclusive
from machine.process import run

READY = ".ready"
LOCK_FILE = "requirements.lock"


def set_up(checkout: Path, environment: Path, progress: Progress) -> None:
    """Bring `environment` to what the lock file in `checkout` says, with the checkout itself installed editable.

    An environment finished from the same lock file and Python keeps its packages; any other one, half-made
    ones included, is built anew. READY is written last. Raises InputError without a lock file,
    UnavailableError where a step fails.
    """
    lock = checkout / LOCK_FILE
    if not lock.is_file():
        raise InputError(f"cannot set up '{checkout}': it has no {LOCK_FILE}; run this in a checkout of gputab")
    origin = f"{platform.python_version()} {hashlib.sha256(lock.read_bytes()).hexdigest()}\n"
    ready = environment / READY
    # Two makes in a fresh clone would else build into each other.
    with exclusive(environment.parent, progress):
        is_current = _is_made_from(environment, origin)
        ready.unlink(missing_ok=True)
        if not is_current:
            progress(f"making '{environment}' with Python {platform.python_version()}")
            create(environment, _base_python(), progress)
            progress(f"installing the packages of {LOCK_FILE} (300 MB the first time)")
            _pip(environment, ["install", "--require-hashes", "--no-deps", "-r", str(lock)])
        progress("installing gputab")
        _pip(environment, ["install", "--no-deps", "--no-build-isolation", "--editable", str(checkout)])
        ready.write_text(origin, encoding="utf-8")
    progress(f"'{environment}' is ready")


def create(environment: Path, python: str, progress: Progress) -> None:
    """Make an empty environment of the interpreter `python`, with pip, over whatever was there.

    The pip comes from Debian's python3-pip-whl where that interpreter cannot supply its own. Raises InputError
    where the folder holds something else: it would be deleted.
    """
    if environment.is_dir() and any(environment.iterdir()) and not (environment / "pyvenv.cfg").is_file():
        raise InputError(f"cannot make '{environment}': it holds something else; remove it or name another folder")
    shutil.rmtree(environment, ignore_errors=True)
    # Judged by what it made: without python3-venv it leaves a folder that looks like an environment.
    run([python, "-m", "venv", environment])
    if has_pip(environment):
        return
    progress("this Python has no ensurepip (package python3-venv): taking pip from Debian's python3-pip-whl")
    shutil.rmtree(environment, ignore_errors=True)
    made = run([python, "-m", "venv", "--without-pip", environment])
    if made.returncode != 0:
        reason = (made.stdout.strip().splitlines() or ["no reason given"])[-1]
        raise UnavailableError(f"cannot make '{environment}': {reason}; install python3-venv")
    folder = unpack(["python3-pip-whl"], environment / "python3-pip-whl", progress=progress)
    wheel = next(folder.glob("usr/share/python-wheels/pip-*.whl"), None)
    if wheel is None:
        raise UnavailableError("cannot find pip in Debian's python3-pip-whl; install python3-venv")
    # A wheel is a zip that Python can import, so pip installs itself.
    _pip(environment, ["install", "--no-index", "--no-deps", str(wheel)], {"PYTHONPATH": str(wheel)})


def has_pip(environment: Path) -> bool:
    """Whether the environment's Python runs and finds pip."""
    try:
        return run([environment / "bin" / "python", "-m", "pip", "--version"]).returncode == 0
    except OSError:
        return False


def _is_made_from(environment: Path, origin: str) -> bool:
    ready = environment / READY
    return ready.is_file() and ready.read_text(encoding="utf-8") == origin and has_pip(environment)


def _base_python() -> str:
    if sys.prefix == sys.base_prefix:
        return sys.executable
    # We run in an environment, maybe the very one that is about to be removed.
    return f"{sys.base_prefix}/bin/python{sys.version_info[0]}.{sys.version_info[1]}"


def _pip(environment: Path, arguments: Sequence[str], variables: Mapping[str, str] | None = None) -> None:
    quiet = [] if sys.stderr.isatty() else ["--quiet"]
    command = [str(environment / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    settings = {**os.environ, **(variables or {})}
    done = subprocess.run([*command, *quiet, *arguments], env=settings, check=False)
    if done.returncode != 0:
        raise UnavailableError(
            f"cannot install into '{environment}': pip ended with {done.returncode}, see above; "
            "run `make setup` again when the cause is gone"
        )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str]) -> int:
    """`python3 -m machine.environment FOLDER`, run in the checkout. Returns the exit code."""
    if len(arguments) != 1:
        _say("usage: python3 -m machine.environment FOLDER")
        return 2
    try:
        set_up(Path.cwd(), Path(arguments[0]).absolute(), _say)
    except GputabError as error:
        _say(str(error))
        return 2 if isinstance(error, InputError) else 1
    except OSError as error:
        _say(f"cannot set up '{arguments[0]}': {error}")
        return 1
    except KeyboardInterrupt:
        _say("stopped; the next `make setup` starts over")
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
