"""A PostgreSQL of the tests' own: no port, one socket in a folder that nobody else uses, a database for every test."""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self

import psycopg
from sqlalchemy.engine import make_url

from domain.clock import SystemClock
from domain.errors import UnavailableError
from machine.lock import exclusive
from machine.process import POLL_INTERVAL_S, last_line
from tests.postgresql_programs import PostgresqlPrograms

# How long a busy machine may take for what takes a tenth of a second.
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
PREFIX = "gputab-postgresql-"
# A database is 8 MB in 300 files; it is copied four times as quickly where no disk is behind it.
MEMORY = Path("/dev/shm")
MEMORY_NEEDED_BYTES = 2**30
# A power cut may cost the tests their data, so nothing waits for a disk.
SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
}
# pg_hba.conf(5): everybody without a password, but for who belongs to the role `asked`, where a test makes one.
LETS_IN = "local all +asked scram-sha-256\nlocal all all trust\n"


class PostgresqlServer:
    """A running server, with its data and its socket in a folder of its own, that makes databases.

    It orders text as English people do, as most servers are set up to, so that what does not say how it is ordered
    shows. It lives as long as the `with` block, and no longer than the tests where they are killed.
    """

    def __init__(self, programs: PostgresqlPrograms) -> None:
        self.programs = programs
        self._numbers = count(1)
        self._process: subprocess.Popen[bytes] | None = None
        self._administrator: psycopg.Connection[tuple[object, ...]] | None = None

    def __enter__(self) -> Self:
        """Raises UnavailableError where it does not come up, and leaves nothing then."""
        self.folder, self._lock = _own_folder()
        try:
            self._make()
            self.start()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._remove()

    def start(self) -> None:
        """Begin to answer, again after a stop; nothing is lost between them."""
        settings = [word for name, value in SETTINGS.items() for word in ("-c", f"{name}={value}")]
        self._process = self._begin(["postgres", "-D", str(self._data), "-k", str(self.folder), *settings])
        self._administrator = self._connect(self._process)

    def stop(self) -> None:
        """End the server, whoever is connected; a second call does nothing."""
        if self._administrator is not None:
            self._administrator.close()
        if self._process is None:
            return
        # Not SIGTERM, which waits for clients to leave.
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None

    @contextmanager
    def empty(self) -> Iterator[str]:
        """The URL of a database without tables, which is there as long as the block."""
        with self._database("template0") as url:
            yield url

    @contextmanager
    def copy(self, url: str) -> Iterator[str]:
        """The URL of a copy of a database that nobody is connected to, which is there as long as the block."""
        with self._database(str(make_url(url).database)) as copied:
            yield copied

    def url(self, database: str, user: str = "gputab") -> str:
        """Where a database of this server is found, by its socket."""
        return f"postgresql+psycopg://{user}@/{database}?host={self.folder}"

    def administer(self, statement: str) -> None:
        """Run one statement as the owner of the server."""
        assert self._administrator is not None
        self._administrator.execute(statement.encode())

    @contextmanager
    def _database(self, template: str) -> Iterator[str]:
        name = f"test_{next(self._numbers)}"
        # What releases before 15 do without being asked.
        strategy = " STRATEGY file_copy" if self.programs.release >= 15 else ""
        self.administer(f"CREATE DATABASE {name} TEMPLATE {template}{strategy}")
        try:
            yield self.url(name)
        finally:
            self.administer(f"DROP DATABASE {name} WITH (FORCE)")

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _log(self) -> Path:
        return self.folder / "log"

    def _make(self) -> None:
        account = self.programs.account
        if account is not None:
            os.chown(self.folder, account.pw_uid, account.pw_gid)
        order = ["--locale-provider=icu", "--icu-locale=en-US"] if self.programs.release >= 15 else []
        words = ["initdb", "-D", str(self._data), "-U", "gputab", "-A", "trust", "-E", "UTF8", "--no-sync", *order]
        if self._begin(words).wait() != 0:
            said = last_line(self._log)
            raise UnavailableError(f"cannot make a PostgreSQL for tests: initdb says '{said}'; mend that")
        (self._data / "pg_hba.conf").write_text(LETS_IN, "utf-8")

    def _begin(self, words: list[str]) -> "subprocess.Popen[bytes]":
        """One of the programs, in a session of its own: Ctrl-C is for the tests, which stop it last."""
        setpriv = shutil.which("setpriv")
        tie = [setpriv, "--pdeathsig", "INT", "--"] if setpriv is not None else []
        account = self.programs.account
        with self._log.open("ab") as output:
            return subprocess.Popen(
                [*tie, str(self.programs.folder / words[0]), *words[1:]],
                cwd=self.folder,
                env=self.programs.environment,
                user=account.pw_uid if account else None,
                group=account.pw_gid if account else None,
                extra_groups=[] if account else None,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def _connect(self, process: "subprocess.Popen[bytes]") -> "psycopg.Connection[tuple[object, ...]]":
        clock = SystemClock()
        deadline_s = clock.monotonic_s() + START_TIMEOUT_S
        while True:
            try:
                return psycopg.connect(host=str(self.folder), user="gputab", dbname="postgres", autocommit=True)
            except psycopg.OperationalError as error:
                if process.poll() is not None or clock.monotonic_s() > deadline_s:
                    raise UnavailableError(
                        f"cannot use the PostgreSQL for tests: its log ends with '{last_line(self._log)}'; mend that"
                    ) from error
            clock.sleep_s(POLL_INTERVAL_S)

    def _remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)


def _own_folder() -> tuple[Path, int]:
    """A new folder, in memory where there is room, and the lock on it that says whose tests still run.

    Removes what killed tests have left. The path is short: a socket's may have 107 bytes.
    """
    roomy = MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > MEMORY_NEEDED_BYTES
    parent = MEMORY if roomy else Path(tempfile.gettempdir())
    with exclusive(parent, print):
        for left in parent.glob(f"{PREFIX}*"):
            lock = _try_lock(left)
            if lock is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(lock)
        folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        own = _try_lock(folder)
    assert own is not None
    return folder, own


def _try_lock(folder: Path) -> int | None:
    """The descriptor that holds the folder; None where somebody else does, or whoever it belongs to."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
