"""Finds the programs of PostgreSQL: the machine's own, or Debian's unpacked for the tests."""

import os
import pwd
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from domain.errors import UnavailableError
from machine.debian import library_path, unpack
from machine.lock import Progress

# Where Debian and its kin put the programs of each release; they are not on PATH there.
INSTALLED = Path("/usr/lib/postgresql")


@dataclass(frozen=True, slots=True)
class PostgresqlPrograms:
    """Where `initdb` and `postgres` are, of which release, and how they are run.

    `libraries` is what LD_LIBRARY_PATH must be, '' for the machine's own. `account` is the user that runs them, which
    cannot be root; None is the user who runs the tests.
    """

    folder: Path
    libraries: str
    release: int
    account: pwd.struct_passwd | None

    @property
    def environment(self) -> dict[str, str]:
        """All that the programs see of the environment."""
        return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "LD_LIBRARY_PATH": self.libraries}


def find_postgresql(cache_folder: Path, progress: Progress) -> PostgresqlPrograms:
    """The newest installed, else what `initdb` on PATH belongs to, else Debian's package unpacked in `cache_folder`.

    Raises UnavailableError where there is none, or none that can be run.
    """
    installed = sorted(INSTALLED.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    if installed:
        return _probed(installed[-1].parent)
    if on_path is not None:
        # Beside a link to it there need be no `postgres`.
        return _probed(Path(on_path).resolve().parent)
    return unpack_postgresql(cache_folder, progress)


def unpack_postgresql(cache_folder: Path, progress: Progress) -> PostgresqlPrograms:
    """Debian's PostgreSQL of the machine's own release, with all that it needs, unpacked in `cache_folder`."""
    tree = unpack(["postgresql"], cache_folder / "postgresql", with_dependencies=True, progress=progress)
    found = sorted(tree.glob("usr/lib/postgresql/*/bin/initdb"))
    if not found:
        raise UnavailableError(f"cannot find initdb in '{tree}': Debian's package has none; install PostgreSQL")
    return _probed(found[-1].parent, library_path(tree))


def _probed(folder: Path, libraries: str = "") -> PostgresqlPrograms:
    account = _account()
    found = PostgresqlPrograms(folder, libraries, 0, account)
    try:
        done = subprocess.run(
            [folder / "initdb", "--version"],
            env=found.environment,
            user=account.pw_uid if account else None,
            group=account.pw_gid if account else None,
            extra_groups=[] if account else None,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:
        who = f" as '{account.pw_name}', since root may not run it" if account else ""
        raise UnavailableError(f"cannot run '{folder / 'initdb'}'{who}: {error.strerror}; let it be run") from error
    release = re.search(r"\(PostgreSQL\) (\d+)", done.stdout)
    if release is None:
        raise UnavailableError(f"cannot use '{folder / 'initdb'}': it says '{done.stderr.strip()}'; mend that")
    return PostgresqlPrograms(folder, libraries, int(release[1]), account)


def _account() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise UnavailableError("cannot run PostgreSQL as root: there is no user 'postgres' or 'nobody'; add one")
