"""Whatever answers in the allocator's place, a node gets one line and goes on."""

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from collector.delivery.node_service import NodeService
from domain.errors import UnavailableError


@contextmanager
def answering(body: bytes, **headers: str) -> Iterator[str]:
    """The URL of a server that answers everything with the body."""

    class Answer(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep the test's output quiet."""

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"{}", b"[]", b"7", b'{"now_us": null}', b'{"now_us": Infinity}', b'{"now_us": 1e400}']
)
def test_an_answer_without_a_clock_is_none(body: bytes) -> None:
    with (
        answering(body) as url,
        httpx.Client() as client,
        pytest.raises(UnavailableError, match="cannot read the heartbeat's answer"),
    ):
        NodeService(url, "n1", "token", client).beat()


def test_an_answer_that_cannot_be_unpacked_is_none() -> None:
    """It says that it is gzip, and is not."""
    garbled = gzip.compress(b"{}")[5:]
    with (
        answering(garbled, Content_Encoding="gzip") as url,
        httpx.Client() as client,
        pytest.raises(UnavailableError, match="cannot report the heartbeat to "),
    ):
        NodeService(url, "n1", "token", client).beat()
