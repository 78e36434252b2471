"""The allocator service: an ASGI application made of plain objects."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from allocator import error_handlers, routes
from allocator.gate import OPEN_ASSETS, BodyLimit, Gate
from allocator.metrics import RequestCounter, ServiceMetrics
from allocator.parts import Parts
from allocator.publisher import GrantPublisher
from domain.capacity import ShareGrain
from domain.samples import SampleSink
from domain.skus import SkuTable
from store.database import Database


def create_app(
    database: Database,
    *,
    skus: SkuTable,
    share_grain: ShareGrain | None,
    sink: SampleSink | None,
    check_store: Callable[[], None] = lambda: None,
) -> FastAPI:
    """The service on a database at the newest migration, which stays the caller's to close.

    `share_grain` None: cards without MIG are sold whole only. `sink` takes the open grants as series while the
    application runs; None publishes nothing. `check_store` raises where the store behind it would bend samples: it
    is sent none then, and the service goes on.
    """
    parts = Parts(
        database=database,
        skus=skus,
        share_grain=share_grain,
        publisher=None if sink is None else GrantPublisher(database, sink, check_store),
        metrics=ServiceMetrics(),
    )

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        if parts.publisher is not None:
            parts.publisher.start()
        yield
        if parts.publisher is not None:
            parts.publisher.stop()

    # Its page needs no other host: nodes and operators may be cut off from the internet.
    app = FastAPIOffline(
        redoc_url=None,
        static_url=OPEN_ASSETS,
        title="gputab allocator",
        summary="Who holds which GPU, when.",
        lifespan=lifespan,
        version=version("gputab"),
    )
    app.state.parts = parts
    for router in (routes.allocations, routes.devices, routes.nodes, routes.status):
        app.include_router(router)
    error_handlers.install(app)
    # The last one added is the first to see a request.
    app.add_middleware(BodyLimit)
    app.add_middleware(Gate, database=database)
    app.add_middleware(RequestCounter, metrics=parts.metrics)
    return app
