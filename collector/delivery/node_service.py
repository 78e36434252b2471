"""What a node tells the allocator service: its inventory, and that it is alive."""

import httpx

from domain.errors import InputError, UnavailableError
from domain.urls import without_credentials

# Mended by the operator or the service without changing the report: a token, a missing node, a busy service.
_RETRIABLE = frozenset({401, 403, 404, 408, 425, 429})
_SHOWN_CHARACTERS = 200


class NodeService:
    """The service's two doors for the collector of one node, over one keep-alive client."""

    def __init__(self, url: str, node: str, token: str, client: httpx.Client) -> None:
        """`url` has no trailing slash; `token` is the node's bearer token; the client is not closed here."""
        self._base = f"{url}/v1/nodes/{node}"
        self._shown = without_credentials(self._base)
        self._headers = {"Authorization": f"Bearer {token}"}
        self._client = client

    def put_inventory(self, body: bytes) -> None:
        """Report an inventory (JSON of domain.inventory.Inventory).

        Raises UnavailableError where it is to be sent again, InputError where the service never will take it.
        """
        self._put("inventory", body)

    def beat(self) -> int:
        """Say that the node is alive; the service's clock in microseconds. Raises UnavailableError."""
        response = self._put("heartbeat", b"{}")
        try:
            return int(response.json()["now_us"])
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise UnavailableError(
                f"cannot read the heartbeat's answer {response.text[:_SHOWN_CHARACTERS]!r}: check 'allocator_url'"
            ) from error

    def _put(self, door: str, body: bytes) -> httpx.Response:
        headers = {**self._headers, "Content-Type": "application/json"}
        try:
            response = self._client.put(f"{self._base}/{door}", content=body, headers=headers)
        except (httpx.InvalidURL, httpx.LocalProtocolError, UnicodeError):
            # What is said of it may be a part of a password or the token, so it stays out of the traceback too.
            raise UnavailableError(
                f"cannot report the {door}: {self._shown!r} is no URL, or GPUTAB_TOKEN is not plain ASCII; set "
                "'allocator_url' or GPUTAB_TOKEN"
            ) from None
        except httpx.RequestError as error:
            raise UnavailableError(
                f"cannot report the {door} to {self._shown!r}: {str(error) or type(error).__name__}; "
                "start the allocator, or set 'allocator_url'"
            ) from error
        if response.is_success:
            return response
        said = f"cannot report the {door} to {self._shown!r}: it answers {response.status_code}"
        detail = " ".join(response.text.split())[:_SHOWN_CHARACTERS]
        if response.is_client_error and response.status_code not in _RETRIABLE:
            raise InputError(f"{said} {detail!r}; use a collector and an allocator of the same version")
        raise UnavailableError(f"{said} {detail!r}; check the node's token and the allocator's log")
