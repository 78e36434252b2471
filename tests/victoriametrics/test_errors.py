"""A server that is down, full, of another kind or of another mind: one line, and the right class of error."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from domain.errors import GputabError, InputError, UnavailableError
from domain.samples import SampleRun
from domain.series import GPU_UP
from machine.process import Child, free_port
from tests.victoriametrics_server import start
from victoriametrics.encode import encode
from victoriametrics.push import BODY_LIMIT_BYTES, Pusher, _chunks
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

BODY = encode([SampleRun(GPU_UP, {"node": "n1", "gpu_uuid": "GPU-1"}, [1_790_000_000], [1])])
ANYTHING = Selector((GPU_UP,))


def test_a_server_that_is_down_is_one_line_with_the_remedy() -> None:
    url = f"http://meter:secret@127.0.0.1:{free_port()}"
    with Pusher(url) as pusher, Reader(url) as reader:
        actions: list[Callable[[], object]] = [
            lambda: pusher.push(BODY),
            pusher.flush,
            pusher.dropped_rows,
            pusher.state,
            lambda: reader.export(ANYTHING, 0, 1),
            lambda: reader.count(ANYTHING, 0, 1),
            lambda: reader.instant("up", 0),
            lambda: reader.range("up", 0, 1, 1),
        ]
        for action in actions:
            with pytest.raises(UnavailableError) as raised:
                action()
            message = str(raised.value)
            assert message.startswith("cannot ")
            assert "start it, or set 'victoriametrics_url'" in message
            assert "\n" not in message
            assert "secret" not in message


def test_an_address_that_is_none_is_an_error_not_a_crash() -> None:
    with Reader("http://127.0.0.1:port") as reader, pytest.raises(UnavailableError, match="set 'victoriametrics_url'"):
        reader.count(ANYTHING, 0, 1)


@pytest.mark.parametrize("password", ["s3cret", "s3@cret", "s3/cret", "s3?cret", "s3#cret", "s3:cret"])
def test_no_part_of_a_password_is_shown(password: str) -> None:
    """Also of one that is not quoted, which makes another URL of the whole."""
    with (
        Pusher(f"http://meter:{password}@127.0.0.1:{free_port()}") as pusher,
        pytest.raises(UnavailableError) as raised,
    ):
        pusher.push(BODY)
    assert not {"s3", "cret", "s3cret"}.intersection(re.split(r"\W", str(raised.value)))


def test_a_query_that_does_not_parse_shows_what_the_server_says(reader: Reader) -> None:
    with pytest.raises(
        InputError, match=r"cannot query samples: .* refuses the request: 'error when executing"
    ) as raised:
        reader.instant("sum(", 0)
    assert "\n" not in str(raised.value)


def test_a_body_the_server_calls_unusable_shows_what_the_server_says(pusher: Pusher) -> None:
    with pytest.raises(InputError, match=r"cannot push samples: .* too long line") as raised:
        pusher.push(b"x" * 11 * 2**20)
    assert len(str(raised.value)) < 500


def test_a_full_disk_is_a_reason_to_push_again_later(launch: Callable[..., str]) -> None:
    with (
        Pusher(launch("-storage.minFreeDiskSpaceBytes=1000TB")) as pusher,
        pytest.raises(UnavailableError, match=r"answers 503 .*read-only mode.*then try again"),
    ):
        pusher.push(BODY)


def test_a_missing_password_is_no_reason_to_throw_samples_away(launch: Callable[..., str]) -> None:
    url = launch("-httpAuth.username=meter", "-httpAuth.password=secret")
    with Pusher(url) as pusher, Reader(url) as reader:
        with pytest.raises(UnavailableError, match=r"answers 401 .*put the user and password into"):
            pusher.push(BODY)
        with pytest.raises(UnavailableError, match="answers 401"):
            reader.export(ANYTHING, 0, 1)
    with Pusher(url.replace("//", "//meter:secret@")) as pusher:
        pusher.push(BODY)


def test_a_server_of_another_kind_is_not_believed(launch: Callable[..., str]) -> None:
    with Reader(launch() + "/targets") as reader, pytest.raises(GputabError, match="cannot read samples"):
        reader.export(ANYTHING, 0, 1)


def test_a_pusher_outlives_a_restart_of_its_server(victoriametrics_binary: Path, tmp_path: Path) -> None:
    """And what it pushed before is still there, the server having been told to stop, not killed."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"

    def server() -> Child:
        return start(binary=victoriametrics_binary, port=port, folder=tmp_path)

    with Pusher(url) as pusher, Reader(url) as reader:
        with server():
            pusher.push(BODY)
        with pytest.raises(UnavailableError):
            pusher.push(BODY)
        with server():
            pusher.push(BODY)
            pusher.flush()
            assert reader.count(ANYTHING, 1_790_000_000, 1_790_000_001) == 1


def test_a_client_that_was_given_is_left_open(victoriametrics_url: str) -> None:
    with httpx.Client() as client:
        with Reader(victoriametrics_url, client) as reader:
            assert reader.count(ANYTHING, 0, 1) == 0
        assert not client.is_closed


def test_a_large_body_is_cut_between_lines() -> None:
    line = b"x" * (2**20 - 1) + b"\n"

    chunks = list(_chunks(line * 65))

    assert b"".join(chunks) == line * 65
    assert [len(chunk) for chunk in chunks] == [BODY_LIMIT_BYTES, BODY_LIMIT_BYTES, 5 * 2**20]


def test_a_line_above_the_limit_goes_alone_and_whole() -> None:
    long = b"x" * (BODY_LIMIT_BYTES + 5) + b"\n"

    assert list(_chunks(long + b"y\n")) == [long, b"y\n"]
    assert list(_chunks(b"y\n" + long)) == [b"y\n", long]
    assert list(_chunks(long[:-1])) == [long[:-1]]
    assert list(_chunks(b"")) == []


def test_a_node_can_push_without_polars() -> None:
    program = "import sys, victoriametrics.push, victoriametrics.encode; sys.exit('polars' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
