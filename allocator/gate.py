"""The one way in: a good token for whatever is not an open door, and no more than a bounded body."""

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from allocator.error_handlers import problem_response
from domain.errors import GputabError
from store.access import Principal, authenticate
from store.database import Database, now_us

# What tells nothing of anybody: that the service lives, and how to call it.
OPEN_DOORS = frozenset({"/healthz", "/openapi.json", "/docs", "/docs/oauth2-redirect"})
OPEN_ASSETS = "/docs-assets"
# The largest body there is, the inventory of a node full of MIG instances, stays below a tenth of it.
BODY_BYTES_MAX = 2**20


class Gate:
    """ASGI middleware: puts the asker's `Principal` into the request's state, or answers 401.

    It stands before routing and before any body is read, so a new route cannot forget it, and paths that do not
    exist are shut as well.
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


class BodyLimit:
    """ASGI middleware: 413 once more has come, whatever Content-Length says.

    The framework's own limit answers in plain text, which a client cannot read as a problem document.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        received_bytes = 0

        async def limited() -> Message:
            nonlocal received_bytes
            message = await receive()
            received_bytes += len(message.get("body", b""))
            if received_bytes > BODY_BYTES_MAX:
                raise HTTPException(413, f"Content above {BODY_BYTES_MAX} bytes")
            return message

        await self._app(scope, limited, send)


def _is_open(path: str) -> bool:
    return path in OPEN_DOORS or path.startswith(f"{OPEN_ASSETS}/")


def _bearer(authorization: str) -> str | None:
    scheme, _, secret = authorization.strip().partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else None
