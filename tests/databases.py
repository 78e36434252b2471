"""Where tests have their ledgers: the two databases that gputab runs on, behind one interface."""

import shutil
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from typing import Protocol

from sqlalchemy.engine import make_url

from store.database import Database


class Databases(Protocol):
    """Makes databases, each for as long as its `with` block takes."""

    def empty(self) -> AbstractContextManager[str]:
        """The URL of a database in which nothing is migrated yet."""
        ...

    def copy(self, url: str) -> AbstractContextManager[str]:
        """The URL of a copy of a database that nobody is connected to."""
        ...


class SqliteFiles:
    """Files, each in a folder of its own; they stay, for whoever looks into a test that failed."""

    def __init__(self, folder: Path) -> None:
        self._folders = (folder / str(number) for number in count(1))

    @contextmanager
    def empty(self) -> Iterator[str]:
        """The URL of a file that is not there yet."""
        folder = next(self._folders)
        folder.mkdir()
        yield f"sqlite:///{folder}/gputab.db"

    @contextmanager
    def copy(self, url: str) -> Iterator[str]:
        """The URL of a copy; whoever closed the original last left nothing of it beside the file."""
        with self.empty() as copied:
            shutil.copy(file_of(url), file_of(copied))
            yield copied


def file_of(url: str) -> Path:
    """The file of a SQLite database."""
    return Path(str(make_url(url).database))


def url_of(database: Database) -> str:
    """Where the database is, to open it once more as another process would."""
    return database.engine.url.render_as_string(hide_password=False)
