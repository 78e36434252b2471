"""The client says what the service says, and raises what it means."""

import http.server
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx
import pytest

from allocator.bodies import AllocationOrder
from allocator.client import AllocatorClient
from allocator.request import Holding
from domain.errors import AccessError, CapacityError, ConflictError, NotFoundError, UnavailableError
from domain.grants import GrantKind
from machine.process import free_port

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Service

WHOLE = AllocationOrder(project="lab", kind=GrantKind.WHOLE)


@pytest.fixture
def furnished(service: "Service", hardware: "Hardware") -> "Service":
    service.furnish("n1", hardware.rtx4090("GPU-0", 0), hardware.h100_mig("GPU-9", 1, 0))
    return service


def test_an_allocation_is_made_shown_listed_and_released(furnished: "Service") -> None:
    client = furnished.client("acme")
    made = client.create(WHOLE)
    assert made.grants[0].gpu_uuid == "GPU-0"
    assert client.show(made.allocation) == made
    assert client.list().allocations == [made]
    released = client.release(made.allocation)
    assert not released.is_open
    assert client.list().allocations == []
    assert client.list(Holding.ALL, limit=1).allocations == [released]


def test_a_key_may_be_repeated(furnished: "Service") -> None:
    client = furnished.client("acme")
    assert client.create(WHOLE, idempotency_key="k") == client.create(WHOLE, idempotency_key="k")


def test_an_operator_sees_cards_and_adopts(furnished: "Service") -> None:
    operator = furnished.client("operator")
    operator.adopt("MIG-GPU-9-0")
    assert [(card.gpu_uuid, card.free_profiles) for card in operator.cards()] == [("GPU-0", []), ("GPU-9", ["1g.10gb"])]


def test_the_services_errors_come_out_as_themselves(furnished: "Service") -> None:
    acme = furnished.client("acme")
    acme.create(WHOLE, idempotency_key="k")
    with pytest.raises(CapacityError) as refused:
        acme.create(WHOLE)
    assert refused.value.reasons == {"n1": "needs 1, has 0: 1 × in MIG mode; 1 × in use"}
    with pytest.raises(ConflictError, match="idempotency key 'k'"):
        acme.create(AllocationOrder(project="lab", kind=GrantKind.WHOLE, count=2), idempotency_key="k")
    with pytest.raises(NotFoundError, match="'al_none'"):
        acme.show("al_none")
    with pytest.raises(NotFoundError, match=r"'a/\.\./b c'"):
        acme.show("a/../b c")
    with pytest.raises(AccessError) as denied:
        acme.cards()
    assert denied.value.authenticated
    with pytest.raises(AccessError) as unknown:
        AllocatorClient(furnished.url, "wrong", furnished.http).list()
    assert not unknown.value.authenticated


def test_a_service_that_is_down_is_one_line_with_the_remedy() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    with (
        httpx.Client() as http_client,
        pytest.raises(UnavailableError, match="start it with `gputab allocator`") as down,
    ):
        AllocatorClient(url, "secret-token", http_client).list()
    assert "secret-token" not in str(down.value)


@pytest.mark.parametrize("password", ["s3cret", "s3@cret", "s3/cret", "s3#cret"])
def test_no_part_of_a_password_is_shown(password: str, stranger: str) -> None:
    for server in (stranger, f"http://127.0.0.1:{free_port()}"):
        url = server.replace("//", f"//user:{password}@")
        with httpx.Client() as http_client, pytest.raises(UnavailableError) as raised:
            AllocatorClient(url, "x", http_client).cards()
        assert not {"s3", "cret", "s3cret"}.intersection(re.split(r"\W", str(raised.value)))


class _Stranger(http.server.BaseHTTPRequestHandler):
    """Another web server, which answers everything with a page."""

    def do_GET(self) -> None:
        self.send_response(200 if "devices" in self.path else 502)
        self.end_headers()
        self.wfile.write(b"<html>welcome</html>")

    def log_message(self, *_arguments: object) -> None:
        """Nothing."""


@pytest.fixture
def stranger() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Stranger) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_another_server_is_not_taken_for_the_allocator(stranger: str) -> None:
    with httpx.Client() as http_client:
        client = AllocatorClient(stranger, "x", http_client)
        for call in (client.list, client.cards):
            with pytest.raises(UnavailableError, match="not a gputab allocator"):
                call()


def test_a_node_can_ask_without_a_web_framework_or_a_database() -> None:
    program = "import sys, allocator.client; sys.exit(bool({'fastapi', 'starlette', 'sqlalchemy'} & {*sys.modules}))"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
