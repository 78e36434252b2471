"""A collector's process holds no more of the machine's memory after hours than it did before.

`test_flat_memory.py` counts what the interpreter holds, while things come and go. Here it is all that the process
holds, with what SQLite, the HTTP client, the driver's library and the allocator of memory take, while nothing changes.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from domain.units import GIB, MIB
from tests.collector.many_seconds import LOOK_SECONDS
from tests.fakes.nvml.driver import FakeDriver

# Of a day, less than 1 MiB, by its last third. Of the slice, more than the pages that the allocator takes now and then.
GROWN_BYTES_MAX = MIB // 3


def grown_bytes(held: Sequence[int]) -> int:
    """By how much more is held at most in the last third than in the second. In the first all that is bounded fills."""
    third = len(held) // 3
    return max(held[2 * third :]) - max(held[third : 2 * third])


@pytest.mark.long
def test_a_process_that_lives_for_hours_holds_no_more_of_the_machines_memory(
    driver: FakeDriver, tmp_path: Path, unique_node: str, victoriametrics_url: str, *, is_soak: bool
) -> None:
    """O1: a day of two cards with a process each (`make test`: 50 minutes), each second delivered to a real store."""
    seconds = 86_400 if is_soak else 3_000
    for index in range(2):
        driver.process(driver.card(index, "NVIDIA H100 80GB HBM3", used=40 * GIB, busy_percent=50), os.getpid(), GIB)
    arguments = [unique_node, victoriametrics_url, str(tmp_path), str(seconds)]
    command = [sys.executable, "-m", "tests.collector.many_seconds", *arguments]
    environment = {**os.environ, **driver.env()}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)

    held = [int(line) for line in done.stdout.splitlines()]
    assert len(held) == seconds // LOOK_SECONDS
    assert grown_bytes(held) < GROWN_BYTES_MAX


@pytest.mark.parametrize(("leaks_bytes", "is_flat"), [(0, True), (100, True), (1_000, False)])
def test_what_grows_with_each_second_is_seen_and_what_fills_is_not(leaks_bytes: int, *, is_flat: bool) -> None:
    held = [60 * MIB + min(second, 1_000) * 4_096 + second * leaks_bytes for second in range(0, 3_000, LOOK_SECONDS)]
    assert (grown_bytes(held) < GROWN_BYTES_MAX) is is_flat
