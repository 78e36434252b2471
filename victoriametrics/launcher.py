"""The command of a private VictoriaMetrics on loopback, and whether one that runs already will do.

Which program to run is `machine.programs.VICTORIA_METRICS`; an older one is refused there by the flag it lacks.
"""

from pathlib import Path

from domain.errors import UnavailableError
from machine.programs import VICTORIA_METRICS
from victoriametrics.connection import Connection
from victoriametrics.metrics_page import MetricsPage
from victoriametrics.store_address import StoreAddress

RETENTION = "100y"
DEDUP_INTERVAL_S = 1
# A collector sends again what the last minute took, once it has seen that the server was started since: it looks every
# few seconds.
MOST_FLUSH_INTERVAL_S = 30
DEFAULT_FLUSH_INTERVAL = "5s"


def command(*, binary: Path, port: int, data_dir: Path, retention: str = RETENTION) -> list[str]:
    """The command line of a private server: one port, on loopback, and no other.

    `retention` as the server writes it: 35d, 100y, a bare number for months.
    """
    return [
        str(binary),
        f"-httpListenAddr=127.0.0.1:{port}",
        f"-storageDataPath={data_dir}",
        f"-retentionPeriod={retention}",
        # A sample that is sent twice, by a retry or by a second collector, is one sample.
        f"-dedup.minScrapeInterval={DEDUP_INTERVAL_S}s",
        # A page on screen is to be a second behind, not the default 30.
        "-search.latencyOffset=1s",
    ]


def check_flags(address: StoreAddress | str) -> None:
    """Raise UnavailableError where the server at `address` is too old, or would bend samples or lose too many.

    A version is known by its flags, since not every build prints one. Duplicates must be merged per second: a
    longer interval throws seconds away, none at all counts a repeated sample twice. What it keeps off its disk for
    longer than half a minute it may lose for good.
    """
    with Connection(address) as connection:
        page = MetricsPage(connection.url, connection.get("/metrics", "check VictoriaMetrics").text)
    lacking = next((flag for flag in VICTORIA_METRICS.required_flags if flag not in page.flags), None)
    if lacking is not None:
        raise UnavailableError(
            f"cannot use VictoriaMetrics at {page.url!r}: it lacks the flag -{lacking}; "
            f"run {VICTORIA_METRICS.minimum_version} or newer"
        )
    if page.duration_s("dedup.minScrapeInterval") != DEDUP_INTERVAL_S:
        raise UnavailableError(
            f"cannot use VictoriaMetrics at {page.url!r}: -dedup.minScrapeInterval is "
            f"{page.flags['dedup.minScrapeInterval']!r}; start it with {DEDUP_INTERVAL_S}s"
        )
    flush = "inmemoryDataFlushInterval"
    if page.duration_s(flush, DEFAULT_FLUSH_INTERVAL) > MOST_FLUSH_INTERVAL_S:
        raise UnavailableError(
            f"cannot use VictoriaMetrics at {page.url!r}: -{flush} is {page.flags[flush]!r}, which a crash would cost; "
            f"start it with {MOST_FLUSH_INTERVAL_S}s at most"
        )
