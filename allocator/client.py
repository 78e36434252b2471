"""The allocator service from the other side: calls that answer with what it says, or raise the error it means."""

import json
import re
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
from pydantic import BaseModel, ValidationError

from allocator.bodies import AllocationBody, AllocationOrder, AllocationPageBody, CardBody, CardsBody
from allocator.problems import MEDIA_TYPE, Problem, error_of
from allocator.request import Holding
from domain.errors import AccessError, GputabError, InputError, UnavailableError
from domain.urls import without_credentials

_Body = TypeVar("_Body", bound=BaseModel)
# What a header carries as it is: printable ASCII, and in a key blanks inside.
_TOKEN = re.compile("[!-~]+")
_KEY = re.compile("(?:[!-~](?:[ -~]*[!-~])?)?")


class AllocatorClient:
    """Calls to one service with one token, over a client that stays the caller's to close.

    Every call raises what the service answers: InputError, NotFoundError, AccessError, ConflictError,
    CapacityError; UnavailableError where it does not answer, or not as the allocator does.
    """

    def __init__(self, url: str, token: str, client: httpx.Client) -> None:
        """`url` has no trailing slash. AccessError, which does not show it, for a token that no header can carry."""
        if not _TOKEN.fullmatch(token):
            raise AccessError(
                "cannot use the token: it is not printable ASCII without blanks; set GPUTAB_TOKEN to what "
                "`gputab token create` printed",
                authenticated=False,
            )
        self._url = url
        self._shown = without_credentials(url)
        self._client = client
        self._headers = {"Authorization": f"Bearer {token}"}

    def create(self, order: AllocationOrder, *, idempotency_key: str | None = None) -> AllocationBody:
        """Ask for capacity. With a key, of ASCII, the call may be repeated after an error without taking more."""
        headers = {"Content-Type": "application/json"}
        if idempotency_key is not None:
            if not _KEY.fullmatch(idempotency_key):
                raise InputError(
                    f"cannot use the idempotency key {idempotency_key!r}: write letters, digits and signs of ASCII, "
                    "blanks only inside"
                )
            headers["Idempotency-Key"] = idempotency_key
        # Escaped, what is no Unicode is the service's to refuse; the library would put other signs in its place.
        body = json.dumps(order.model_dump(exclude_none=True))
        return self._read(AllocationBody, self._call("POST", "/v1/allocations", content=body, headers=headers))

    def release(self, allocation: str) -> AllocationBody:
        """End an allocation now; ending it again changes nothing."""
        return self._read(AllocationBody, self._call("POST", f"/v1/allocations/{_quoted(allocation)}/release"))

    def show(self, allocation: str) -> AllocationBody:
        """One allocation."""
        return self._read(AllocationBody, self._call("GET", f"/v1/allocations/{_quoted(allocation)}"))

    def list(
        self, holding: Holding = Holding.OPEN, *, limit: int = 100, cursor: str | None = None
    ) -> AllocationPageBody:
        """One page of allocations, newest first."""
        asked: dict[str, str | int] = {"state": holding.value, "limit": limit}
        if cursor is not None:
            asked["cursor"] = _escaped(cursor)
        return self._read(AllocationPageBody, self._call("GET", "/v1/allocations", params=asked))

    def cards(self) -> Sequence[CardBody]:
        """Every card with what is free of it now; for operators."""
        return self._read(CardsBody, self._call("GET", "/v1/devices")).devices

    def adopt(self, mig_uuid: str) -> None:
        """Let a foreign MIG instance be granted."""
        self._call("POST", f"/v1/mig-instances/{_quoted(mig_uuid)}/adopt")

    def _call(self, method: str, path: str, headers: dict[str, str] | None = None, **content: Any) -> httpx.Response:
        sent = {**self._headers, **(headers or {})}
        try:
            response = self._client.request(method, self._url + path, headers=sent, **content)
        except (httpx.InvalidURL, UnicodeError):
            # What is said of it may be a part of a password, so it stays out of the traceback too.
            raise UnavailableError(
                f"cannot ask the allocator: {self._shown!r} is no URL; set GPUTAB_ALLOCATOR_URL"
            ) from None
        except httpx.RequestError as error:
            raise UnavailableError(
                f"cannot ask the allocator at {self._shown!r}: {str(error) or type(error).__name__}; start it with "
                "`gputab allocator`, or set GPUTAB_ALLOCATOR_URL"
            ) from error
        if not response.is_success:
            raise self._error(response)
        return response

    def _error(self, response: httpx.Response) -> GputabError:
        if response.headers.get("Content-Type", "").startswith(MEDIA_TYPE):
            return error_of(self._read(Problem, response))
        return self._stranger(response)

    def _read(self, body: type[_Body], response: httpx.Response) -> _Body:
        try:
            return body.model_validate_json(response.content)
        except ValidationError as error:
            raise self._stranger(response) from error

    def _stranger(self, response: httpx.Response) -> UnavailableError:
        return UnavailableError(
            f"cannot use what {self._shown!r} answers ({response.status_code}): it is not a gputab allocator of this "
            "version; check GPUTAB_ALLOCATOR_URL"
        )


def _quoted(name: str) -> str:
    # A name of dots would be the way to another door.
    return quote(_escaped(name), safe="").replace(".", "%2E")


def _escaped(text: str) -> str:
    """The text with an escape for what is no Unicode: an argument of a command may hold any byte."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
