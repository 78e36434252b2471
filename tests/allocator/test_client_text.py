"""Text that no header, URL or host can carry is said in one line, and never the token."""

import gzip
import re
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from allocator.bodies import AllocationOrder
from allocator.client import AllocatorClient
from domain.errors import AccessError, GputabError, InputError, NotFoundError, UnavailableError
from domain.grants import GrantKind

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Service

# What a command's argument becomes where it is no UTF-8.
NO_TEXT = b"a\xff".decode("utf-8", "surrogateescape")
TOKENS = ["tökén", "sécret", "two words", "secret\n", "\tsecret", "secret\x7f", "secret" + NO_TEXT, "", " "]


@pytest.mark.parametrize("token", TOKENS)
def test_a_token_that_no_header_can_carry_is_refused_and_not_shown(service: "Service", token: str) -> None:
    with pytest.raises(AccessError, match=r"^cannot use the token: .*set GPUTAB_TOKEN") as refused:
        AllocatorClient(service.url, token, service.http)
    assert not refused.value.authenticated
    assert refused.value.__cause__ is None
    assert not {"tök", "sécret", "secret", "two"}.intersection(re.split(r"\W", str(refused.value)))


@pytest.mark.parametrize("key", ["ключ", " k", "k ", "k\n", "k\x00", NO_TEXT])
def test_a_key_that_no_header_can_carry_is_refused_and_nothing_is_taken(service: "Service", key: str) -> None:
    order = AllocationOrder(project="lab", kind=GrantKind.WHOLE)
    with pytest.raises(InputError, match=r"^cannot use the idempotency key .*: write ") as refused:
        service.client("acme").create(order, idempotency_key=key)
    assert repr(key) in str(refused.value)


def test_a_key_may_have_blanks_inside(service: "Service", hardware: "Hardware") -> None:
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    order = AllocationOrder(project="lab", kind=GrantKind.WHOLE)
    client = service.client("acme")
    assert client.create(order, idempotency_key="job 7 ~!") == client.create(order, idempotency_key="job 7 ~!")


NAMES = [NO_TEXT, "\ud800", "ключ", "a\x00", "..", ".", "../..", "a?b", "a#b", "%2e%2e", ""]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_cannot_be_one_is_not_found(service: "Service", name: str) -> None:
    """The service itself says so: the name comes to its own door whatever signs it has."""
    acme, operator = service.client("acme"), service.client("operator")
    for call in (acme.show, acme.release, operator.adopt):
        with pytest.raises(NotFoundError, match=r"^cannot find (the (allocation|MIG instance) '|a name with a NUL)"):
            call(name)


def test_other_text_that_is_no_unicode_is_refused_by_the_service(service: "Service") -> None:
    acme = service.client("acme")
    with pytest.raises(InputError, match="cannot read the cursor"):
        acme.list(cursor=NO_TEXT)
    for labels in ({"a": NO_TEXT}, {NO_TEXT: "a"}):
        with pytest.raises(InputError, match="cannot keep the label"):
            acme.create(AllocationOrder(project="lab", kind=GrantKind.WHOLE, labels=labels))


@pytest.mark.parametrize("host", ["a..b", ".", "a" * 64, "[::1", "a\x00b", "127.0.0.1:x", NO_TEXT])
def test_a_host_that_is_none_is_one_line_without_the_password(host: str) -> None:
    with (
        httpx.Client() as http,
        pytest.raises(UnavailableError, match="is no URL; set GPUTAB_ALLOCATOR_URL") as refused,
    ):
        AllocatorClient(f"http://user:s3cret@{host}", "x", http).cards()
    assert refused.value.__cause__ is None
    assert "s3cret" not in str(refused.value)


class _Garbled(BaseHTTPRequestHandler):
    """Says that it answers with gzip, and does not."""

    def do_GET(self) -> None:
        body = gzip.compress(b"{}")[5:]
        self.send_response(200)
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the test's output quiet."""


@pytest.fixture
def garbled() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Garbled) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_an_answer_that_cannot_be_unpacked_is_no_answer(garbled: str) -> None:
    with httpx.Client() as http:
        client = AllocatorClient(garbled, "x", http)
        calls: list[Callable[[], Any]] = [client.cards, client.list, lambda: client.show("al_1")]
        for call in calls:
            with pytest.raises(GputabError, match=r"^cannot ask the allocator at ") as refused:
                call()
            assert type(refused.value) is UnavailableError
