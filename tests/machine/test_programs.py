"""The order in which a server program is looked for, and what is refused."""

import os
from pathlib import Path

import pytest

from domain.errors import InputError, UnavailableError
from machine.debian import MARKER, _contents
from machine.programs import (
    ALERTMANAGER,
    VICTORIA_METRICS,
    VMALERT,
    VMALERT_TOOL,
    Program,
    find_program,
    flaw,
    from_debian,
    from_path,
)
from machine.relocation import start_words
from settings.gputab import Settings

FLAG = "search.maxMemoryPerQuery"

# What `-help` of the real ones prints, cut to three flags; 1.79 has the first and the last.
HELP_OF_1_79 = """\
victoria-metrics is a time series database and monitoring solution.

  -retentionPeriod value
    \tData with timestamps outside the retentionPeriod is automatically deleted (default 1)
  -search.maxMemory
    \tNot the flag that is meant; see -search.maxMemoryPerQuery in newer versions
  -storageDataPath string
    \tPath to storage data (default "victoria-metrics-data")
"""
HELP_OF_1_112 = HELP_OF_1_79 + f"  -{FLAG} size\n    \tThe maximum amounts of memory a single query may consume\n"


def install(folder: Path, help_text: str, name: str = "victoria-metrics") -> Path:
    """A program that prints `help_text` to stderr for `-help` and fails for anything else."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n[ \"$1\" = -help ] || exit 1\n/bin/cat >&2 <<'END'\n{help_text}END\n")
    path.chmod(0o755)
    return path


def no_progress(line: str) -> None:
    raise AssertionError(f"nothing was to be fetched: {line}")


def test_an_explicit_program_comes_before_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = install(tmp_path / "chosen", HELP_OF_1_112)
    install(tmp_path / "bin", HELP_OF_1_112)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    found = find_program(VICTORIA_METRICS, explicit=chosen, cache_folder=tmp_path / "cache", progress=no_progress)
    assert found.path == chosen


def test_an_explicit_program_that_is_too_old_is_refused_by_the_flag_it_lacks(tmp_path: Path) -> None:
    """Nothing else is tried: an operator who chose a program is to know that it is not the one that runs."""
    old = install(tmp_path, HELP_OF_1_79)
    with pytest.raises(InputError, match=f"'{old}'.*victoriametrics_binary.*lacks the flag -{FLAG}; use 1.95 or newer"):
        find_program(VICTORIA_METRICS, explicit=old, cache_folder=tmp_path, progress=no_progress)


def test_an_explicit_path_that_is_no_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "program"
    with pytest.raises(InputError, match="there is no such file"):
        find_program(VICTORIA_METRICS, explicit=path, cache_folder=tmp_path, progress=no_progress)
    path.write_bytes(b"\x7fELF of another machine")
    with pytest.raises(InputError, match="not executable"):
        find_program(VICTORIA_METRICS, explicit=path, cache_folder=tmp_path, progress=no_progress)
    path.chmod(0o755)
    with pytest.raises(InputError, match="cannot be run: Exec format error"):
        find_program(VICTORIA_METRICS, explicit=path, cache_folder=tmp_path, progress=no_progress)


def test_path_is_searched_under_upstreams_name_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = install(tmp_path, HELP_OF_1_112, "victoria-metrics-prod")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert from_path(VICTORIA_METRICS) == (path, ())


def test_a_too_old_program_on_path_is_passed_over_and_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = install(tmp_path, HELP_OF_1_79)
    new = install(tmp_path, HELP_OF_1_112, "victoria-metrics-prod")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_program(VICTORIA_METRICS, explicit=None, cache_folder=tmp_path, progress=no_progress)
    assert found.path == new
    assert found.passed_over == (f"'{old}' will not do: it lacks the flag -{FLAG}",)


@pytest.mark.parametrize(
    ("os_release", "suite"),
    [
        ("ID=debian\nVERSION_ID=12\nVERSION_CODENAME=bookworm\n", "trixie"),
        ("ID=debian\nVERSION_ID=13\nVERSION_CODENAME=trixie\n", "trixie"),
        ("ID=debian\nVERSION_ID=14\nVERSION_CODENAME=forky\n", "forky"),
        ("ID=debian\nVERSION_CODENAME=duke\n", "duke"),
    ],
)
def test_the_package_is_of_the_own_release_where_that_is_new_enough(
    tmp_path: Path, os_release: str, suite: str
) -> None:
    release = tmp_path / "os-release"
    release.write_text(os_release)
    unpacked = tmp_path / f"victoria-metrics-{suite}"
    path = install(unpacked / "usr" / "bin", HELP_OF_1_112)
    (unpacked / MARKER).write_text(_contents(["victoria-metrics"], suite))
    assert from_debian(VICTORIA_METRICS, tmp_path, no_progress, release) == path


def test_another_distribution_gets_no_debian_package(tmp_path: Path) -> None:
    release = tmp_path / "os-release"
    release.write_text("ID=ubuntu\nVERSION_ID=24.04\nVERSION_CODENAME=noble\n")
    with pytest.raises(UnavailableError, match="'ubuntu'"):
        from_debian(VICTORIA_METRICS, tmp_path, no_progress, release)


def test_nothing_usable_is_an_error_with_the_page_the_setting_and_what_was_met(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = install(tmp_path, HELP_OF_1_79)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError) as caught:
        find_program(VICTORIA_METRICS, explicit=None, cache_folder=tmp_path / "cache", progress=no_progress)
    message = str(caught.value)
    assert f"'{old}' will not do: it lacks the flag -{FLAG}" in message
    assert VICTORIA_METRICS.download_page in message
    assert "'victoriametrics_binary'" in message
    assert "\n" not in message


def test_a_program_named_in_a_description_is_no_flag(tmp_path: Path) -> None:
    """1.79's help may speak of a flag it does not have."""
    assert FLAG in HELP_OF_1_79
    with pytest.raises(InputError, match=FLAG):
        find_program(
            VICTORIA_METRICS, explicit=install(tmp_path, HELP_OF_1_79), cache_folder=tmp_path, progress=no_progress
        )


