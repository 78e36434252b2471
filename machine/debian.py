"""Debian packages unpacked into a private folder: no root, nothing installed, the system untouched.

apt does the fetching, with its lists, state and cache in a folder of our own, so that signatures are checked
with the machine's keyring, and its proxies and mirrors hold. No maintainer script runs: what comes out is the
files of the packages.
"""

import shutil
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from domain.errors import UnavailableError
from machine.apt_sources import APT_FOLDER, OS_RELEASE, Archive, archives_of, read_distribution
from machine.lock import Progress, exclusive
from machine.process import run

MARKER = ".unpacked"
# It must be the one that the machine's own loader belongs to.
C_LIBRARY = "libc6"


def unpack(
    packages: Sequence[str],
    into: Path,
    *,
    suite: str | None = None,
    with_dependencies: bool = False,
    progress: Progress,
    apt_folder: Path = APT_FOLDER,
    os_release: Path = OS_RELEASE,
) -> Path:
    """The folder `into` with the files of `packages` below it, laid out as on a system (`usr/bin/...`).

    `suite` is a Debian release by name; None is the machine's own. `with_dependencies` adds every package that
    they depend on, whether the machine has it or not, but for the C library; what is run out of such a folder
    needs `library_path`. A folder that already holds these packages is returned as it is, offline too; one that
    holds others is made anew. The work is done in `into`.partial and moved at the end, so a folder with MARKER
    is whole. Safe against other processes that do the same.

    Raises UnavailableError where apt is missing, no archive is known, the packages cannot be fetched, or the
    folder cannot be written.
    """
    into = into.resolve()
    contents = _contents(packages, suite, with_dependencies)
    if _holds(into, contents):
        return into
    work = into.with_name(f"{into.name}.partial")
    try:
        with exclusive(into.parent, progress):
            if _holds(into, contents):
                return into
            _refuse_missing_tools()
            codename = read_distribution(os_release).codename
            try:
                archives = archives_of(codename, apt_folder)
                fetch = partial(_fetch, packages=packages, with_dependencies=with_dependencies, progress=progress)
                tree = _from_any(archives, suite or codename, work, fetch)
                (tree / MARKER).write_text(contents, encoding="utf-8")
                shutil.rmtree(into, ignore_errors=True)
                tree.rename(into)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    except OSError as error:
        raise UnavailableError(
            f"cannot unpack {' '.join(packages)} into '{into}': {error.strerror}; check the disk"
        ) from error
    return into


def library_path(folder: Path) -> str:
    """What LD_LIBRARY_PATH must be for a program out of `folder`, which was unpacked with dependencies."""
    # Debian's names for architectures, such as x86_64-linux-gnu; up to Debian 12 some packages still use /lib.
    return ":".join(str(path) for top in ("usr/lib", "lib") for path in sorted(folder.glob(f"{top}/*-linux-gnu*")))


def _holds(into: Path, contents: str) -> bool:
    """Whether `into` was finished, and for this request."""
    marker = into / MARKER
    return marker.is_file() and marker.read_text(encoding="utf-8") == contents


def _contents(packages: Sequence[str], suite: str | None, with_dependencies: bool = False) -> str:
    more = " with dependencies" if with_dependencies else ""
    return f"{suite or 'own release'}: {' '.join(sorted(packages))}{more}\n"


def _refuse_missing_tools() -> None:
    for tool in ("apt-get", "dpkg-deb"):
        if shutil.which(tool) is None:
            raise UnavailableError(f"cannot unpack Debian packages: '{tool}' is not on PATH; use Debian, or install it")


def _from_any(archives: Sequence[Archive], suite: str, work: Path, fetch: Callable[[Archive, Path], Path]) -> Path:
    """What `fetch` makes of the first archive that has the packages; the first refusal is the one told."""
    refusals: list[UnavailableError] = []
    for archive in archives:
        shutil.rmtree(work, ignore_errors=True)
        # Another release may lack the components that this one has (Debian 12 brought non-free-firmware).
        components = archive.components if suite in archive.suites else ("main",)
        try:
            return fetch(archive.of_suite(suite, components), work)
        except UnavailableError as refusal:
            refusals.append(refusal)
    raise refusals[0]


def _fetch(archive: Archive, work: Path, packages: Sequence[str], with_dependencies: bool, progress: Progress) -> Path:
    """The tree in `work` with the files of the packages."""
    names = " ".join(packages)
    configuration = _write_configuration(archive, work)
    downloads, tree = work / "downloads", work / "tree"
    downloads.mkdir()
    tree.mkdir()
    # -c is read after the machine's own configuration, so ours wins and its proxies stay in force.
    apt_get = ["apt-get", "-c", str(configuration), "--quiet=2"]
    reachable = "check that the mirror is reachable"
    progress(f"reading the package lists of {' '.join(archive.suites)} (10 MB)")
    _run([*apt_get, "update"], downloads, f"read the package lists for {names}", reachable)
    if with_dependencies:
        progress(f"fetching {names} with all that it needs")
        fetch = ["install", "--yes", "--no-install-recommends", "--download-only"]
        downloads = work / "cache" / "archives"
    else:
        progress(f"fetching {names}")
        fetch = ["download"]
    _run([*apt_get, *fetch, *packages], downloads, f"fetch {names}", reachable)
    for package in sorted(downloads.glob("*.deb")):
        if with_dependencies and package.name.startswith(f"{C_LIBRARY}_"):
            continue
        progress(f"unpacking {package.name}")
        _run(
            ["dpkg-deb", "--extract", str(package), str(tree)], downloads, f"unpack '{package.name}'", "check the disk"
        )
    return tree


def _write_configuration(archive: Archive, work: Path) -> Path:
    """apt.conf(5) of an apt that knows one archive and keeps everything below `work`."""
    for folder in ("state", "lists/partial", "cache/archives/partial", "empty"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    (work / "archive.sources").write_text(archive.deb822(), encoding="utf-8")
    configuration = work / "apt.conf"
    configuration.write_text(
        f"""
Dir::State "{work}/state";
Dir::State::lists "{work}/lists";
Dir::State::status "{work}/status";
Dir::Cache "{work}/cache";
Dir::Cache::archives "{work}/cache/archives";
Dir::Cache::pkgcache "";
Dir::Cache::srcpkgcache "";
Dir::Etc::sourcelist "{work}/archive.sources";
Dir::Etc::sourceparts "{work}/empty";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "{work}/empty";
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
