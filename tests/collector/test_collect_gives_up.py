"""`gputab collect` in a container that has lost its cards for good, under a supervisor that would start another."""

from pathlib import Path

import pynvml

from collector.delivery.queue import BatchQueue
from collector.process import queue_path
from domain.series import GPU_UP
from domain.units import MIB
from gputab.commands.collect import DRIVER_GIVEN_UP
from tests.collector.collecting import Start
from tests.collector.patience import PATIENCE_S, now_s, wait_until
from tests.collector.sent import samples_of_card
from tests.fakes.nvml.driver import FakeDriver


def test_a_collector_ends_with_a_code_of_its_own_once_it_gives_the_driver_up(
    driver: FakeDriver, start: Start, tmp_path: Path, unique_node: str, victoriametrics_url: str
) -> None:
    """L3: what was sampled is delivered, the card is down at the end, and one line says what to do."""
    uuid, began_s = driver.card(0, uuid=f"GPU-{unique_node}"), now_s()

    def up() -> list[float]:
        frame = samples_of_card(victoriametrics_url, uuid, began_s)
        return [row["value"] for row in frame.sort("second_s").to_dicts() if row["series"] == GPU_UP.name]

    process = start("--node", unique_node, env={**driver.env(), "GPUTAB_DRIVER_GONE_EXIT_SECONDS": "3"})
    wait_until(lambda: 1 in up())
    driver.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlInitWithFlags")
    driver.unload()
    driver.load()
    assert process.wait(PATIENCE_S) == DRIVER_GIVEN_UP
    log = (tmp_path / "log-0").read_text()
    last = log.splitlines()[-1]
    assert last.startswith("gputab: cannot go on without the NVIDIA driver, which has been away for 3 s; start")
    assert "Traceback" not in log
    assert up()[-1] == 0
    queue = BatchQueue(queue_path(tmp_path / "data", unique_node), 64 * MIB)
    waiting = len(queue)
    queue.close()
    assert waiting == 0
