"""What is said of a service that cannot be reached."""

import re

import httpx
import pytest

from collector.delivery.node_service import NodeService
from domain.errors import UnavailableError
from machine.process import free_port


@pytest.mark.parametrize("password", ["s3cret", "s3@cret", "s3/cret", "s3#cret"])
def test_no_part_of_a_password_is_shown(password: str) -> None:
    url = f"http://user:{password}@127.0.0.1:{free_port()}"
    with httpx.Client() as client, pytest.raises(UnavailableError, match="set 'allocator_url'") as raised:
        NodeService(url, "n1", "token", client).beat()
    assert not {"s3", "cret", "s3cret", "token"}.intersection(re.split(r"\W", str(raised.value)))
