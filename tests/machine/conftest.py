"""A package archive on this disk: real packages, handed out by a small apt-get that keeps a record."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

APT_GET = """#!/bin/sh
# Called as: apt-get -c CONFIGURATION --quiet=2 update | download PACKAGE... | install OPTION... PACKAGE...
echo "$*" >> "{folder}/calls"
cat "${{2%/*}}/archive.sources" >> "{folder}/sources"
if grep -q broken.invalid "${{2%/*}}/archive.sources"; then
    echo "E: Failed to fetch: Could not resolve 'broken.invalid'"
    exit 100
fi
sleep {delay_s}
[ "$4" = update ] && exit 0
target=.
[ "$4" = install ] && target="${{2%/*}}/cache/archives"
command=$4
shift 4
fetch() {{
    cp "{folder}/packages/$1.deb" "$target/$1_1_all.deb" || {{ echo "E: Unable to locate package $1"; exit 100; }}
    [ "$command" = download ] && return
    for needed in $(dpkg-deb --field "{folder}/packages/$1.deb" Depends | tr -d ,); do fetch "$needed"; done
}}
for package; do
    case "$package" in -*) ;; *) fetch "$package" ;; esac
done
"""


@dataclass(frozen=True)
class PackageArchive:
    """Packages to fetch by a fake apt-get, and the files that make gputab believe in it."""

    folder: Path
    apt_folder: Path
    os_release: Path

    def add(self, package: str, files: Mapping[str, bytes], depends: Sequence[str] = ()) -> None:
        """A real Debian package with these files, all executable."""
        root = self.folder / "roots" / package
        for name, content in {"DEBIAN/control": _control(package, depends), **files}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
            path.chmod(0o755)
        target = self.folder / "packages" / f"{package}.deb"
        target.parent.mkdir(exist_ok=True)
        subprocess.run(["dpkg-deb", "--build", root, target], check=True, stdout=subprocess.DEVNULL)

    def install_apt_get(self, delay_s: float = 0) -> None:
        apt_get = self.folder / "bin" / "apt-get"
        apt_get.parent.mkdir(exist_ok=True)
        apt_get.write_text(APT_GET.format(folder=self.folder, delay_s=delay_s))
        apt_get.chmod(0o755)

    def calls(self) -> list[str]:
        """What apt-get was asked so far: `update`, `download PACKAGE...`."""
        record = self.folder / "calls"
        lines = record.read_text().splitlines() if record.exists() else []
        return [line.partition("--quiet=2 ")[2] for line in lines]

    def asked_sources(self) -> str:
        return (self.folder / "sources").read_text()


def _control(package: str, depends: Sequence[str]) -> bytes:
    needed = f"Depends: {', '.join(depends)}\n" if depends else ""
    fields = f"Package: {package}\nVersion: 1\nArchitecture: all\nMaintainer: nobody\n{needed}Description: test\n"
    return fields.encode()


@pytest.fixture
def package_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackageArchive:
    if shutil.which("dpkg-deb") is None:
        pytest.skip("needs dpkg-deb to build packages")
    folder = tmp_path / "archive"
    apt_folder = folder / "etc"
    apt_folder.mkdir(parents=True)
    (apt_folder / "sources.list").write_text("deb http://mirror.invalid/debian bookworm main contrib\n")
    os_release = folder / "os-release"
    os_release.write_text('ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n')
    archive = PackageArchive(folder, apt_folder, os_release)
    archive.install_apt_get()
    monkeypatch.setenv("PATH", f"{folder / 'bin'}:{os.environ['PATH']}")
    return archive
