"""Unpacking packages: whole or not at all, once, and without touching the system."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from domain.errors import UnavailableError
from machine.apt_sources import Archive
from machine.debian import MARKER, _write_configuration, library_path, unpack

if TYPE_CHECKING:
    from tests.machine.conftest import PackageArchive

UNPACK = """
import sys
from pathlib import Path
from machine.debian import unpack
into, apt_folder, os_release = map(Path, sys.argv[1:])
unpack(["greeter"], into, progress=print, apt_folder=apt_folder, os_release=os_release)
"""


INSTALL = "install --yes --no-install-recommends --download-only"


def unpack_greeter(
    archive: "PackageArchive", into: Path, suite: str | None = None, *, with_dependencies: bool = False
) -> Path:
    return unpack(
        ["greeter"],
        into,
        suite=suite,
        with_dependencies=with_dependencies,
        progress=lambda line: None,
        apt_folder=archive.apt_folder,
        os_release=archive.os_release,
    )


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir() if path.name != "archive"]


def test_a_package_is_laid_out_below_the_folder_and_can_be_run(
    package_archive: "PackageArchive", tmp_path: Path
) -> None:
    package_archive.add("greeter", {"usr/bin/greet": b"#!/bin/sh\necho hello\n"})
    folder = unpack_greeter(package_archive, tmp_path / "greeter")
    assert subprocess.run([folder / "usr/bin/greet"], capture_output=True, check=True).stdout == b"hello\n"
    assert leftovers(tmp_path) == ["greeter"]


def test_a_second_call_fetches_nothing_and_needs_no_apt(
    package_archive: "PackageArchive", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package_archive.add("greeter", {"usr/bin/greet": b""})
    unpack_greeter(package_archive, tmp_path / "greeter")
    monkeypatch.setenv("PATH", "")
    unpack_greeter(package_archive, tmp_path / "greeter")
    assert package_archive.calls() == ["update", "download greeter"]


def test_a_folder_without_the_marker_is_not_taken_for_a_whole_one(
    package_archive: "PackageArchive", tmp_path: Path
) -> None:
    package_archive.add("greeter", {"usr/bin/greet": b"whole"})
    into = tmp_path / "greeter"
    for left_by_a_killed_run in (into, into.with_name("greeter.partial") / "tree"):
        (left_by_a_killed_run / "usr/bin").mkdir(parents=True)
        (left_by_a_killed_run / "usr/bin/greet").write_bytes(b"ha")
    unpack_greeter(package_archive, into)
    assert (into / "usr/bin/greet").read_bytes() == b"whole"
    assert leftovers(tmp_path) == ["greeter"]


def test_a_folder_with_other_packages_is_made_anew(package_archive: "PackageArchive", tmp_path: Path) -> None:
    package_archive.add("greeter", {"usr/bin/greet": b""})
    into = tmp_path / "greeter"
    unpack_greeter(package_archive, into)
    package_archive.add("greeter", {"usr/bin/greet": b"of trixie"})
    unpack_greeter(package_archive, into, suite="trixie")
    assert (into / "usr/bin/greet").read_bytes() == b"of trixie"
    unpack_greeter(package_archive, into, suite="trixie", with_dependencies=True)
    assert package_archive.calls()[1::2] == ["download greeter", "download greeter", f"{INSTALL} greeter"]


def test_what_a_package_needs_comes_with_it_where_that_is_asked_for(
    package_archive: "PackageArchive", tmp_path: Path
) -> None:
    """All but the C library: one that is not of the machine's own loader starts no program at all."""
    package_archive.add("libgreet1", {"usr/lib/x86_64-linux-gnu/libgreet.so.1": b"", "lib/x86_64-linux-gnu/old": b""})
    package_archive.add("libc6", {"lib/x86_64-linux-gnu/libc.so.6": b""})
    package_archive.add("greeter", {"usr/bin/greet": b""}, depends=["libgreet1", "libc6"])
    folder = unpack_greeter(package_archive, tmp_path / "greeter", with_dependencies=True)
    libraries = [folder / "usr/lib/x86_64-linux-gnu", folder / "lib/x86_64-linux-gnu"]
    assert [[path.name for path in each.iterdir()] for each in libraries] == [["libgreet.so.1"], ["old"]]
    assert library_path(folder) == f"{libraries[0]}:{libraries[1]}"
    alone = unpack_greeter(package_archive, tmp_path / "alone")
    assert [path.name for path in alone.iterdir() if path.name != MARKER] == ["usr"]
    assert library_path(alone) == ""


