"""Whether the service works, and what it counts."""

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST

from allocator.holdings_store import count_open_grants
from allocator.parts import BEARER, Asker, ServiceParts
from store.access import Role
from store.database import now_us

router = APIRouter(tags=["status"])


@router.get("/healthz", response_class=Response)
def healthz(parts: ServiceParts) -> Response:
    """200 while the database answers, else 503."""
    with parts.database.read() as connection:
        now_us(connection)
    return Response("ok\n", media_type="text/plain")


@router.get("/metrics", response_class=Response, dependencies=[BEARER])
def metrics(asker: Asker, parts: ServiceParts) -> Response:
    """The service's own counters, for operators and their scraper."""
    asker.require(Role.OPERATOR)
    with parts.database.read() as connection:
        open_grants = count_open_grants(connection, asker, now_us=now_us(connection))
    return Response(parts.metrics.page(open_grants), media_type=CONTENT_TYPE_LATEST)
