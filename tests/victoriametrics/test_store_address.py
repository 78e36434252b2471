"""A store that asks for a token, over TLS with a certificate of its own: every client is let in, and nobody else."""

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from domain.errors import UnavailableError
from domain.samples import SampleRun
from domain.series import GPU_UP
from tests.certificates import make_certificates
from tests.collector.doors import Proxy, proxy
from victoriametrics.launcher import check_flags
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector
from victoriametrics.store_address import StoreAddress

TOKEN = "s3cret-token"
SECOND_S = 1_790_000_000


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def ca_file(certificates: tuple[Path, ssl.SSLContext]) -> Path:
    return certificates[0]


@pytest.fixture
def door(victoriametrics_url: str, certificates: tuple[Path, ssl.SSLContext]) -> Iterator[Proxy]:
    with proxy(victoriametrics_url, certificates[1]) as door:
        door.token = TOKEN
        yield door


def _url(door: Proxy) -> str:
    return door.url.replace("http:", "https:")


def _runs(node: str) -> list[SampleRun]:
    return [SampleRun(GPU_UP, {"node": node, "gpu_uuid": f"GPU-{number}"}, [SECOND_S], [1]) for number in range(20)]


def test_every_client_is_let_in_by_token_and_certificate(door: Proxy, ca_file: Path, unique_node: str) -> None:
    address = StoreAddress(_url(door), TOKEN, ca_file)
    check_flags(address)
    selector = Selector((GPU_UP,), {"node": unique_node})
    with Pusher(address) as pusher, Reader(address) as reader:
        pusher.send(_runs(unique_node))
        assert pusher.state().started_s > 0
        pusher.flush()
        assert reader.count(selector, SECOND_S, SECOND_S + 1) == 20
        assert reader.export(selector, SECOND_S, SECOND_S + 1).samples == 20
    context = ssl.create_default_context(cafile=ca_file)
    with httpx.Client(verify=context, trust_env=False) as client, Reader(address, client) as reader:
        assert reader.count(selector, SECOND_S, SECOND_S + 1) == 20


@pytest.mark.parametrize("token", [None, "another-s3cret"])
def test_without_the_token_nobody_is_let_in_and_it_is_never_shown(
    door: Proxy, ca_file: Path, unique_node: str, token: str | None
) -> None:
    address = StoreAddress(_url(door), token, ca_file)
    with Pusher(address) as pusher, Reader(address) as reader:
        actions: list[Callable[[], object]] = [
            lambda: check_flags(address),
            lambda: pusher.send(_runs(unique_node)),
            pusher.state,
            lambda: reader.count(Selector((GPU_UP,)), 0, 1),
            lambda: reader.export(Selector((GPU_UP,)), 0, 1),
        ]
        for action in actions:
            with pytest.raises(UnavailableError, match=r"answers 401 .* or set 'victoriametrics_token'$") as raised:
                action()
            assert "s3cret" not in str(raised.value)
    assert "s3cret" not in repr(address)


def test_a_server_whose_certificate_descends_from_nobody_we_trust_gets_no_token(door: Proxy, unique_node: str) -> None:
    asked: list[str] = []
    door.answers = lambda path, _body: asked.append(path)
    with Pusher(StoreAddress(_url(door), TOKEN)) as pusher, pytest.raises(UnavailableError) as raised:
        pusher.send(_runs(unique_node))
    assert str(raised.value).endswith(
        "set 'victoriametrics_ca_file' to the certificate that the server's own descends from"
    )
    assert TOKEN not in str(raised.value)
    assert asked == []


def test_a_file_of_no_certificates_is_named(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for name in ("empty.pem", "none.pem"):
        with pytest.raises(UnavailableError, match=rf"cannot use the certificates in '.*{name}': .*; check '"):
            Pusher(StoreAddress("https://127.0.0.1:1", None, tmp_path / name))


@pytest.mark.parametrize(
    ("url", "is_loopback"),
    [
        ("http://127.0.0.1:8428", True),
        ("http://127.8.7.6", True),
        ("https://user:pa%40ss@localhost:8428/x", True),
        ("http://[::1]:8428", True),
        ("http://10.0.0.1:8428", False),
        ("https://store.example", False),
        ("https://127.0.0.1.example", False),
        ("http://user:127.0.0.1@store:8428", False),
        ("http://[::1", False),
    ],
)
def test_what_stays_on_this_machine_is_known_by_the_host(url: str, is_loopback: bool) -> None:
    assert StoreAddress(url).is_loopback is is_loopback
