"""Pages of dcgm-exporter as its versions write them, and a server that gives them out."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from collector.dcgm.cards import Scrape, ScrapedCard, scraped_cards
from collector.dcgm.fields import FIELD_OF_NAME
from collector.dcgm.text import DcgmSample, dcgm_samples

DATA = Path(__file__).parents[3] / "shared" / "data"
REAL_PAGES = {
    path.stem: path
    for folder in (DATA / "samples" / "dcgm-exporter", DATA / "dcgm-exporter-samples")
    for path in sorted(folder.glob("*.prom"))
}
NAMES = frozenset(FIELD_OF_NAME)

UTIL, TEMP, GR = "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
FREE, USED, RESERVED = "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_RESERVED"
TOTAL, ENERGY = "DCGM_FI_DEV_FB_TOTAL", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"

# What a page of version 4 says of a card by default, and what it says beside that of a busy one.
FIELDS: Mapping[str, float] = {
    "DCGM_FI_DEV_SM_CLOCK": 2_520,
    "DCGM_FI_DEV_MEM_CLOCK": 10_501,
    "DCGM_FI_DEV_GPU_TEMP": 61,
    "DCGM_FI_DEV_POWER_USAGE": 298.125,
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": 15_152_422_938,
    "DCGM_FI_DEV_GPU_UTIL": 91,
    "DCGM_FI_DEV_FB_FREE": 9_791,
    "DCGM_FI_DEV_FB_USED": 5_120,
    "DCGM_FI_DEV_FB_RESERVED": 447,
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": 0.156205,
}


def line(name: str, value: object, uuid: str = "GPU-1", index: int = 0, **labels: str) -> str:
    """A line of the page; further labels stand behind those that each has, which they may replace."""
    shown = {
        "gpu": str(index),
        "UUID": uuid,
        "pci_bus_id": f"00000000:{index:02X}:00.0",
        "device": f"nvidia{index}",
        "modelName": "Tesla T4",
        "Hostname": "node-a",
        "DCGM_FI_DRIVER_VERSION": "580.105.08",
        **labels,
    }
    written = ",".join(f'{label}="{text}"' for label, text in shown.items() if text)
    return f"{name}{{{written}}} {value}"


def page(*uuids: str, **values: object) -> str:
    """A page of these cards, all alike; `values` replace those of `FIELDS`, None leaves a field out."""
    lines: list[str] = []
    for name, value in {**FIELDS, **values}.items():
        if value is not None:
            lines += [f"# HELP {name} Words about it.", f"# TYPE {name} gauge"]
            lines += [line(name, value, uuid, index) for index, uuid in enumerate(uuids)]
    return "\n".join(lines) + "\n"


def read_samples(text: str) -> list[DcgmSample]:
    return list(dcgm_samples(enumerate(text.split("\n"), start=1), NAMES))


def read_page(text: str) -> Scrape:
    return scraped_cards(read_samples(text))


def read_lines(*lines: str) -> Scrape:
    return read_page("\n".join(lines))


def read_card(*lines: str) -> ScrapedCard:
    """The one card that these lines are of."""
    (card,) = read_lines(*lines).cards
    return card


class Exporter(ThreadingHTTPServer):
    """Answers every request with `body` and `status`, once `go_on` is set; the end waits for `before_the_end`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Page)
        self.daemon_threads = True
        self.body = b""
        self.status = 200
        self.requests: list[str] = []
        self.connections = 0
        self.go_on = threading.Event()
        self.go_on.set()
        self.before_the_end: Callable[[], None] = lambda: None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def says(self, text: str) -> None:
        self.body = text.encode()


class _Page(BaseHTTPRequestHandler):
    server: Exporter
    protocol_version = "HTTP/1.1"
    # A second packet would wait for the first to be acknowledged.
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.server.connections += 1

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        self.server.go_on.wait()
        # Whoever has an empty answer may set the next one before this one is through.
        body = self.server.body
        self.send_response(self.server.status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            self.wfile.write(body[:-1])
            self.wfile.flush()
            self.server.before_the_end()
            self.wfile.write(body[-1:])
            self.wfile.flush()
        except ConnectionError:
            # Whoever asked has given up.
            self.close_connection = True

    def log_request(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def running_exporter() -> Iterator[Exporter]:
    """A server that listens."""
    with Exporter() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.go_on.set()
            server.shutdown()
            thread.join()
