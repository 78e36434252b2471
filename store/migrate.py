"""Bring a database to the newest migration, or say how far it is."""

from importlib import resources

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError

from domain.errors import UnavailableError
from store.database import Database, serialize
from store.schema import differing_parts

# Two hosts that start at once may both find a database without tables.
_HISTORY = "migrations"


def upgrade(database: Database, revision: str = "head") -> None:
    """Run every migration up to `revision` in one transaction; a new SQLite file is made, and its folder."""
    database.make_file()
    try:
        with database.write() as connection:
            serialize(connection, _HISTORY)
            command.upgrade(_config(connection), revision)
    except CommandError as error:
        raise UnavailableError(f"cannot upgrade the database: {error}; use the newer gputab that made it") from error


def downgrade(database: Database, revision: str = "base") -> None:
    """Undo migrations down to `revision` in one transaction; what they had added is lost."""
    with database.write() as connection:
        serialize(connection, _HISTORY)
        command.downgrade(_config(connection), revision)


def check(database: Database) -> str:
    """The revision of the database; UnavailableError where it is not the newest, or its tables differ from it.

    How far they are compared: `differing_parts`.
    """
    history = ScriptDirectory.from_config(_config(None))
    head = history.get_current_head()
    with database.read() as connection:
        context = MigrationContext.configure(connection)
        current = context.get_current_revision()
        if current is not None and current not in {each.revision for each in history.walk_revisions()}:
            raise UnavailableError(
                f"cannot use the database at migration {current!r}: it was made by a newer gputab; use that one"
            )
        if current != head:
            raise UnavailableError(
                f"cannot use the database at migration {current or 'none'!r}: gputab needs {head!r}; run "
                "`gputab db upgrade`"
            )
        differing = differing_parts(connection)
    if differing:
        raise UnavailableError(
            f"cannot use the database: its tables differ from migration {head!r} in {', '.join(differing)}; restore "
            "a backup"
        )
    return str(current)


def _config(connection: object) -> Config:
    config = Config()
    config.set_main_option("script_location", str(resources.files("store") / "migrations"))
    config.attributes["connection"] = connection
    return config
