"""`make bench-collector`: what a collector costs, how soon a second is in the store, and how exporters compare.

The node is a fake driver with 8 cards and 64 processes; collector, store and exporter are real programs.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from benchmarks import pushing
from benchmarks.collector_figures import OwnSamples, lines, own_samples
from benchmarks.fake_node import fake_node
from benchmarks.figures import print_figures
from benchmarks.minimal_exporter import UP
from benchmarks.watched_run import Watched, watch
from collector.quiesce import QuiesceCaller
from domain.clock import SystemClock
from domain.errors import UnavailableError
from domain.series import COLLECTOR_LATENESS
from gputab.output import say
from machine.process import Child, free_port
from machine.programs import VICTORIA_METRICS, find_program
from settings.gputab import load_settings
from tests.victoriametrics_server import start, until_healthy

CARDS, PROCESSES = 8, 64
NODE = "bench"
_WARM_UP_SECONDS = 90.0
_EXPORTER_SECONDS = 120.0
_RELEASES = 10
_RELEASE_PATIENCE_SECONDS = 10.0
_READ_AGAIN_SECONDS = 1.2
# `gputab` as on a node: greenlet comes with the tools of developers, and the log's library loads it where it is there.
_GPUTAB = "import sys; sys.modules['greenlet'] = None; from gputab.cli import main; main()"


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="make bench-collector")
    parser.add_argument("--duration", type=float, default=600.0, help="seconds to watch the collector for")
    parser.add_argument("--warm-up", type=float, default=_WARM_UP_SECONDS, help="seconds to leave out before")
    arguments = parser.parse_args()
    config = load_settings()
    program = find_program(
        VICTORIA_METRICS,
        explicit=config.victoriametrics_binary,
        cache_folder=config.programs_path,
        progress=say,
    )
    with tempfile.TemporaryDirectory(prefix="bench-collector-") as name:
        folder = Path(name)
        with fake_node(folder, cards=CARDS, processes=PROCESSES) as environment:
            own, letting_go_s = _collector(folder, program.path, environment, arguments.duration, arguments.warm_up)
            seconds = min(arguments.duration, _EXPORTER_SECONDS)
            other = _exporter(folder, program.path, environment, seconds, arguments.warm_up)
        with _store(folder / "pushes", program.path) as (url, _):
            costs = pushing.measure(url)
    print_figures(
        lines(*own, other, costs, letting_go_s), f"{CARDS} cards, {PROCESSES} processes, {arguments.duration:g} s"
    )


def _collector(
    folder: Path, store: Path, environment: dict[str, str], seconds: float, warm_up_s: float
) -> tuple[tuple[Watched, OwnSamples], float]:
    """`gputab collect`, and what it said of itself meanwhile; then how long it took to let go of the cards."""
    with _store(folder / "collector", store) as (url, store_pid):
        words = [sys.executable, "-c", _GPUTAB, "collect", "--node", NODE]
        settings = {
            "GPUTAB_VICTORIAMETRICS_URL": url,
            "GPUTAB_DATA_DIR": str(folder / "data"),
            "GPUTAB_METRICS_PORT": str(free_port()),
        }
        log = folder / "collect.log"
        with _child(words, {**environment, **settings}, log) as child:
            child.wait_until(lambda: "collector_started" in log.read_text("utf-8"), timeout_s=30, clock=SystemClock())
            selector = f'{COLLECTOR_LATENESS.name}{{node="{NODE}"}}'
            watched = watch(child.pid, store_pid, url, selector, warm_up_s=warm_up_s, seconds=seconds)
            letting_go_s = max(_letting_go_s(QuiesceCaller(folder / "data", NODE, SystemClock())))
        return (watched, own_samples(url, NODE, watched.stamps_s)), letting_go_s


def _letting_go_s(caller: QuiesceCaller) -> Iterator[float]:
    """How long the cards took to be let go of, each time after they were read again."""
    clock = SystemClock()
    for _ in range(_RELEASES):
        began_s = clock.monotonic_s()
        caller.quiesce(_RELEASE_PATIENCE_SECONDS)
        yield clock.monotonic_s() - began_s
        caller.resume(_RELEASE_PATIENCE_SECONDS)
        clock.sleep_s(_READ_AGAIN_SECONDS)


def _exporter(folder: Path, store: Path, environment: dict[str, str], seconds: float, warm_up_s: float) -> Watched:
    """The minimal exporter, scraped every second by the store itself."""
    port = free_port()
    scrape = folder / "scrape.yaml"
    scrape.write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: exporter, static_configs: [{{targets: ['127.0.0.1:{port}']}}]}}]\n",
        "utf-8",
    )
    words = [sys.executable, "-m", "benchmarks.minimal_exporter", str(port)]
    with _child(words, environment, folder / "exporter.log") as child:
        until_healthy(child, f"http://127.0.0.1:{port}/metrics")
        with _store(folder / "exporter", store, f"-promscrape.config={scrape}") as (url, store_pid):
            selector = f'{UP}{{gpu_uuid=~"GPU-00000000-.*"}}'
            return watch(child.pid, store_pid, url, selector, warm_up_s=warm_up_s, seconds=seconds)


@contextmanager
def _store(folder: Path, binary: Path, *flags: str) -> Iterator[tuple[str, int]]:
    port = free_port()
    with start(binary=binary, port=port, folder=folder, flags=flags) as child:
        url = f"http://127.0.0.1:{port}"
        _warm(url)
        yield url, child.pid


def _warm(url: str) -> None:
    """Give the store its first sample, half a second from where collectors send theirs.

    From its first sample on VictoriaMetrics 1.112 looks every 2 s for what has waited for 2 s, and lets it be seen. So
    what comes just before it looks is seen within 3 s, and what comes just after within 4: this is the middle.
    """
    time.sleep(1.5 - time.time() % 1)
    sample = {"metric": {"__name__": "first"}, "values": [1], "timestamps": [int(time.time()) * 1_000]}
    httpx.post(f"{url}/api/v1/import", json=sample, trust_env=False).raise_for_status()


def _child(words: list[str], environment: dict[str, str], log: Path) -> Child:
    # `env` sets them and becomes the program.
    return Child(["env", *(f"{name}={value}" for name, value in environment.items()), *words], log=log)


if __name__ == "__main__":
    try:
        main()
    except UnavailableError as error:
        say(str(error))
        sys.exit(1)
