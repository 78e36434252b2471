"""What a server says of itself: since when it runs, what its clock says, and what it keeps."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from domain.clock import SystemClock
from domain.errors import UnavailableError
from machine.process import free_port
from tests.victoriametrics_server import start
from victoriametrics.metrics_page import DAY_S
from victoriametrics.push import Pusher

PAGE = 'flag{name="retentionPeriod", value="35d", is_set="true"} 1\nvm_app_start_timestamp 1790000000\n'


def test_a_server_tells_its_start_its_clock_and_what_it_keeps(launch: Callable[..., str], now_s: int) -> None:
    with Pusher(launch("-retentionPeriod=35d")) as pusher:
        state = pusher.state()
        after_s = SystemClock().now_us() // 1_000_000
        assert now_s <= state.started_s <= state.now_s <= after_s
        assert state.kept_s == range(state.now_s - 35 * DAY_S + 61, state.now_s + 2 * DAY_S + 1)
        pusher.refuse_unkept(state.kept_s[0], state.kept_s[-1], state.now_s)


def test_a_server_that_keeps_everything_keeps_second_0(victoriametrics_url: str) -> None:
    with Pusher(victoriametrics_url) as pusher:
        assert pusher.state().kept_s.start == 0


def test_a_server_that_was_started_again_says_so(victoriametrics_binary: Path, tmp_path: Path) -> None:
    clock, port = SystemClock(), free_port()
    started: list[int] = []
    for _ in range(2):
        with (
            start(binary=victoriametrics_binary, port=port, folder=tmp_path),
            Pusher(f"http://127.0.0.1:{port}") as pusher,
        ):
            started += [pusher.state().started_s, pusher.state().started_s]
        clock.sleep_s(1)
    assert started[0] == started[1] < started[2] == started[3]


@contextmanager
def _serving(text: str, *, has_date: bool) -> Iterator[str]:
    class Answer(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response_only(200)
            if has_date:
                self.send_header("Date", self.date_time_string())
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

    with HTTPServer(("127.0.0.1", 0), Answer) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("text", "has_date", "words"),
    [
        (PAGE, False, "cannot tell the clock of VictoriaMetrics"),
        (PAGE.replace("vm_app_start_timestamp", "other"), True, "cannot tell when VictoriaMetrics .* was started"),
        (PAGE.replace("retentionPeriod", "other"), True, "cannot read the flags of VictoriaMetrics"),
        ("", True, "cannot tell when VictoriaMetrics .* was started"),
    ],
)
def test_a_page_that_lacks_one_of_them_is_no_servers_own(text: str, has_date: bool, words: str) -> None:
    with _serving(text, has_date=has_date) as url, Pusher(url) as pusher, pytest.raises(UnavailableError, match=words):
        pusher.state()


@pytest.mark.parametrize("host", ["a..b", "a" * 70 + ".com"])
def test_a_host_that_no_name_look_up_takes_is_one_line(host: str) -> None:
    with (
        Pusher(f"http://meter:s3cret@{host}:8428") as pusher,
        pytest.raises(UnavailableError, match="is no URL; set 'victoriametrics_url'") as raised,
    ):
        pusher.push(b"{}\n")
    assert "s3cret" not in str(raised.value)
