"""The composition root of every command: settings in, plain objects out."""

from collections.abc import Iterator
from contextlib import contextmanager

import httpx

from domain.clock import Clock, SystemClock
from domain.errors import AccessError
from domain.skus import SkuTable, load_skus
from settings.gputab import Settings, load_settings
from store.database import Database
from store.migrate import check

__all__ = ["clock", "http_client", "open_database", "settings", "sku_table", "token"]

# One attempt must not outlive the patience of a person at a terminal.
_TIMEOUT_SECONDS = 30.0


def settings() -> Settings:
    """The settings of this process."""
    return load_settings()


def clock() -> Clock:
    """The machine's clock."""
    return SystemClock()


@contextmanager
def open_database(config: Settings) -> Iterator[Database]:
    """The ledger, refused unless it is at the newest migration."""
    database = Database(config.database_url)
    try:
        check(database)
        yield database
    finally:
        database.close()


def http_client() -> httpx.Client:
    """The one keep-alive client of a command."""
    return httpx.Client(timeout=_TIMEOUT_SECONDS)


def sku_table(config: Settings) -> SkuTable:
    """The operator's SKUs."""
    return load_skus(config.sku_table)


def token(config: Settings) -> str:
    """The bearer token of this person or node."""
    if config.token is None:
        raise AccessError("cannot ask the allocator without a token: set GPUTAB_TOKEN", authenticated=False)
    return config.token.get_secret_value()
