"""Bodies travel as gzip where that pays: to another machine, from a packet's size on."""

import gzip
from collections.abc import Iterator

import pytest

from domain.samples import SampleRun
from domain.series import GPU_MEMORY_USED
from tests.collector.doors import Proxy, proxy
from victoriametrics.encode import encode
from victoriametrics.push import Pusher, pack
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

SECONDS = range(1_790_000_000, 1_790_000_050)


def _body(node: str) -> bytes:
    runs = [SampleRun(GPU_MEMORY_USED, {"node": node, "gpu_uuid": "GPU-1"}, (each,), (each,)) for each in SECONDS]
    return encode(runs)


@pytest.fixture
def door(victoriametrics_url: str) -> Iterator[Proxy]:
    with proxy(victoriametrics_url) as door:
        yield door


def _sent(door: Proxy, body: bytes, packed: bytes | None = None, *, is_elsewhere: bool = True) -> bytes:
    """What comes to a server where the body is pushed to it, by its address as one number where it is elsewhere."""
    came: list[bytes] = []
    door.answers = lambda _path, body: came.append(body)
    # Resolvers read it as 127.0.0.1; that it is this machine cannot be seen.
    host = "2130706433" if is_elsewhere else "127.0.0.1"
    with Pusher(f"http://{host}:{door.server_port}") as pusher:
        pusher.push(body, packed)
    (sent,) = came
    return sent


def test_what_goes_to_another_machine_is_packed_and_arrives(
    door: Proxy, pusher: Pusher, reader: Reader, unique_node: str
) -> None:
    body = _body(unique_node)
    sent = _sent(door, body)
    assert gzip.decompress(sent) == body
    assert len(sent) * 8 < len(body)
    pusher.flush()
    frame = reader.export(Selector((GPU_MEMORY_USED,), {"node": unique_node}), SECONDS.start, SECONDS.stop).frame
    assert frame["second_s"].to_list() == frame["value"].cast(int).to_list() == list(SECONDS)


def test_what_is_packed_already_is_sent_as_it_is_member_after_member(
    door: Proxy, pusher: Pusher, reader: Reader, unique_node: str
) -> None:
    """As queued seconds are: each is a gzip file of its own, and so are several behind one another."""
    lines = _body(unique_node).splitlines(keepends=True)
    packed = b"".join(map(pack, lines))
    assert _sent(door, b"".join(lines), packed) == packed
    pusher.flush()
    assert reader.count(Selector((GPU_MEMORY_USED,), {"node": unique_node}), SECONDS.start, SECONDS.stop) == 50


@pytest.mark.parametrize("size", [1, 7])
def test_what_fits_into_one_packet_is_not(door: Proxy, unique_node: str, size: int) -> None:
    body = b"".join(_body(unique_node).splitlines(keepends=True)[:size])
    assert _sent(door, body, pack(body)) == body


def test_what_stays_on_this_machine_is_not(door: Proxy, unique_node: str) -> None:
    body = _body(unique_node)
    assert _sent(door, body, pack(body), is_elsewhere=False) == body
