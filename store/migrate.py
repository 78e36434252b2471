"""Bring a database to the newest migration, or say how far it is."""

from importlib import resources

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError

from domain.errors import UnavailableError
from store.database import Database
from store.tables import METADATA


def upgrade(database: Database, revision: str = "head") -> None:
    """Run every migration up to `revision` in one transaction."""
    try:
        with database.write() as connection:
            command.upgrade(_config(connection), revision)
    except CommandError as error:
        raise UnavailableError(f"cannot upgrade the database: {error}; use the newer gputab that made it") from error


def downgrade(database: Database, revision: str = "base") -> None:
    """Undo migrations down to `revision` in one transaction; what they had added is lost."""
    with database.write() as connection:
        command.downgrade(_config(connection), revision)


def check(database: Database) -> str:
    """The revision of the database; UnavailableError where it is not the newest, or its tables differ."""
    head = ScriptDirectory.from_config(_config(None)).get_current_head()
    with database.read() as connection:
        context = MigrationContext.configure(connection)
        current = context.get_current_revision()
        if current != head:
            raise UnavailableError(
                f"cannot use the database at migration {current or 'none'!r}: gputab needs {head!r}; run "
                "`gputab db upgrade`"
            )
        differences = compare_metadata(context, METADATA)
    if differences:
        raise UnavailableError(f"cannot use the database: its tables differ from migration {head!r}: {differences}")
    return str(current)


def _config(connection: object) -> Config:
    config = Config()
    config.set_main_option("script_location", str(resources.files("store") / "migrations"))
    config.attributes["connection"] = connection
    return config
