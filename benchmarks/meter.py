"""`make bench-meter`: a day of 100 cards from VictoriaMetrics to charges, and the compute step against its peers.

Store, ledger and meter are real; only the cards are not. Each pass runs in a process of its own.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.figures import print_figures
from benchmarks.meter_figures import Run, lines
from benchmarks.meter_fleet import CARDS_PER_NODE, START_US, Fleet
from benchmarks.meter_ledger import make_ledger
from benchmarks.meter_passes import Passes
from benchmarks.meter_peers import compare
from benchmarks.meter_samples import marks_of, samples_of
from domain.errors import UnavailableError
from domain.period import HOUR_US
from gputab.output import say
from machine.process import free_port
from machine.programs import VICTORIA_METRICS, find_program
from settings.gputab import load_settings
from tests.victoriametrics_server import start
from victoriametrics.push import Pusher

CARDS, HOURS = 100, 24
# So much is given to the peers: pandas takes some 2 KiB of memory a card-second.
_PEER_HOURS_MAX = 2
# From its first sample on the store forgets what selectors have found (victoriametrics/push.py).
_VISIBLE_S = 15


def main() -> None:
    """Measure, print a table, and fail where a figure is not what was asked for."""
    parser = argparse.ArgumentParser(prog="make bench-meter")
    parser.add_argument("--hours", type=int, default=HOURS, help="hours of samples, 1 to 24")
    parser.add_argument("--cards", type=int, default=CARDS, help=f"cards, {CARDS_PER_NODE} to a node")
    arguments = parser.parse_args()
    cards, hours = arguments.cards, arguments.hours
    if not 1 <= hours <= HOURS or not 4 <= cards <= CARDS:
        parser.error(f"cannot measure {cards} cards over {hours} hours: give 4 to {CARDS} and 1 to {HOURS}")
    config = load_settings()
    program = find_program(
        VICTORIA_METRICS,
        explicit=config.victoriametrics_binary,
        cache_folder=config.programs_path,
        progress=say,
    )
    fleet = Fleet(cards, hours)
    with tempfile.TemporaryDirectory(prefix="bench-meter-") as name:
        folder = Path(name)
        say(f"{cards} cards, {hours} h: the compute step against its peers")
        costs = compare(folder / "peers", Fleet(cards, min(hours, _PEER_HOURS_MAX)))
        port = free_port()
        with start(binary=program.path, port=port, folder=folder / "store") as child:
            url = f"http://127.0.0.1:{port}"
            _load(url, fleet)
            runs = [_run(folder, url, each, fleet) for each in _sizes(cards, hours)]
            child.stop()
    found = list(lines(runs, costs))
    print_figures(found, f"{cards} cards, {hours} h")
    sys.exit(1 if any(line.is_met is False for line in found) else 0)


def _sizes(cards: int, hours: int) -> list[Fleet]:
    """Fleets of a quarter, a half and all of the cards for a quarter of the time, then all of them for longer."""
    quarter = max(1, hours // 4)
    few = dict.fromkeys((max(1, cards // 4), max(1, cards // 2), cards))
    long = dict.fromkeys((max(1, hours // 2), hours))
    return list(dict.fromkeys([*(Fleet(each, quarter) for each in few), *(Fleet(cards, each) for each in long)]))


def _load(url: str, fleet: Fleet) -> None:
    began_s = time.monotonic()
    with Pusher(url) as pusher:
        before = pusher.dropped_rows()
        for hour in range(fleet.hours):
            for node in fleet.nodes:
                pusher.send(samples_of(fleet, node, hour))
        pusher.send(marks_of(fleet))
        pusher.flush()
        if pusher.dropped_rows() != before:
            raise UnavailableError("cannot load the samples: the store dropped some of them")
    time.sleep(_VISIBLE_S)
    say(f"loaded in {time.monotonic() - began_s:.0f} s")


def _run(folder: Path, url: str, part: Fleet, whole: Fleet) -> Run:
    """Rate a part of what is in the store, into a ledger of its own; all of it again as well."""
    name = f"{part.cards_count}-{part.hours}"
    ledger_url = make_ledger(folder / f"{name}.db", part)
    # Everything is past, and no deadline is.
    now_us = START_US + (whole.hours + 1) * HOUR_US
    words = [url, ledger_url, str(folder / name), str(part.cards_count), str(part.hours), str(now_us)]
    words += ["again"] if part == whole else []
    command = [sys.executable, "-m", "benchmarks.meter_passes", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise UnavailableError(done.stderr.strip().splitlines()[-1])
    run = Run(part, Passes(**json.loads(done.stdout)))
    say(f"{part.cards_count} cards, {part.hours} h: rated in {run.passes.wall_s:.1f} s")
    return run


if __name__ == "__main__":
    try:
        main()
    except UnavailableError as error:
        say(str(error))
        sys.exit(1)
