"""What every route is given."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from fastapi.security import HTTPBearer
from starlette.requests import Request

from allocator.metrics import ServiceMetrics
from allocator.publisher import GrantPublisher
from domain.capacity import ShareGrain
from domain.skus import SkuTable
from store.access import Principal
from store.database import Database


@dataclass(frozen=True, slots=True)
class Parts:
    """What the service is made of. `share_grain` None: no card is sold in shares. `publisher` None: no store."""

    database: Database
    skus: SkuTable
    share_grain: ShareGrain | None
    publisher: GrantPublisher | None
    metrics: ServiceMetrics

    def grants_changed(self) -> None:
        """Have the grants published with the next second."""
        if self.publisher is not None:
            self.publisher.changed()


def _parts(request: Request) -> Parts:
    parts: Parts = request.app.state.parts
    return parts


def _asker(request: Request) -> Principal:
    # The gate put it there, or the request would not have come this far.
    principal: Principal = request.state.principal
    return principal


ServiceParts = Annotated[Parts, Depends(_parts)]
Asker = Annotated[Principal, Depends(_asker)]

# The gate checks the token; this says so in the OpenAPI description, and gives its page a field for it.
BEARER = Depends(HTTPBearer(auto_error=False, description="a token made by `gputab token create`"))
