"""The composition root of every command: settings in, plain objects out.

What needs the ledger is in `ledger.py`: a rented node has none, and its collector stays small.
"""

import sys
from contextlib import suppress

import httpx
import structlog

from domain.clock import Clock, SystemClock
from domain.errors import AccessError
from domain.skus import SkuTable, load_skus
from settings.gputab import Settings, load_settings
from victoriametrics.store_address import StoreAddress

# One attempt must not outlive the patience of a person at a terminal.
_TIMEOUT_SECONDS = 30.0
_IDLE_SECONDS = 2.0


def settings() -> Settings:
    """The settings of this process."""
    return load_settings()


def clock() -> Clock:
    """The machine's clock."""
    return SystemClock()


def http_client(url: str) -> httpx.Client:
    """The one keep-alive client of a command, for that server or one by http.

    A proxy that the environment names must not see our tokens. What the system trusts is read for https only: it
    takes 3 MB, which a collector can do without.
    """
    # A server closes what was idle for long; a connection that is given up before that is never closed in our face.
    limits = httpx.Limits(keepalive_expiry=_IDLE_SECONDS)
    verify = StoreAddress(url).tls_context()
    return httpx.Client(timeout=_TIMEOUT_SECONDS, trust_env=False, limits=limits, verify=verify)


def log_to_stderr() -> None:
    """Logs of a service: one line an event, its data as key=value."""
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        logger_factory=lambda *_: _LineLogger(sys.stderr),
    )


def sku_table(config: Settings) -> SkuTable:
    """The operator's SKUs."""
    return load_skus(config.sku_table)


def token(config: Settings) -> str:
    """The bearer token of this person or node."""
    if config.token is None or not config.token.get_secret_value():
        raise AccessError("cannot ask the allocator without a token: set GPUTAB_TOKEN", authenticated=False)
    return config.token.get_secret_value()


def sample_store(config: Settings) -> StoreAddress:
    """VictoriaMetrics, as every client of it is told."""
    secret = config.victoriametrics_token
    # An empty one is none, as for every token.
    bearer = None if secret is None else secret.get_secret_value() or None
    return StoreAddress(config.victoriametrics_url, bearer, config.victoriametrics_ca_file)


class _LineLogger(structlog.PrintLogger):
    """Lines of a log. One that a full disk does not take is lost, and never what was about to be done."""

    def msg(self, message: str) -> None:
        with suppress(OSError):
            super().msg(message)

    debug = info = warning = error = msg
