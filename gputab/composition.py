"""The composition root of every command: settings in, plain objects out."""

import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager

import httpx
import structlog

from domain.clock import MICROSECONDS, Clock, SystemClock
from domain.errors import AccessError
from domain.period import HOUR_S, HOUR_US
from domain.skus import SkuTable, load_skus
from meter.stored_observations import StoredObservations
from meter.windows import SettleRules, WindowRater
from settings.gputab import Settings, load_settings
from store.access import Principal
from store.database import Database
from store.migrate import check
from victoriametrics.read import Reader

# One attempt must not outlive the patience of a person at a terminal.
_TIMEOUT_SECONDS = 30.0
_IDLE_SECONDS = 2.0


def settings() -> Settings:
    """The settings of this process."""
    return load_settings()


def clock() -> Clock:
    """The machine's clock."""
    return SystemClock()


@contextmanager
def open_database(config: Settings) -> Iterator[Database]:
    """The ledger, refused unless it is at the newest migration."""
    with closing(Database(config.database_url)) as database:
        check(database)
        yield database


def http_client() -> httpx.Client:
    """The one keep-alive client of a command; a proxy that the environment names must not see our tokens."""
    # A server closes what was idle for long; a connection that is given up before that is never closed in our face.
    limits = httpx.Limits(keepalive_expiry=_IDLE_SECONDS)
    return httpx.Client(timeout=_TIMEOUT_SECONDS, trust_env=False, limits=limits)


def log_to_stderr() -> None:
    """Logs of a service: one line an event, its data as key=value."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )


def sku_table(config: Settings) -> SkuTable:
    """The operator's SKUs."""
    return load_skus(config.sku_table)


def token(config: Settings) -> str:
    """The bearer token of this person or node."""
    if config.token is None or not config.token.get_secret_value():
        raise AccessError("cannot ask the allocator without a token: set GPUTAB_TOKEN", authenticated=False)
    return config.token.get_secret_value()


@contextmanager
def window_rater(
    config: Settings, database: Database, principal: Principal, *, accepts_skew: bool = False
) -> Iterator[WindowRater]:
    """The meter over the sample store of the settings; `accepts_skew` as in `SettleRules`."""
    with Reader(config.victoriametrics_url) as reader:
        lookback_s = (config.settle_deadline_hours + 1) * HOUR_S
        observations = StoredObservations(config.victoriametrics_url, reader, lookback_s=lookback_s, clock=clock())
        rules = SettleRules(
            grace_us=config.settle_grace_seconds * MICROSECONDS,
            deadline_us=config.settle_deadline_hours * HOUR_US,
            accepts_skew=accepts_skew,
        )
        yield WindowRater(database, principal, observations, config.evidence_path, rules)
