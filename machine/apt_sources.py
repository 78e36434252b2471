"""Where this machine gets its Debian packages from, read from apt's own files.

Formats: sources.list(5), both the one-line style (`*.list`) and deb822 (`*.sources`). No mirror is written in
gputab: a machine that reaches only a mirror of its own keeps working.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from domain.errors import UnavailableError

APT_FOLDER = Path("/etc/apt")
OS_RELEASE = Path("/etc/os-release")

# Machines that follow a moving name have the same archive behind it.
MOVING_SUITES = frozenset({"stable", "oldstable", "testing", "unstable", "sid"})


@dataclass(frozen=True, slots=True)
class Archive:
    """One package archive that apt uses on this machine: an enabled `deb` entry, not of a CD.

    `signed_by` is what the entry says (paths, fingerprints or a whole key), None where it names no key.
    """

    uris: tuple[str, ...]
    suites: tuple[str, ...]
    components: tuple[str, ...]
    signed_by: str | None = None

    def of_suite(self, suite: str, components: tuple[str, ...]) -> "Archive":
        """The same archive, asked for another suite."""
        return Archive(self.uris, (suite,), components, self.signed_by)

    def deb822(self) -> str:
        """The entry as a deb822 stanza that fetches the package lists and nothing beside them."""
        lines = [
            "Types: deb",
            f"URIs: {' '.join(self.uris)}",
            f"Suites: {' '.join(self.suites)}",
            f"Components: {' '.join(self.components)}",
            "Targets: Packages",
        ]
        if self.signed_by is not None:
            lines.append(f"Signed-By: {self.signed_by}")
        return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class Distribution:
    """What os-release(5) says: `debian`, `trixie`, 13. The version is None on testing and unstable."""

    name: str
    codename: str
    version: int | None


def read_distribution(os_release: Path = OS_RELEASE) -> Distribution:
    """Which distribution this is.

    Raises UnavailableError where the file or the name of the release is missing.
    """
    try:
        text = os_release.read_text(encoding="utf-8")
    except OSError as error:
        raise UnavailableError(
            f"cannot tell which Linux '{os_release}' is: {error.strerror}; use Debian 12 or 13"
        ) from error
    fields = {}
    for line in text.splitlines():
        key, _, value = line.partition("=")
        fields[key.strip()] = value.strip().strip("\"'")
    codename = fields.get("VERSION_CODENAME", "")
    if not codename:
        raise UnavailableError(
            f"cannot tell which release this is: '{os_release}' has no VERSION_CODENAME; use a release of Debian"
        )
    version = fields.get("VERSION_ID", "").partition(".")[0]
    return Distribution(fields.get("ID", ""), codename, int(version) if version.isdecimal() else None)


def archives_of(codename: str, folder: Path = APT_FOLDER) -> list[Archive]:
    """The archives that carry the machine's own release in `main`, in the order apt reads its files.

    There may be several: other vendors publish under Debian's suite names too.
    Raises UnavailableError where there is none.
    """
    found = [archive for archive in read_archives(folder) if "main" in archive.components]
    own = [archive for archive in found if codename in archive.suites]
    chosen = own or [archive for archive in found if MOVING_SUITES.intersection(archive.suites)]
    if not chosen:
        raise UnavailableError(
            f"cannot find an archive of '{codename}' in '{folder}': no deb entry has it with component main; add one"
        )
    return chosen


def read_archives(folder: Path = APT_FOLDER) -> Iterator[Archive]:
    """Every usable entry of sources.list, sources.list.d/*.list and sources.list.d/*.sources."""
    parts = folder / "sources.list.d"
    for path in [folder / "sources.list", *(sorted(parts.iterdir()) if parts.is_dir() else [])]:
        if path.suffix not in {".list", ".sources"} or not path.is_file():
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        yield from parse_one_line(text) if path.suffix == ".list" else parse_deb822(text)


def parse_one_line(text: str) -> Iterator[Archive]:
    """Entries of the form `deb [option=value ...] URI suite component ...`."""
    for line in text.splitlines():
        kind, _, rest = line.partition("#")[0].strip().replace("\t", " ").partition(" ")
        if kind != "deb":
            continue
        rest = rest.strip()
        options = ""
        if rest.startswith("["):
            options, _, rest = rest[1:].partition("]")
        keys = [option.partition("=")[2] for option in options.split() if option.startswith("signed-by=")]
        words = rest.split()
        yield from _usable(words[:1], words[1:2], words[2:], "".join(keys[:1]))


def parse_deb822(text: str) -> Iterator[Archive]:
    """Stanzas of `Field: value`; a value goes on in the lines that begin with a blank."""
    for stanza in _stanzas(text):
        if "deb" not in stanza.get("types", "").split():
            continue
        if stanza.get("enabled", "yes").strip().lower() in {"no", "false", "0", "off", "without", "disable"}:
            continue
        uris, suites, components = (stanza.get(field, "").split() for field in ("uris", "suites", "components"))
        yield from _usable(uris, suites, components, stanza.get("signed-by", ""))


def _stanzas(text: str) -> Iterator[dict[str, str]]:
    stanza: dict[str, str] = {}
    field = ""
    for line in [*text.splitlines(), ""]:
        if line.startswith("#"):
            continue
        if not line.strip():
            if stanza:
                yield stanza
            stanza = {}
        elif line[0] in " \t":
            stanza[field] = f"{stanza.get(field, '')}\n{line}"
        else:
            name, _, value = line.partition(":")
            field = name.strip().lower()
            stanza[field] = value.strip()


def _usable(uris: Sequence[str], suites: Sequence[str], components: Sequence[str], signed_by: str) -> Iterator[Archive]:
    uris = [uri for uri in uris if not uri.startswith("cdrom:")]
    # A suite that is a path ("./") has no components, and no release of Debian in it.
    if uris and suites and components:
        yield Archive(tuple(uris), tuple(suites), tuple(components), signed_by or None)
