"""A node that is not there: the fake driver with cards at work, and real processes that it says are on them."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from domain.units import MIB
from tests.fakes.nvml.driver import FakeDriver, build
from tests.fakes.nvml.models import H100

# What a process maps of it is memory that no real driver would take.
FAKE_WORLD = "fake-nvml.state"
_PERIOD_US = 700_000


@contextmanager
def fake_node(folder: Path, *, cards: int, processes: int) -> Iterator[dict[str, str]]:
    """So many H100s, and processes dealt out to them that compute in turns; what a child's environment needs.

    The processes are asleep and cost nothing, but have a PID, a start and a cgroup to look up.
    """
    driver = FakeDriver(build(folder))
    uuids = [driver.card(index, model=H100, simulated=1) for index in range(cards)]
    per_card = -(-processes // cards)
    with ExitStack() as stack:
        for number in range(processes):
            process = subprocess.Popen([sys.executable, "-S", "-c", "import signal; signal.pause()"])
            stack.callback(process.wait)
            stack.callback(process.kill)
            driver.process(
                uuids[number % cards],
                process.pid,
                used_bytes=(512 + 16 * number) * MIB,
                period_us=_PERIOD_US,
                offset_us=number // cards * _PERIOD_US // per_card,
                on_us=_PERIOD_US // (2 * per_card),
                sm_permille=700,
                memory_permille=300,
            )
        yield driver.env()
