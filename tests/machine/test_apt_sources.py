"""Reading apt's own files: sources.list(5) in both styles, os-release(5)."""

from pathlib import Path

import pytest

from domain.errors import UnavailableError
from machine.apt_sources import (
    Archive,
    Distribution,
    archives_of,
    parse_deb822,
    parse_one_line,
    read_archives,
    read_distribution,
)

DEBIAN_12_ONE_LINE = """\
# See sources.list(5)
#deb http://old.invalid/debian bullseye main
deb http://mirror.invalid/debian bookworm main contrib   # the nearest
deb-src http://mirror.invalid/debian bookworm main
deb\t[ arch=amd64 signed-by=/usr/share/keyrings/debian.gpg ] https://mirror.invalid/security bookworm-security main
deb cdrom:[Debian GNU/Linux 12.0.0 _Bookworm_ - Official amd64]/ bookworm main
deb http://vendor.invalid/packages ./
deb
"""

DEBIAN_13_DEB822 = """\
# the machine's mirror
Types: deb deb-src
URIs: http://mirror.invalid/debian http://second.invalid/debian
# a comment inside
Suites: trixie trixie-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.invalid/debian-security
suites:
 trixie-security
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 mDMEZ
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: http://off.invalid/debian
Suites: trixie
Components: main
Enabled: no


Types: deb-src
URIs: http://source.invalid/debian
Suites: trixie
Components: main
"""


def test_one_line_entries_are_read_and_source_disabled_and_cd_entries_are_not() -> None:
    assert list(parse_one_line(DEBIAN_12_ONE_LINE)) == [
        Archive(("http://mirror.invalid/debian",), ("bookworm",), ("main", "contrib")),
        Archive(
            ("https://mirror.invalid/security",),
            ("bookworm-security",),
            ("main",),
            "/usr/share/keyrings/debian.gpg",
        ),
    ]


def test_deb822_stanzas_are_read_and_disabled_and_source_ones_are_not() -> None:
    first, second = parse_deb822(DEBIAN_13_DEB822)
    assert first == Archive(
        ("http://mirror.invalid/debian", "http://second.invalid/debian"),
        ("trixie", "trixie-updates"),
        ("main",),
        "/usr/share/keyrings/debian-archive-keyring.gpg",
    )
    assert second.suites == ("trixie-security",)


def test_a_key_written_into_a_stanza_survives_being_written_again() -> None:
    original = list(parse_deb822(DEBIAN_13_DEB822))[1]
    (again,) = parse_deb822(original.of_suite("forky", ("main",)).deb822())
    assert again == Archive(original.uris, ("forky",), ("main",), original.signed_by)
    assert again.signed_by is not None
    assert " mDMEZ\n" in again.signed_by


def test_an_archive_is_asked_for_package_lists_alone() -> None:
    """Machines with apt-file would else fetch the contents of all of Debian."""
    assert "Targets: Packages\n" in Archive(("http://mirror.invalid",), ("trixie",), ("main",)).deb822()


def test_files_are_read_in_the_order_of_apt_and_others_are_left_alone(tmp_path: Path) -> None:
    parts = tmp_path / "sources.list.d"
    parts.mkdir()
    (tmp_path / "sources.list").write_text("deb http://first.invalid trixie main\n")
    (parts / "b.list").write_text("deb http://third.invalid trixie main\n")
    (parts / "a.sources").write_text("Types: deb\nURIs: http://second.invalid\nSuites: trixie\nComponents: main\n")
    (parts / "c.list.disabled").write_text("deb http://off.invalid trixie main\n")
    uris = [archive.uris[0] for archive in read_archives(tmp_path)]
    assert uris == ["http://first.invalid", "http://second.invalid", "http://third.invalid"]


def test_archives_of_a_release_are_those_that_carry_it_in_main(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text(
        "deb http://vendor.invalid bookworm stable\n"
        "deb http://vendor.invalid stable main\n"
        "deb http://mirror.invalid bookworm main\n"
        "deb http://mirror.invalid bookworm-updates main\n"
    )
    assert [archive.uris for archive in archives_of("bookworm", tmp_path)] == [("http://mirror.invalid",)]


def test_a_machine_that_follows_a_moving_suite_has_an_archive_too(tmp_path: Path) -> None:
    (tmp_path / "sources.list").write_text("deb http://mirror.invalid testing main\n")
    assert [archive.uris for archive in archives_of("forky", tmp_path)] == [("http://mirror.invalid",)]


@pytest.mark.parametrize("text", ["", "deb http://mirror.invalid jammy main\n", "deb cdrom:[x]/ bookworm main\n"])
def test_no_archive_is_an_error_that_names_the_release(tmp_path: Path, text: str) -> None:
    (tmp_path / "sources.list").write_text(text)
    with pytest.raises(UnavailableError, match="cannot find an archive of 'bookworm'"):
        archives_of("bookworm", tmp_path)


def test_a_missing_apt_folder_has_no_archives(tmp_path: Path) -> None:
    assert list(read_archives(tmp_path / "absent")) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('ID=debian\nVERSION_ID="12"\nVERSION_CODENAME=bookworm\n', Distribution("debian", "bookworm", 12)),
        ("ID=debian\nVERSION_CODENAME=forky\n", Distribution("debian", "forky", None)),
        ('ID=ubuntu\nVERSION_ID="24.04"\nVERSION_CODENAME=noble\n', Distribution("ubuntu", "noble", 24)),
    ],
)
def test_os_release_tells_the_release(tmp_path: Path, text: str, expected: Distribution) -> None:
    path = tmp_path / "os-release"
    path.write_text(text)
    assert read_distribution(path) == expected


def test_a_linux_without_a_release_name_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "os-release"
    with pytest.raises(UnavailableError, match="cannot tell which Linux"):
        read_distribution(path)
    path.write_text("ID=arch\n")
    with pytest.raises(UnavailableError, match="VERSION_CODENAME"):
        read_distribution(path)
