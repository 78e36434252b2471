"""What the service says of itself, for a scraper."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from domain.grants import GrantKind
from domain.series import ALLOCATOR_OPEN_GRANTS, ALLOCATOR_REFUSALS, ALLOCATOR_REQUESTS, Series

# One label value for all paths that are no route, or a scanner could make a series a request.
_NO_ROUTE = "none"


class ServiceMetrics:
    """Counters of this process, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(*_named(ALLOCATOR_REQUESTS), registry=self._registry)
        self._refusals = Counter(*_named(ALLOCATOR_REFUSALS), registry=self._registry)
        self._open_grants = Gauge(*_named(ALLOCATOR_OPEN_GRANTS), registry=self._registry)

    def answered(self, route: str, method: str, status: int) -> None:
        """Count a request by the template of its route."""
        self._requests.labels(route, method, str(status)).inc()

    def refused(self, kind: GrantKind) -> None:
        """Count a request for capacity that no node could take."""
        self._refusals.labels(kind).inc()

    def page(self, open_grants: Mapping[str, int]) -> bytes:
        """The text exposition; `open_grants` are those of now, by kind."""
        for kind in GrantKind:
            self._open_grants.labels(kind).set(open_grants.get(kind, 0))
        return generate_latest(self._registry)


class RequestCounter:
    """ASGI middleware that counts every answer."""

    def __init__(self, app: ASGIApp, metrics: ServiceMetrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = getattr(scope.get("route"), "path", _NO_ROUTE)
                self._metrics.answered(route, scope["method"], message["status"])
            await send(message)

        await self._app(scope, receive, counted)


def _named(series: Series) -> tuple[str, str, tuple[str, ...]]:
    return series.name, series.help, series.labels
