"""What a database refuses, in one line that a person can act on."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DatabaseError, DataError, OperationalError

from domain.errors import ConflictError, GputabError, InputError, NotFoundError, UnavailableError

# How long a write waits for another one, in either database: for a meter that writes a busy hour.
LOCK_TIMEOUT_MS = 15_000

_UPGRADE = "run `gputab db upgrade`"
_RETRY = "another transaction was in the way; try again"
_GONE = "the server ended the connection; try again"
_CHECK = "check `database_url`, and that the server and the database, or the file, are there"
_ACCOUNT = "check the user and the password of `database_url`, and whom the server lets in"
_NOT_OURS = "it holds what no gputab made; name another database by `database_url`"
_BEYOND_SQLITE = "too large to convert to SQLite"
_HELD = f"another process has held its lock for {LOCK_TIMEOUT_MS // 1000} s; stop it or try again"

# SQLite has few codes of its own, so its words tell.
_OF_SQLITE = (
    ("no such table", _UPGRADE),
    ("already exists", _NOT_OURS),
    ("locked", _HELD),
    ("not a database|malformed", "restore it from a backup, or name a new file by GPUTAB_DATABASE_URL"),
    ("disk is full", "free some space"),
    ("readonly", "let this user write the file and its folder"),
)
# PostgreSQL's codes of errors (its manual, appendix A), the first characters of one at least.
_OF_POSTGRESQL = (
    ("42P01|3F000", _UPGRADE),
    ("42P07", _NOT_OURS),
    ("42501", "let the user of `database_url` own the database and its tables"),
    ("25006", "it is a standby, or set to be read only; name the server that takes writes by `database_url`"),
    ("55P03", _HELD),
    ("40001|40P01", _RETRY),
    ("57014", "it took longer than the server allows by statement_timeout; allow more, or try again"),
    ("08|25P03|57P", _GONE),
    ("53100", "free some space on the server"),
    ("53", "let the server have more of what it lacks, or try again"),
)
# What refuses a connection comes without a code.
_OF_NO_CONNECTION = (
    ('database ".*" does not exist', f"create it on the server, or check `database_url`; then {_UPGRADE}"),
    ("too many|connection slots", "end some of its connections, or let it have more; then try again"),
    ("starting up|shutting down|recovery|not yet accepting", "try again when the server is up"),
    ('authentication failed|no password|role ".*" does not exist|pg_hba', _ACCOUNT),
    ("closed the connection", _GONE),
)
# A row that another transaction wrote or took away meanwhile, which SQLite's one writer at a time cannot meet.
_OVERTAKEN = frozenset({"23503", "23505"})


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what a person can act on into one line; the rest are faults of ours.

    Raises UnavailableError for a database that cannot be used, ConflictError where another process was faster,
    InputError for what no database takes, NotFoundError for what is asked for by text that it cannot have kept.
    """
    try:
        yield
    except DatabaseError as error:
        plain = _plain(error)
        if plain is None:
            raise
        raise plain from error
    except OverflowError as error:
        # sqlite3's own, before the statement gets to the database.
        if _BEYOND_SQLITE not in str(error):
            raise
        raise _not_kept(str(error)) from error


def _plain(error: DatabaseError) -> GputabError | None:
    reason = str(error.orig).strip().partition("\n")[0]
    code = str(getattr(error.orig, "sqlstate", None) or "")
    if isinstance(error, DataError):
        if "NUL" in reason and (error.statement or "").startswith("SELECT"):
            # It is the name of nothing: PostgreSQL keeps no such text.
            return NotFoundError("cannot find a name with a NUL character in it: check the name")
        return _not_kept(reason)
    if reason.startswith("invalid connection option"):
        return InputError(f"cannot use the database URL: {reason}; name options as libpq does")
    if code in _OVERTAKEN:
        return ConflictError(f"cannot write: another process was faster ({reason}); look at what it wrote, try again")
    remedy = _remedy(error, reason, code)
    return None if remedy is None else UnavailableError(f"cannot use the database: {reason}; {remedy}")


def _not_kept(reason: str) -> InputError:
    return InputError(f"cannot keep this in the database: {reason}; use a smaller number, or plain text")


def _remedy(error: DatabaseError, reason: str, code: str) -> str | None:
    if isinstance(error.orig, sqlite3.Error):
        known = ((re.search(pattern, reason), remedy) for pattern, remedy in _OF_SQLITE)
    elif code:
        known = ((re.match(pattern, code), remedy) for pattern, remedy in _OF_POSTGRESQL)
    else:
        known = ((re.search(pattern, reason), remedy) for pattern, remedy in _OF_NO_CONNECTION)
    # SQLite says of a file that is no database what is in no subclass.
    may_mend = type(error) in (DatabaseError, OperationalError)
    return next((remedy for found, remedy in known if found), _CHECK if may_mend else None)
