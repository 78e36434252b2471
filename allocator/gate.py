"""The one way in: whatever is not an open door needs a good token, paths that do not exist included."""

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from allocator.problems import problem_response
from domain.errors import GputabError
from store.access import Principal, authenticate
from store.database import Database, now_us

# What tells nothing of anybody: that the service lives, and how to call it.
OPEN_DOORS = frozenset({"/healthz", "/openapi.json", "/docs", "/docs/oauth2-redirect"})
OPEN_ASSETS = "/docs-assets"


class Gate:
    """ASGI middleware: puts the asker's `Principal` into the request's state, or answers 401.

    It stands before routing and before any body is read, so a new route cannot forget it.
    """

    def __init__(self, app: ASGIApp, database: Database) -> None:
        self._app = app
        self._database = database

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan" and not _is_open(scope["path"]):
            secret = _bearer(Headers(scope=scope).get("Authorization", ""))
            try:
                # The database blocks, and other requests must not wait for it.
                principal = await run_in_threadpool(self._authenticate, secret)
            except GputabError as error:
                await problem_response(error)(scope, receive, send)
                return
            scope.setdefault("state", {})["principal"] = principal
        await self._app(scope, receive, send)

    def _authenticate(self, secret: str | None) -> Principal:
        with self._database.read() as connection:
            return authenticate(connection, secret, now_us=now_us(connection))


def _is_open(path: str) -> bool:
    return path in OPEN_DOORS or path.startswith(f"{OPEN_ASSETS}/")


def _bearer(authorization: str) -> str | None:
    scheme, _, secret = authorization.strip().partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None
