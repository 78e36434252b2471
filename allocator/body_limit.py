"""A bound on what one request may make the service hold in memory."""

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# The largest body there is, the inventory of a node full of MIG instances, stays below a tenth of it.
BODY_BYTES_MAX = 2**20


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
