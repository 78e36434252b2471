"""What stands before a sample store: a proxy that passes on, or refuses, what it is told to."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx


class Proxy(ThreadingHTTPServer):
    """Passes every request on to the server at `upstream`, but answers 400 to those that `refuses` is true of.

    It keeps the connection of its client, whatever becomes of the server.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(("127.0.0.1", 0), _Passing)
        self.daemon_threads = True
        self.upstream = upstream
        self.refuses: Callable[[str, bytes], bool] = lambda _path, _body: False
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
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.refuses(self.path, body):
            self._answer(400, f"missing route for {self.path}".encode())
            return
        answer = self.client.request(self.command, self.server.upstream + self.path, content=body)
        self._answer(answer.status_code, answer.content)

    def do_GET(self) -> None:
        self.do_POST()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def proxy(upstream: str) -> Iterator[Proxy]:
    """A proxy before that server."""
    with Proxy(upstream) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
