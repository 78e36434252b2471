"""What is nested deeper than a parser can follow is unusable input: one line, wherever it comes from."""

from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest

from allocator.client import AllocatorClient
from allocator.records.csv_rows import Problems, read_rows
from collector.delivery.node_service import NodeService
from collector.simulation.world_file import load_world
from domain.allocation_csv import COLUMNS
from domain.errors import GputabError, InputError, UnavailableError
from domain.series import GPU_UP
from domain.skus import load_skus
from meter.prices.price_book import read_price_book
from settings.gputab import CONFIG_FILE, load_settings
from victoriametrics.push import Pusher
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

DEPTH = 20_000
DOTS = 2_000
NESTED = "[" * DEPTH + "]" * DEPTH


def _labels(file: Path) -> None:
    cells = dict.fromkeys(COLUMNS, "") | {
        "allocation": "job-1",
        "tenant": "acme",
        "project": "lab",
        "model": "NVIDIA L4",
        "kind": "whole",
        "start": "0",
        "labels": NESTED,
    }
    file.write_text(f"{','.join(COLUMNS)}\n{','.join(cells[name] for name in COLUMNS)}\n", "utf-8")
    problems = Problems()
    with file.open(encoding="utf-8", newline="") as lines:
        read_rows(lines, problems)
    problems.raise_any()


def _world(file: Path) -> None:
    file.write_text(f'{{"tenancy": {NESTED}}}\n', "utf-8")
    load_world(file)


def _sku_table(file: Path) -> None:
    file.write_text(f"sku = {NESTED}\n", "utf-8")
    load_skus(file)


def _sku_row(file: Path) -> None:
    """TOML nests by dots too, without end."""
    file.write_text(f"[[sku]]\nname{'.a' * DOTS} = 1\n", "utf-8")
    load_skus(file)


def _settings(file: Path) -> None:
    (file.parent / CONFIG_FILE).write_text(f"node = {NESTED}\n", "utf-8")
    load_settings()


def _setting(file: Path) -> None:
    (file.parent / CONFIG_FILE).write_text(f"node{'.a' * DOTS} = 1\n", "utf-8")
    load_settings()


def _price_book(file: Path) -> None:
    file.write_text(f"book: {NESTED}\n", "utf-8")
    read_price_book(file, load_skus())


@pytest.mark.parametrize("read", [_labels, _world, _sku_table, _sku_row, _settings, _setting, _price_book])
def test_a_file_is_refused(read: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"^cannot ") as refused:
        read(tmp_path / "file")
    _assert_short(refused.value)


class _Nested(BaseHTTPRequestHandler):
    """A server, not ours, that answers everything with nested brackets."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.send_response(500 if "refused" in self.path else 200)
        self.end_headers()
        self.wfile.write(NESTED.encode())

    def do_GET(self) -> None:
        self.do_POST()

    def do_PUT(self) -> None:
        self.do_POST()

    def log_message(self, *_: object) -> None:
        """Keep the test's output quiet."""


def _beat(url: str) -> None:
    with httpx.Client() as client:
        NodeService(url, "n1", "x", client).beat()


def _cards(url: str) -> None:
    with httpx.Client() as client:
        AllocatorClient(url, "x", client).cards()


def _export(url: str) -> None:
    with Reader(url) as reader:
        reader.export(Selector((GPU_UP,)), 1, 2)


def _query(url: str) -> None:
    with Reader(url) as reader:
        reader.instant("1", 1)


def _refusal(url: str) -> None:
    with Pusher(f"{url}/refused") as pusher:
        pusher.push(b"{}\n")


@pytest.mark.parametrize("ask", [_beat, _cards, _export, _query, _refusal])
def test_an_answer_of_a_stranger_is_no_answer(ask: Callable[[str], None]) -> None:
    with HTTPServer(("127.0.0.1", 0), _Nested) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            with pytest.raises(UnavailableError, match=r"^cannot ") as refused:
                ask(f"http://127.0.0.1:{server.server_port}")
        finally:
            server.shutdown()
            thread.join()
    _assert_short(refused.value)


def _assert_short(error: GputabError) -> None:
    message = str(error)
    assert "\n" not in message
    assert len(message) < 1_000
