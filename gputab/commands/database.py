"""`gputab db`: the ledger's migrations."""

from contextlib import closing

import typer

from gputab import composition
from gputab.output import say
from store import migrate
from store.database import Database

app = typer.Typer(help="Bring the database to this version, or check it.", no_args_is_help=True)


@app.command()
def upgrade() -> None:
    """Run every migration the database lacks, in one transaction."""
    with closing(Database(composition.settings().database_url)) as database:
        migrate.upgrade(database)
        say(f"the database is at migration {migrate.check(database)}")


@app.command()
def check() -> None:
    """Fail unless the database is at the newest migration and its tables are as that made them."""
    with closing(Database(composition.settings().database_url)) as database:
        say(f"the database is at migration {migrate.check(database)}")
