"""What stands before a sample store: a proxy that passes on, refuses or breaks off what it is told to."""

import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx

# Sent to what a proxy passes on to; what it says of the connection is its own.
_PASSED_ON = ("Content-Encoding", "Content-Type", "Authorization")

# A status and headers.
Answer = tuple[int, dict[str, str]]


class Proxy(ThreadingHTTPServer):
    """Passes every request on to the server at `upstream`, but answers 400 to those that `refuses` is true of.

    Before that `answers` may have an answer of its own, and `resets` may be true of a request: then the connection is
    reset when the share `resets_after` of its body has come, or, where that is None, when the server has taken it all.
    It keeps the connection of its client, whatever becomes of the server. Where it has a `token`, it answers 401 to
    what comes without.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.daemon_threads = True
        self.upstream = upstream
        self.refuses: Callable[[str, bytes], bool] = lambda _path, _body: False
        self.answers: Callable[[str, bytes], Answer | None] = lambda _path, _body: None
        self.resets: Callable[[str], bool] = lambda _path: False
        self.resets_after: float | None = None
        self.token: str | None = None
        self.connections = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Passing(BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"

    def setup(self) -> None:
        super().setup()
        # One for each connection: a thread that still passes something on when the proxy is closed closes its own.
        self.client = httpx.Client(trust_env=False)
        self.server.connections += 1

    def finish(self) -> None:
        self.client.close()
        super().finish()

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        resets = self.server.resets(self.path)
        if resets and self.server.resets_after is not None:
            self.rfile.read(int(length * self.server.resets_after))
            self._reset()
            return
        body = self.rfile.read(length)
        own = self.server.answers(self.path, body)
        if own is None and self.server.token not in (
            None,
            self.headers.get("Authorization", "").removeprefix("Bearer "),
        ):
            own = (401, {})
        if own is not None:
            self._answer(own[0], b"", own[1])
            return
        if self.server.refuses(self.path, body):
            self._answer(400, f"missing route for {self.path}".encode())
            return
        headers = {name: self.headers[name] for name in _PASSED_ON if name in self.headers}
        try:
            answer = self.client.request(self.command, self.server.upstream + self.path, content=body, headers=headers)
        except httpx.TransportError:
            self._answer(502, b"nobody is behind this door")
            return
        if resets:
            self._reset()
            return
        self._answer(answer.status_code, answer.content)

    def do_GET(self) -> None:
        self.do_POST()

    def _reset(self) -> None:
        """Close without the good-bye of TCP."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def _answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def proxy(upstream: str, tls: ssl.SSLContext | None = None) -> Iterator[Proxy]:
    """A proxy before that server, which speaks TLS by `tls`, if that is given."""
    with Proxy(upstream) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