def test_a_package_that_cannot_be_fetched_leaves_nothing_behind(
    package_archive: "PackageArchive", tmp_path: Path
) -> None:
    with pytest.raises(UnavailableError, match=r"cannot fetch greeter.*Unable to locate package greeter"):
        unpack_greeter(package_archive, tmp_path / "greeter")
    assert leftovers(tmp_path) == []


def test_a_broken_package_leaves_nothing_behind(package_archive: "PackageArchive", tmp_path: Path) -> None:
    package_archive.add("greeter", {"usr/bin/greet": b""})
    (package_archive.folder / "packages/greeter.deb").write_bytes(b"not a package")
    with pytest.raises(UnavailableError, match=r"cannot unpack 'greeter_1_all\.deb'"):
        unpack_greeter(package_archive, tmp_path / "greeter")
    assert leftovers(tmp_path) == []


def test_two_processes_at_once_fetch_once(package_archive: "PackageArchive", tmp_path: Path) -> None:
    package_archive.add("greeter", {"usr/bin/greet": b""})
    package_archive.install_apt_get(delay_s=0.2)
    arguments = [tmp_path / "greeter", package_archive.apt_folder, package_archive.os_release]
    processes = [subprocess.Popen([sys.executable, "-c", UNPACK, *arguments], stdout=subprocess.PIPE) for _ in "12"]
    outputs = [process.communicate(timeout=30)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert package_archive.calls() == ["update", "download greeter"]
    assert b"waiting for another process" in b"".join(outputs)


def test_the_own_release_keeps_its_components_and_another_one_is_asked_for_main(
    package_archive: "PackageArchive", tmp_path: Path
) -> None:
    package_archive.add("greeter", {"usr/bin/greet": b""})
    unpack_greeter(package_archive, tmp_path / "own")
    assert "Suites: bookworm\nComponents: main contrib\n" in package_archive.asked_sources()
    unpack_greeter(package_archive, tmp_path / "other", suite="trixie")
    assert "Suites: trixie\nComponents: main\n" in package_archive.asked_sources()


def test_where_one_archive_fails_the_next_is_tried(package_archive: "PackageArchive", tmp_path: Path) -> None:
    """A vendor may publish under Debian's suite names, with its file read before Debian's."""
    package_archive.add("greeter", {"usr/bin/greet": b""})
    sources = package_archive.apt_folder / "sources.list"
    sources.write_text("deb http://broken.invalid bookworm main\n" + sources.read_text())
    unpack_greeter(package_archive, tmp_path / "greeter")
    assert package_archive.calls() == ["update", "update", "download greeter"]


def test_an_unreachable_mirror_is_told_in_one_line(package_archive: "PackageArchive", tmp_path: Path) -> None:
    (package_archive.apt_folder / "sources.list").write_text("deb http://broken.invalid bookworm main\n")
    with pytest.raises(UnavailableError, match=r"cannot read the package lists for greeter.*broken\.invalid") as caught:
        unpack_greeter(package_archive, tmp_path / "greeter")
    assert "\n" not in str(caught.value)
    assert leftovers(tmp_path) == []


def test_a_folder_that_cannot_be_made_is_told_in_one_line(package_archive: "PackageArchive", tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UnavailableError, match=r"cannot unpack greeter into '.*file/greeter': (Not a directory|File)"):
        unpack_greeter(package_archive, tmp_path / "file" / "greeter")


@pytest.mark.parametrize("absent", ["apt-get", "dpkg-deb"])
def test_a_machine_without_the_tools_is_told_which(
    package_archive: "PackageArchive", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, absent: str
) -> None:
    tools = tmp_path / "archive" / "tools"
    tools.mkdir()
    for tool in {"apt-get", "dpkg-deb"} - {absent}:
        (tools / tool).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(tools))
    with pytest.raises(UnavailableError, match=f"'{absent}' is not on PATH"):
        unpack_greeter(package_archive, tmp_path / "greeter")


