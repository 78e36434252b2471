"""Twenty-four hours of history, written through the importers that a user has."""

import json
import shlex
import sys
from dataclasses import asdict

import httpx
from rich.console import Console

from allocator.client import AllocatorClient
from collector.delivery.node_service import NodeService
from collector.simulation.fleet import Fleet
from collector.simulation.history_csv import write_history
from collector.simulation.history_plan import HistoryPlan
from domain.errors import UnavailableError
from gputab.demo.stage import Stage
from machine.process import run

# A reading of the log stands for so many seconds.
STEP_S = 10


def write(stage: Stage, fleet: Fleet, plan: HistoryPlan, client: httpx.Client, console: Console) -> None:
    """Report the cards as of the beginning of the past, then import who held them and what was measured."""
    url = stage.settings.allocator_url

    def progress(line: str) -> None:
        console.print(line, soft_wrap=True, highlight=False)

    for node in fleet.nodes:
        service = NodeService(url, node, stage.node_tokens[node], client)
        service.put_inventory(json.dumps(asdict(fleet.inventory(node, plan.start_s))).encode())
    operator = AllocatorClient(url, stage.operator_token, client)
    for card in fleet.cards.values():
        for instance in card.device.instances:
            operator.adopt(instance.uuid)
    allocations, samples = stage.folder / "history-allocations.csv", stage.folder / "history-samples.csv"
    with console.status("writing the logs of the past 24 hours"):
        write_history(fleet, plan, allocations, samples, STEP_S)
    with console.status("importing who held what"):
        said = _gputab(stage, ["allocations", "import", str(allocations), "--source", "history"])
    progress(f"past 24 hours: {said.strip()}")
    with console.status("importing what was measured"):
        said = _gputab(stage, ["samples", "import", str(samples), "--hold", str(STEP_S), "--format", "json"])
    # Somewhere among its words for people.
    row = json.JSONDecoder().raw_decode(said, said.index("{\n"))[0]["rows"][0]
    progress(f"past 24 hours: {row['samples']:,} samples stored from {row['rows']:,} rows")


def _gputab(stage: Stage, words: list[str]) -> str:
    """Run a gputab command on the demo's stage, as a user would; what it said."""
    told = (
        f"GPUTAB_VICTORIAMETRICS_URL={stage.settings.victoriametrics_url}",
        f"GPUTAB_ALLOCATOR_URL={stage.settings.allocator_url}",
        f"GPUTAB_DATA_DIR={stage.folder}",
    )
    finished = run(["env", *told, sys.executable, "-m", "gputab", *words], folder=stage.folder)
    if finished.returncode != 0:
        *_, last = finished.stdout.strip().splitlines() or [f"`gputab {shlex.join(words)}` ended without a word"]
        raise UnavailableError(f"cannot write the past: {last.removeprefix('gputab: ')}")
    return finished.stdout