def test_a_relative_explicit_path_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers are started in folders of their own."""
    install(tmp_path, HELP_OF_1_112)
    monkeypatch.chdir(tmp_path)
    relative = Path("victoria-metrics")
    found = find_program(VICTORIA_METRICS, explicit=relative, cache_folder=tmp_path, progress=no_progress)
    assert found.path == tmp_path / "victoria-metrics"
    assert os.access(found.path, os.X_OK)


@pytest.mark.parametrize("program", [VICTORIA_METRICS, VMALERT, VMALERT_TOOL, ALERTMANAGER], ids=lambda each: each.name)
def test_every_program_has_a_setting_and_a_probe(program: Program) -> None:
    assert program.setting in Settings.model_fields
    assert program.required_flags


def test_a_flag_may_have_a_dash_and_is_looked_for_in_the_help_that_lists_it(tmp_path: Path) -> None:
    """Alertmanager knows --help only; what it prints for another word is no help."""
    path = tmp_path / "alertmanager"
    path.write_text('#!/bin/sh\n[ "$1" = --help ] || exit 1\necho "      --web.systemd-socket  Use it (Linux only)."\n')
    path.chmod(0o755)
    assert flaw(ALERTMANAGER, path) is None
    assert flaw(VMALERT, path) == "it lacks the flag -rule.evalDelay"
    path.write_text('#!/bin/sh\necho "      --web.systemd  Use it; see --web.systemd-socket."\n')
    assert flaw(ALERTMANAGER, path) == "it lacks the flag -web.systemd-socket"


def test_a_package_whose_program_wants_its_data_at_the_root_gives_one_that_does_not(tmp_path: Path) -> None:
    release = tmp_path / "os-release"
    release.write_text("ID=debian\nVERSION_ID=13\nVERSION_CODENAME=trixie\n")
    unpacked = tmp_path / "prometheus-alertmanager-trixie"
    data = ALERTMANAGER.package.data
    help_text = f"      --web.systemd-socket  Use it.\n      --web.ui-path={data}/ui\n"
    program = unpacked / "usr" / "bin" / "prometheus-alertmanager"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n/bin/cat <<'END'\n{help_text}END\n")
    program.chmod(0o755)
    (unpacked / MARKER).write_text(_contents(["prometheus-alertmanager"], "trixie"))
    found = from_debian(ALERTMANAGER, tmp_path, no_progress, release)
    assert data not in found.read_text()
    assert start_words(found) == ["env", "-C", str(unpacked), str(found)]
