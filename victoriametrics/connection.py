"""HTTP to one VictoriaMetrics: a keep-alive client, and its refusals as our errors."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self

import httpx

from domain.errors import InputError, UnavailableError
from domain.urls import without_credentials
from victoriametrics.store_address import StoreAddress

CONNECT_TIMEOUT_S = 5.0
# The server gives up a query after 30 s (-search.maxQueryDuration) and says so: let it speak first.
ANSWER_TIMEOUT_S = 60.0
SHOWN_CHARACTERS = 300

# The request itself is what the server cannot use. Everything else may be mended without changing the
# request (a wrong password in front of the server too), so it must not make a collector throw samples away.
_UNUSABLE_REQUEST = frozenset({400, 422})
_TOO_LARGE = 413
_BUSY = frozenset({429, 503})
_NOT_LET_IN = "put the user and password into 'victoriametrics_url', or set 'victoriametrics_token'"
_REMEDIES = {
    401: _NOT_LET_IN,
    403: _NOT_LET_IN,
    404: "check 'victoriametrics_url'",
    _TOO_LARGE: "let what stands before it take larger requests",
}


class BodyTooLargeError(UnavailableError):
    """The server, or a proxy before it, takes no request of that size; a smaller one may do."""


class BusyError(UnavailableError):
    """The server asks to be let alone, for `retry_after_s` seconds where it says how long; else that is 0."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class Connection:
    """Requests to one server over one `httpx.Client`, which is closed with it only if it was made here."""

    def __init__(self, address: StoreAddress | str, client: httpx.Client | None = None) -> None:
        """Messages never show what `address` lets in by.

        A `client` that is given is asked with the token, but trusts whom it trusts. Raises UnavailableError where the
        file of trusted certificates is of no use.
        """
        address = StoreAddress.of(address)
        self.url = without_credentials(address.url)
        self.is_loopback = address.is_loopback
        self._base = address.url.rstrip("/")
        self._headers = address.headers
        self._own = client is None
        if client is None:
            timeout = httpx.Timeout(ANSWER_TIMEOUT_S, connect=CONNECT_TIMEOUT_S)
            # A proxy named in the environment must not come between a node and its loopback server.
            client = httpx.Client(timeout=timeout, trust_env=False, verify=address.tls_context())
        self._client = client

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
            response = self._client.get(self._base + path, headers=self._headers)
        self._refuse_failure(response, purpose)
        return response

    def post(self, path: str, purpose: str, form: Mapping[str, str]) -> httpx.Response:
        """The answer to a form, which unlike a URL may be long; errors as for `get`."""
        with self._errors(purpose):
            response = self._client.post(self._base + path, data=form, headers=self._headers)
        self._refuse_failure(response, purpose)
        return response

    def send(self, path: str, purpose: str, body: bytes, encoding: str = "") -> httpx.Response:
        """The answer to a body, which is in that `Content-Encoding`; errors as for `get`.

        BodyTooLargeError and BusyError are UnavailableErrors that say more.
        """
        headers = {**self._headers, "Content-Encoding": encoding} if encoding else self._headers
        with self._errors(purpose):
            response = self._client.post(self._base + path, content=body, headers=headers)
        self._refuse_failure(response, purpose)
        return response

    @contextmanager
    def stream_lines(self, path: str, purpose: str, form: Mapping[str, str]) -> Iterator[Iterator[bytes]]:
        """The lines of the answer to a form, as they come; errors as for `get`.

        An answer that is cut off raises UnavailableError at the cut, after its whole lines.
        """
        # Unpacking gzip costs more than a local network saves.
        headers = {**self._headers, "Accept-Encoding": "identity"}
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
            said = _one_line(str(error)) or type(error).__name__
            remedy = "start it, or set 'victoriametrics_url'"
            if "CERTIFICATE_VERIFY_FAILED" in said:
                remedy = "set 'victoriametrics_ca_file' to the certificate that the server's own descends from"
            raise UnavailableError(
                f"cannot {purpose}: no answer from VictoriaMetrics at {self.url!r} ({said}); {remedy}"
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
        message = f"cannot {purpose}: VictoriaMetrics at {self.url!r} answers {response.status_code} {said!r}; {remedy}"
        if response.status_code in _BUSY:
            raise BusyError(message, _retry_after_s(response))
        raise (BodyTooLargeError if response.status_code == _TOO_LARGE else UnavailableError)(message)


def _retry_after_s(response: httpx.Response) -> float:
    """Seconds as RFC 9110, 10.2.3 has them: a number, or a date, which is held against the server's own."""
    text = response.headers.get("Retry-After", "")
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        wait = parsedate_to_datetime(text) - parsedate_to_datetime(response.headers["Date"])
        return max(0.0, wait.total_seconds())
    except (KeyError, ValueError, TypeError):  # no date, or one with a zone and one without
        return 0.0


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
