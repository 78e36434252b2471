"""The webhook on loopback that Alertmanager calls: each notification is told, or answered with why it was not."""

import errno
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self

from alerts.notification import BODY_LIMIT_BYTES, read_notification
from alerts.page_text import plain
from alerts.pager import Pager
from domain.errors import InputError, UnavailableError

PATH = "/alerts"
# How long a client may take over its request.
_REQUEST_TIMEOUT_S = 10
_LOOK_EVERY_S = 5.0
# How soon it notices that it is to stop.
_POLL_S = 0.1


class Receiver:
    """A server in threads of its own, from the moment it is made to the end of the `with` block.

    It answers 200 when the pager has told what the notification says, 400 to what is no notification, and 500 where
    telling failed, after which Alertmanager tries again. It also makes the pager look again every 5 s.
    """

    def __init__(self, pager: Pager, *, port: int, complain: Callable[[str], None]) -> None:
        """Listen on that port of 127.0.0.1; 0 is any free one. `complain` is told, a line each, of what was refused.

        Raises UnavailableError where the port cannot be had.
        """
        self._pager = pager
        # What is complained of came over the network.
        self._complain: Callable[[str], None] = lambda line: complain(plain(line))
        self._stop = threading.Event()
        try:
            self._server = _Server(port, self._take, self._complain)
        except OSError as error:
            reason = "it is in use" if error.errno == errno.EADDRINUSE else error.strerror
            raise UnavailableError(f"cannot listen on 127.0.0.1:{port}: {reason}; give --port") from error
        self._threads = [
            threading.Thread(target=self._server.serve_forever, args=(_POLL_S,), name="alert receiver", daemon=True),
            threading.Thread(target=self._look_again, name="alert follow-up", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """What Alertmanager is to call."""
        return f"http://127.0.0.1:{self._server.server_port}{PATH}"

    def close(self) -> None:
        """Stop listening, after the notification it may be at."""
        self._stop.set()
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads:
            thread.join()

    def _take(self, body: bytes) -> tuple[HTTPStatus, str]:
        try:
            self._pager.take(read_notification(body))
        except InputError as error:
            self._complain(f"refused a notification: {error}")
            return HTTPStatus.BAD_REQUEST, str(error)
        except Exception as error:  # noqa: BLE001 - whatever went wrong, Alertmanager is to try again
            self._complain(f"cannot show a page ({error}); Alertmanager sends it again")
            return HTTPStatus.INTERNAL_SERVER_ERROR, "cannot show the page; send it again"
        return HTTPStatus.OK, "told"

    def _look_again(self) -> None:
        while not self._stop.wait(_LOOK_EVERY_S):
            try:
                self._pager.look_again()
            except Exception as error:  # noqa: BLE001 - whatever went wrong, the next round must come
                self._complain(f"cannot show a page ({error}); trying again in {_LOOK_EVERY_S:g} s")


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 64

    def __init__(
        self, port: int, take: Callable[[bytes], tuple[HTTPStatus, str]], complain: Callable[[str], None]
    ) -> None:
        self.take = take
        self.complain = complain
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: object, client_address: object) -> None:  # noqa: ARG002 - the base class's
        """One line instead of a traceback."""
        self.complain(f"a notification broke off ({sys.exception()}); Alertmanager sends it again")


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = _REQUEST_TIMEOUT_S
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """A notification; the method's name is the base class's."""
        refusal = self._refusal()
        if refusal is None:
            self._answer(*self.server.take(self.rfile.read(int(self.headers["Content-Length"]))))
            return
        self.server.complain(f"refused a notification: {refusal[1]}")
        self._answer(*refusal)

    def _refusal(self) -> tuple[HTTPStatus, str] | None:
        """Why the body is not even read."""
        length = self.headers.get("Content-Length", "")
        if self.path != PATH:
            return HTTPStatus.NOT_FOUND, f"cannot find {self.path!r}; send notifications to {PATH}"
        if "Origin" in self.headers:
            # Every browser says so, of pages that made their own name lead to this machine, too.
            return HTTPStatus.FORBIDDEN, "cannot take a notification from a browser; send it from Alertmanager"
        if self.headers.get_content_type() != "application/json":
            # A page in a browser on this machine can send anything else without asking.
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "cannot read the body; send application/json"
        if not (length.isascii() and length.isdigit()):
            return HTTPStatus.LENGTH_REQUIRED, "cannot tell where the body ends; send Content-Length"
        if len(length) > len(str(BODY_LIMIT_BYTES)) or int(length) > BODY_LIMIT_BYTES:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"cannot take more than {BODY_LIMIT_BYTES} bytes; group less"
        return None

    def _answer(self, status: HTTPStatus, text: str) -> None:
        body = f"{text}\n".encode()
        self.send_response(status)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        # What is left of a refused request must not be read as the next one.
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's signature
        """Say nothing: a page is the record of its notification."""
