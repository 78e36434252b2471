"""What a collector says of itself as a page for a scraper of Prometheus' text formats.

The text is made when somebody asks for it: the second-by-second path pays nothing for it.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import structlog
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from collector.own_metrics import OwnValue
from domain.series import Kind, Series

_LOOPBACK = "127.0.0.1"

log = structlog.get_logger()


class OwnPage(Collector):
    """The families of a page, made of the numbers of the moment in which it is asked for."""

    def __init__(self, values: Callable[[], Iterable[OwnValue]]) -> None:
        """`values` is called by the thread of each scrape."""
        self._values = values

    def collect(self) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
        """One family a series, in the order in which they are told."""
        families: dict[Series, CounterMetricFamily | GaugeMetricFamily] = {}
        for series, value, labels in self._values():
            family = families.get(series) or families.setdefault(series, _family(series))
            family.add_metric([labels[label] for label in series.labels], value)
        yield from families.values()

    def describe(self) -> Iterable[CounterMetricFamily | GaugeMetricFamily]:
        """Nothing beforehand: which series there are depends on what the cards can tell."""
        return ()


@contextmanager
def served(page: OwnPage, port: int) -> Iterator[None]:
    """The page at `/metrics` of that port of loopback while the `with` block runs; 0 for none.

    Where the port cannot be had, that is said, and there is no page: a collector is there to collect.
    """
    if not port:
        yield
        return
    registry = CollectorRegistry()
    registry.register(page)
    try:
        server, thread = start_http_server(port, _LOOPBACK, registry)
    except OSError as error:
        remedy = "let 'metrics_port' be one that is free, or 0 for no page"
        log.warning("metrics_page_unavailable", port=port, error=error.strerror, remedy=remedy)
        yield
        return
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _family(series: Series) -> CounterMetricFamily | GaugeMetricFamily:
    # The library takes `_total` off the name of a counter, and puts it back on the page.
    of_kind = CounterMetricFamily if series.kind is Kind.COUNTER else GaugeMetricFamily
    return of_kind(series.name, series.help, labels=series.labels)
