"""Servers gputab does not start: too old, before a cache, or gone in the middle of an answer."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from domain.clock import FrozenClock
from domain.errors import UnavailableError
from domain.series import GPU_UP
from victoriametrics.launcher import check_flags
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

# As 1.79 writes them, which has no -search.maxMemoryPerQuery yet.
OLD_PAGE = (
    'flag{name="dedup.minScrapeInterval", value="1s", is_set="true"} 1\n'
    'flag{name="retentionPeriod", value="100y", is_set="true"} 1\n'
)
TWO_LINES = (
    '{"metric":{"__name__":"gpu_up","node":"n1"},"values":[1],"timestamps":[1000]}\n'
    '{"metric":{"__name__":"gpu_up","node":"n2"},"values":[1],"timestamps":[1000]}\n'
)

Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts an HTTP server that answers everything with `text` and returns its URL.

    It promises `missing_bytes` more than it sends.
    """
    with ExitStack() as stack:

        def serve(text: str, *, missing_bytes: int = 0) -> str:
            class Answer(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    self.rfile.read(int(self.headers.get("Content-Length", 0)))
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(text) + missing_bytes))
                    self.end_headers()
                    self.wfile.write(text.encode())

                def do_POST(self) -> None:
                    self.do_GET()

                def log_message(self, *_: object) -> None:
                    """Keep the test's output quiet."""

            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Answer))
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.shutdown)
            return f"http://127.0.0.1:{server.server_port}"

        yield serve


def test_a_server_that_is_too_old_is_refused_by_the_flag_it_lacks(serve: Serve) -> None:
    with pytest.raises(UnavailableError, match=r"it lacks the flag -search\.maxMemoryPerQuery; run 1\.95 or newer"):
        check_flags(serve(OLD_PAGE))


def test_a_page_that_stands_still_is_not_taken_for_nothing_dropped(serve: Serve) -> None:
    with (
        Pusher(serve(OLD_PAGE), clock=FrozenClock(0)) as pusher,
        pytest.raises(UnavailableError, match="stands still"),
    ):
        pusher.dropped_rows()


def test_an_answer_that_is_cut_off_is_no_answer(serve: Serve) -> None:
    """Samples that did not arrive must not look like samples that are not there."""
    cut_in_a_line, cut_between_lines = TWO_LINES[:-5], TWO_LINES
    with Reader(serve(TWO_LINES)) as reader:
        assert reader.export(Selector((GPU_UP,)), 1, 2).frame["node"].to_list() == ["n1", "n2"]
    for text in (cut_in_a_line, cut_between_lines):
        with (
            Reader(serve(text, missing_bytes=40)) as reader,
            pytest.raises(UnavailableError, match="cannot read samples: no answer"),
        ):
            reader.export(Selector((GPU_UP,)), 1, 2)


def test_words_among_the_samples_are_an_error(serve: Serve) -> None:
    with (
        Reader(serve(TWO_LINES + "cannot finish: out of memory\n")) as reader,
        pytest.raises(UnavailableError, match="VictoriaMetrics sends 'cannot finish: out of memory'"),
    ):
        reader.export(Selector((GPU_UP,)), 1, 2)


@pytest.mark.parametrize("page", ["<html>welcome</html>", "", "[]", "{}", '"data"'])
def test_a_page_is_no_answer_to_a_query(serve: Serve, page: str) -> None:
    with Reader(serve(page)) as reader:
        for ask in (lambda: reader.instant("1", 1), lambda: reader.count(Selector((GPU_UP,)), 1, 2)):
            with pytest.raises(UnavailableError, match=r"^cannot query samples: .* point at VictoriaMetrics$"):
                ask()
