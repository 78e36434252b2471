"""Finds the server programs gputab runs: by explicit setting, on PATH, or as a Debian package of its own.

A program counts only if its help lists the flags we need. Debian's builds print no version, so a version
is known by its flags.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from domain.errors import InputError, UnavailableError
from machine.apt_sources import OS_RELEASE, read_distribution
from machine.debian import unpack
from machine.lock import Progress
from machine.process import run
from machine.relocation import relocated

HELP_TIMEOUT_S = 10


@dataclass(frozen=True, slots=True)
class DebianPackage:
    """The package that holds a program, and the first Debian release in which it is new enough.

    `data` is a folder of the package that its programs read at the root of the system, and nowhere else; '' for none.
    Such a program is started by the words of `machine.relocation.start_words`.
    """

    name: str
    suite: str
    release: int
    data: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """A server program: what it is called where, and how to tell that it is new enough.

    `required_flags` are written without dashes, and looked for in what `help_arguments` make it print;
    `minimum_version` is what a person is told to install.
    """

    name: str
    names_on_path: tuple[str, ...]
    required_flags: tuple[str, ...]
    minimum_version: str
    package: DebianPackage
    setting: str
    download_page: str
    help_arguments: tuple[str, ...] = ("-help",)


@dataclass(frozen=True, slots=True)
class FoundProgram:
    """Where a program is. `passed_over` says, a sentence each, which others were met and why not taken."""

    path: Path
    passed_over: tuple[str, ...] = ()


VICTORIA_METRICS = Program(
    name="victoria-metrics",
    names_on_path=("victoria-metrics", "victoria-metrics-prod"),
    # Debian 12 has 1.79, without this flag.
    required_flags=("search.maxMemoryPerQuery",),
    minimum_version="1.95",
    package=DebianPackage("victoria-metrics", suite="trixie", release=13),
    setting="victoriametrics_binary",
    download_page="https://github.com/VictoriaMetrics/VictoriaMetrics/releases",
)
VMALERT = Program(
    name="vmalert",
    names_on_path=("vmalert", "vmalert-prod"),
    # An older one takes `keep_firing_for` for a mistake, and asks for what was half a minute ago.
    required_flags=("rule.evalDelay",),
    minimum_version=VICTORIA_METRICS.minimum_version,
    package=VICTORIA_METRICS.package,
    setting="vmalert_binary",
    download_page=VICTORIA_METRICS.download_page,
)
VMALERT_TOOL = Program(
    name="vmalert-tool",
    names_on_path=("vmalert-tool", "vmalert-tool-prod"),
    required_flags=("files",),
    minimum_version=VICTORIA_METRICS.minimum_version,
    package=VICTORIA_METRICS.package,
    setting="vmalert_tool_binary",
    download_page=VICTORIA_METRICS.download_page,
    help_arguments=("unittest", "--help"),
)
ALERTMANAGER = Program(
    name="alertmanager",
    names_on_path=("prometheus-alertmanager", "alertmanager"),
    # New in 0.25, the oldest that was tried.
    required_flags=("web.systemd-socket",),
    minimum_version="0.25",
    package=DebianPackage(
        "prometheus-alertmanager", suite="trixie", release=13, data="/usr/share/prometheus/alertmanager"
    ),
    setting="alertmanager_binary",
    download_page="https://github.com/prometheus/alertmanager/releases",
    help_arguments=("--help",),
)


def find_program(program: Program, *, explicit: Path | None, cache_folder: Path, progress: Progress) -> FoundProgram:
    """The program to run: the `explicit` setting, else one on PATH, else the Debian package.

    The package is unpacked below `cache_folder` the first time; after that it is there, offline too.
    Raises InputError where the explicit setting is unusable (nothing else is tried then), UnavailableError
    where there is no usable program at all.
    """
    if explicit is not None:
        return FoundProgram(from_setting(program, explicit))
    found, passed_over = from_path(program)
    if found is not None:
        return FoundProgram(found, passed_over)
    try:
        return FoundProgram(from_debian(program, cache_folder, progress), passed_over)
    except UnavailableError as error:
        raise UnavailableError(
            f"cannot find {program.name} {program.minimum_version} or newer: "
            f"{'; '.join([*passed_over, str(error)])}; "
            f"take it from {program.download_page} and set '{program.setting}' to its path"
        ) from error


def from_setting(program: Program, path: Path) -> Path:
    """The program an operator chose, made absolute.

    Raises InputError where it is missing, cannot be run, or lacks a flag.
    """
    refusal = f"cannot use '{path}' as {program.name} (setting '{program.setting}')"
    if not path.is_file():
        raise InputError(f"{refusal}: there is no such file; write the path of one")
    if not os.access(path, os.X_OK):
        raise InputError(f"{refusal}: it is not executable; run chmod +x on it")
    reason = flaw(program, path.absolute())
    if reason is not None:
        raise InputError(f"{refusal}: {reason}; use {program.minimum_version} or newer")
    return path.absolute()


def from_path(program: Program) -> tuple[Path | None, tuple[str, ...]]:
    """The first program on PATH that has the flags, or None; and why those before it were passed over."""
    passed_over: list[str] = []
    for path in _on_path(program.names_on_path):
        reason = flaw(program, path)
        if reason is None:
            return path, tuple(passed_over)
        passed_over.append(f"'{path}' will not do: {reason}")
    return None, tuple(passed_over)


def _on_path(names: Sequence[str]) -> Iterator[Path]:
    """Every program of these names in the folders of PATH, in their order; one that two folders show comes once."""
    seen: set[Path] = set()
    for folder in os.get_exec_path():
        for name in names:
            # An empty folder, which a shell takes for the working one, holds nothing here.
            found = shutil.which(name, path=folder)
            if found is None or Path(found).resolve() in seen:
                continue
            seen.add(Path(found).resolve())
            yield Path(found).absolute()


def from_debian(program: Program, cache_folder: Path, progress: Progress, os_release: Path = OS_RELEASE) -> Path:
    """The program out of its Debian package, unpacked below `cache_folder`.

    Of the machine's own release where that is new enough, else of the first release that is.
    Raises UnavailableError on other distributions, and where the package cannot be had or run.
    """
    package = program.package
    machine = read_distribution(os_release)
    if machine.name != "debian":
        raise UnavailableError(f"cannot take a Debian package on '{machine.name}'")
    is_new_enough = machine.version is None or machine.version >= package.release
    suite = machine.codename if is_new_enough else package.suite
    folder = unpack([package.name], cache_folder / f"{package.name}-{suite}", suite=suite, progress=progress)
    for name in program.names_on_path:
        path = folder / "usr" / "bin" / name
        if path.is_file():
            if package.data:
                path = relocated(path, package.data)
            reason = flaw(program, path)
            if reason is not None:
                raise UnavailableError(f"cannot use '{path}': {reason}")
            return path
    raise UnavailableError(f"cannot find {program.name} in the package '{package.name}' of {suite}")


def flaw(program: Program, path: Path) -> str | None:
    """Why what is at `path` will not do, naming the first flag its help does not list; else None."""
    try:
        done = run([path, *program.help_arguments], timeout_s=HELP_TIMEOUT_S)
    except OSError as error:
        return f"it cannot be run: {error.strerror}"
    except subprocess.TimeoutExpired:
        return f"it did not answer {' '.join(program.help_arguments)} within {HELP_TIMEOUT_S} s"
    listed = set(re.findall(r"^\s*--?([A-Za-z][\w.-]*)", done.stdout, flags=re.MULTILINE))
    return next((f"it lacks the flag -{flag}" for flag in program.required_flags if flag not in listed), None)
