"""A token or a URL that no request can be made of is one line, and never shows the token."""

import http.server
import threading
from collections.abc import Iterator

import httpx
import pytest

from collector.delivery.node_service import NodeService
from domain.errors import UnavailableError


@pytest.fixture
def url() -> Iterator[str]:
    """A server that is there: a token is looked at only once a connection is open."""
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("token", ["tökén-s3cret", "s3cret\u4e2d", "s3cret\n", "s3cret\r\nX-Other: 1", "\x00s3cret"])
def test_a_token_that_no_header_can_hold_is_one_line_without_it(url: str, token: str) -> None:
    with httpx.Client(trust_env=False) as client, pytest.raises(UnavailableError) as raised:
        NodeService(url, "n1", token, client).beat()
    message = str(raised.value)
    assert message.startswith("cannot report the heartbeat: ")
    assert "GPUTAB_TOKEN is not plain ASCII" in message
    assert "s3cret" not in message
    assert "\n" not in message
    assert raised.value.__suppress_context__, "a traceback does not show it either"


@pytest.mark.parametrize("host", ["a..b", "a" * 70 + ".com", ".a", "[::1", "x\u2028y"])
def test_a_host_that_cannot_be_looked_up_is_one_line(host: str) -> None:
    with httpx.Client(trust_env=False) as client, pytest.raises(UnavailableError, match="is no URL") as raised:
        NodeService(f"http://user:s3cret@{host}:8470", "n1", "token", client).put_inventory(b"{}")
    assert "s3cret" not in str(raised.value)
