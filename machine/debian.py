"""Debian packages unpacked into a private folder: no root, nothing installed, the system untouched.

apt does the fetching, with its lists, state and cache in a folder of our own, so that signatures are checked
with the machine's keyring, and its proxies and mirrors hold. No maintainer script runs: what comes out is the
files of the packages named, without their dependencies.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from domain.errors import UnavailableError
from machine.apt_sources import APT_FOLDER, OS_RELEASE, Archive, archives_of, read_distribution
from machine.lock import Progress, exclusive
from machine.process import run

MARKER = ".unpacked"


def unpack(
    packages: Sequence[str],
    into: Path,
    *,
    suite: str | None = None,
    progress: Progress,
    apt_folder: Path = APT_FOLDER,
    os_release: Path = OS_RELEASE,
) -> Path:
    """The folder `into` with the files of `packages` below it, laid out as on a system (`usr/bin/...`).

    `suite` is a Debian release by name; None is the machine's own. A folder that already holds these packages
    is returned as it is, offline too; one that holds others is made anew. The work is done in `into`.partial
    and moved at the end, so a folder with MARKER is whole. Safe against other processes that do the same.

    Raises UnavailableError where apt is missing, no archive is known, the packages cannot be fetched, or the
    folder cannot be written.
    """
    into = into.resolve()
    if is_unpacked(packages, into, suite):
        return into
    partial = into.with_name(f"{into.name}.partial")
    try:
        with exclusive(into.parent, progress):
            if is_unpacked(packages, into, suite):
                return into
            _refuse_missing_tools()
            codename = read_distribution(os_release).codename
            try:
                archives = archives_of(codename, apt_folder)
                tree = _fetch_from_any(archives, packages, suite or codename, partial, progress)
                (tree / MARKER).write_text(_contents(packages, suite), encoding="utf-8")
                shutil.rmtree(into, ignore_errors=True)
                tree.rename(into)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise UnavailableError(
            f"cannot unpack {' '.join(packages)} into '{into}': {error.strerror}; check the disk"
        ) from error
    return into


def is_unpacked(packages: Sequence[str], into: Path, suite: str | None) -> bool:
    """Whether `into` was finished, and for this request."""
    marker = into / MARKER
    return marker.is_file() and marker.read_text(encoding="utf-8") == _contents(packages, suite)


def _contents(packages: Sequence[str], suite: str | None) -> str:
    return f"{suite or 'own release'}: {' '.join(sorted(packages))}\n"


def _refuse_missing_tools() -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise UnavailableError(f"cannot unpack Debian packages: '{tool}' is not on PATH; use Debian, or install it")


def _fetch_from_any(
    archives: Sequence[Archive], packages: Sequence[str], suite: str, partial: Path, progress: Progress
) -> Path:
    """The unpacked tree, from the first archive that has the packages; the first refusal is the one told."""
    refusals: list[UnavailableError] = []
    for archive in archives:
        shutil.rmtree(partial, ignore_errors=True)
        # Another release may lack the components that this one has (Debian 12 brought non-free-firmware).
        components = archive.components if suite in archive.suites else ("main",)
        try:
            return _fetch(archive.of_suite(suite, components), packages, partial, progress)
        except UnavailableError as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _fetch(archive: Archive, packages: Sequence[str], partial: Path, progress: Progress) -> Path:
    names = " ".join(packages)
    configuration = _write_configuration(archive, partial)
    downloads, tree = partial / "downloads", partial / "tree"
    downloads.mkdir()
    tree.mkdir()
    # -c is read after the machine's own configuration, so ours wins and its proxies stay in force.
    apt_get = ["apt-get", "-c", str(configuration), "--quiet=2"]
    reachable = "check that the mirror is reachable"
    progress(f"reading the package lists of {' '.join(archive.suites)} (10 MB)")
    _run([*apt_get, "update"], downloads, f"read the package lists for {names}", reachable)
    progress(f"fetching {names}")
    _run([*apt_get, "download", *packages], downloads, f"fetch {names}", reachable)
    for package in sorted(downloads.glob("*.deb")):
        progress(f"unpacking {package.name}")
        _run(
            ["dpkg-deb", "--extract", str(package), str(tree)], downloads, f"unpack '{package.name}'", "check the disk"
        )
    return tree


def _write_configuration(archive: Archive, partial: Path) -> Path:
    """apt.conf(5) of an apt that knows one archive and keeps everything below `partial`."""
    for folder in ("state", "lists/partial", "cache/archives/partial", "empty"):
        (partial / folder).mkdir(parents=True)
    (partial / "status").touch()
    (partial / "archive.sources").write_text(archive.deb822(), encoding="utf-8")
    configuration = partial / "apt.conf"
    configuration.write_text(
        f"""
Dir::State "{partial}/state";
Dir::State::lists "{partial}/lists";
Dir::State::status "{partial}/status";
Dir::Cache "{partial}/cache";
Dir::Cache::archives "{partial}/cache/archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Etc::sourcelist "{partial}/archive.sources";
Dir::Etc::sourceparts "{partial}/empty";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "{partial}/empty";
// As root, apt would else fetch as a user that may not enter this folder.
APT::Sandbox::User "";
// A pin to the machine's own release hides every other one.
APT::Default-Release "";
// A list that cannot be read is an error, not a warning with exit code 0.
APT::Update::Error-Mode "any";
Acquire::Retries "1";
Acquire::http::Timeout "20";
Acquire::https::Timeout "20";
// The machine's hooks refresh the machine's caches: none of our business.
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
""",
        encoding="utf-8",
    )
    return configuration


def _run(command: Sequence[str], folder: Path, purpose: str, remedy: str) -> None:
    done = run(command, folder=folder)
    if done.returncode != 0:
        lines = [line.strip() for line in done.stdout.splitlines() if line.strip()] or ["nothing"]
        said = next((line for line in lines if line.startswith(("E:", "Err:"))), lines[-1])
        raise UnavailableError(f"cannot {purpose}: {command[0]} says '{said}'; {remedy}")
