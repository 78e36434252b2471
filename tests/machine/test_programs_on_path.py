"""Every folder of PATH is searched, in order: an old program in an early one does not hide a good one."""

from pathlib import Path

import pytest

from machine.programs import VICTORIA_METRICS, from_path

OLD = "  -storageDataPath string"
GOOD = f"{OLD}\n  -{VICTORIA_METRICS.required_flags[0]} size"


def _install(folder: Path, help_text: str, name: str = "victoria-metrics") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n/bin/cat <<'END'\n{help_text}\nEND\n")
    path.chmod(0o755)
    return path


def _search(monkeypatch: pytest.MonkeyPatch, *folders: Path | str) -> tuple[Path | None, tuple[str, ...]]:
    monkeypatch.setenv("PATH", ":".join(map(str, folders)))
    return from_path(VICTORIA_METRICS)


def test_a_good_program_behind_an_old_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, good = _install(tmp_path / "a", OLD), _install(tmp_path / "b", GOOD)
    found, passed_over = _search(monkeypatch, old.parent, good.parent)
    assert found == good
    assert passed_over == (f"'{old}' will not do: it lacks the flag -{VICTORIA_METRICS.required_flags[0]}",)


def test_an_earlier_folder_comes_before_a_better_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = _install(tmp_path / "a", GOOD, "victoria-metrics-prod")
    second = _install(tmp_path / "b", GOOD)
    assert _search(monkeypatch, first.parent, second.parent) == (first, ())
    assert _search(monkeypatch, second.parent, first.parent) == (second, ())


def test_a_program_that_two_folders_show_is_tried_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/bin is /usr/bin on a Debian."""
    old = _install(tmp_path / "a", OLD)
    (tmp_path / "link").symlink_to(old.parent)
    found, passed_over = _search(monkeypatch, old.parent, tmp_path / "link", old.parent)
    assert found is None
    assert len(passed_over) == 1


def test_the_working_directory_is_no_folder_of_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _install(tmp_path, GOOD)
    monkeypatch.chdir(tmp_path)
    assert _search(monkeypatch, "", tmp_path / "nowhere") == (None, ())