@pytest.mark.skipif(shutil.which("apt-config") is None, reason="needs apt")
def test_the_real_apt_keeps_all_it_writes_in_our_folder_and_runs_no_hooks(tmp_path: Path) -> None:
    partial = tmp_path / "with a blank.partial"
    configuration = _write_configuration(Archive(("http://mirror.invalid",), ("trixie",), ("main",)), partial)
    folders = ["Dir::State", "Dir::State::lists", "Dir::Cache", "Dir::Cache::archives", "Dir::Etc::sourceparts"]
    files = ["Dir::State::status", "Dir::Etc::sourcelist"]
    asked = [word for name in [f"{f}/d" for f in folders] + [f"{f}/f" for f in files] for word in ("X", name)]
    answer = subprocess.run(
        ["apt-config", "-c", configuration, "shell", *asked], capture_output=True, text=True, check=True
    ).stdout
    paths = re.findall(r"^X='(.*?)/?'$", answer, flags=re.MULTILINE)
    assert len(paths) == len(folders) + len(files)
    assert all(Path(path).is_relative_to(partial) and Path(path).exists() for path in paths)
    dump = subprocess.run(
        ["apt-config", "-c", configuration, "dump"], capture_output=True, text=True, check=True
    ).stdout
    assert 'APT::Sandbox::User "";' in dump
    assert not re.search(r"^APT::Update::\S*Invoke\S* \".+\"", dump, flags=re.MULTILINE)


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt")
def test_the_real_apt_refuses_an_archive_that_nobody_signed(tmp_path: Path) -> None:
    archive, etc, os_release = tmp_path / "archive", tmp_path / "etc", tmp_path / "os-release"
    release = archive / "dists" / "bookworm"
    (release / "main").mkdir(parents=True)
    (release / "Release").write_text("Suite: bookworm\nCodename: bookworm\nComponents: main\nArchitectures: amd64\n")
    etc.mkdir()
    (etc / "sources.list").write_text(f"deb file:{archive} bookworm main\n")
    os_release.write_text("ID=debian\nVERSION_CODENAME=bookworm\n")
    with pytest.raises(UnavailableError, match="not signed"):
        unpack(["hostname"], tmp_path / "into", progress=print, apt_folder=etc, os_release=os_release)


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="needs apt")
@pytest.mark.parametrize("with_dependencies", [False, True])
def test_a_small_package_comes_from_the_machines_own_mirror(tmp_path: Path, with_dependencies: bool) -> None:
    try:
        folder = unpack(["hostname"], tmp_path / "hostname", with_dependencies=with_dependencies, progress=print)
    except UnavailableError as error:
        if re.search(r"resolv|connect|timed? ?out|unreachable|cannot find an archive", str(error), re.IGNORECASE):
            pytest.skip(f"no mirror: {error}")
        raise
    (program,) = [path for path in folder.rglob("hostname") if path.parent.name == "bin"]
    assert subprocess.run([program], capture_output=True, text=True, check=True).stdout.strip()
    assert (folder / MARKER).is_file()
    # What it needs is the C library, which needs others, and is the machine's own.
    assert bool(list(folder.rglob("libgcc_s.so.1"))) == with_dependencies
    assert not list(folder.rglob("libc.so.6"))
