"""HTTP to one VictoriaMetrics: a keep-alive client, and its refusals as our errors."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Self

import httpx

from domain.errors import InputError, UnavailableError
from domain.urls import without_credentials

CONNECT_TIMEOUT_S = 5.0
# The server gives up a query after 30 s (-search.maxQueryDuration) and says so: let it speak first.
ANSWER_TIMEOUT_S = 60.0
SHOWN_CHARACTERS = 300

# The request itself is what the server cannot use. Everything else may be mended without changing the
# request (a wrong password in front of the server too), so it must not make a collector throw samples away.
_UNUSABLE_REQUEST = frozenset({400, 422})
_REMEDIES = {
    401: "put the user and password into 'victoriametrics_url'",
    403: "put the user and password into 'victoriametrics_url'",
    404: "check 'victoriametrics_url'",
}


class Connection:
    """Requests to one server over one `httpx.Client`, which is closed with it only if it was made here."""

    def __init__(self, url: str, client: httpx.Client | None = None) -> None:
        """`url` has no trailing slash and may hold a user and password; messages never show them."""
        self.url = without_credentials(url)
        self._base = url.rstrip("/")
        self._own = client is None
        # A proxy named in the environment must not come between a node and its loopback server.
        timeout = httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
        self._client = httpx.Client(timeout=timeout, trust_env=False) if client is None else client

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._own:
            self._client.close()

    def limit_answers(self, seconds: float) -> None:
        """Wait at most that long for each step of an answer from now on, whatever the client waited before."""
        self._client.timeout = httpx.Timeout(seconds)

    def get(self, path: str, purpose: str) -> httpx.Response:
        """The answer to a GET. `purpose` completes "cannot ..." in messages.

        Raises InputError where the server calls the request unusable (400, 422), UnavailableError otherwise.
        """
        with self._errors(purpose):
            response = self._client.get(self._base + path)
        self._refuse_failure(response, purpose)
        return response

    def post(
        self, path: str, purpose: str, *, content: bytes | None = None, form: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """The answer to a body, or to a form (which unlike a URL may be long); errors as for `get`."""
        with self._errors(purpose):
            response = self._client.post(self._base + path, content=content, data=form)
        self._refuse_failure(response, purpose)
        return response

    @contextmanager
    def stream_lines(self, path: str, purpose: str, form: Mapping[str, str]) -> Iterator[Iterator[bytes]]:
        """The lines of the answer to a form, as they come; errors as for `get`.

        An answer that is cut off raises UnavailableError at the cut, after its whole lines.
        """
        # Unpacking gzip costs more than a local network saves.
        headers = {"Accept-Encoding": "identity"}
        with (
            self._errors(purpose),
            self._client.stream("POST", self._base + path, data=form, headers=headers) as response,
        ):
            if not response.is_success:
                response.read()
            self._refuse_failure(response, purpose)
            yield _lines(response)

    @contextmanager
    def _errors(self, purpose: str) -> Iterator[None]:
        try:
            yield
        except (httpx.InvalidURL, UnicodeError):
            # What is said of it may be a part of the password, so it stays out of the traceback too. Of a host with an
            # empty or too long label httpx says nothing, but the codec of the name look-up does.
            raise UnavailableError(
                f"cannot {purpose}: {self.url!r} is no URL; set 'victoriametrics_url', with '%40' for an '@' in a "
                "password and '%2F' for a '/'"
            ) from None
        except httpx.RequestError as error:
            raise UnavailableError(
                f"cannot {purpose}: no answer from VictoriaMetrics at {self.url!r} "
                f"({_one_line(str(error)) or type(error).__name__}); start it, or set 'victoriametrics_url'"
            ) from error

    def _refuse_failure(self, response: httpx.Response, purpose: str) -> None:
        if response.is_success:
            return
        said = _server_text(response)
        if response.status_code in _UNUSABLE_REQUEST:
            raise InputError(
                f"cannot {purpose}: VictoriaMetrics at {self.url!r} refuses the request: {said!r}; check "
                "'victoriametrics_url', and what it names"
            )
        remedy = _REMEDIES.get(response.status_code, "see its log, then try again")
        raise UnavailableError(
            f"cannot {purpose}: VictoriaMetrics at {self.url!r} answers {response.status_code} {said!r}; {remedy}"
        )


def _lines(response: httpx.Response) -> Iterator[bytes]:
    # Not httpx's own lines: those end at every line separator of Unicode, and a label value may hold one.
    parts: list[bytes] = []
    for chunk in response.iter_bytes():
        head, *rest = chunk.split(b"\n")
        parts.append(head)
        for piece in rest:
            yield b"".join(parts)
            parts = [piece]
    if any(parts):
        yield b"".join(parts)


def _server_text(response: httpx.Response) -> str:
    """What the server says, without the echo of our request around it."""
    try:
        return _one_line(json.loads(response.text)["error"])
    except (ValueError, KeyError, TypeError, RecursionError):  # its words come as JSON from queries only
        return _one_line(re.sub(r'^remoteAddr: "[^"]*"; requestURI: [^;]*; ', "", response.text))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:SHOWN_CHARACTERS]
