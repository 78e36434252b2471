"""`gputab collect` as a process of its own."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from collector.process import queue_path
from tests.collector.patience import wait_until

Process = subprocess.Popen[str]
Start = Callable[..., Process]


@contextmanager
def collectors(folder: Path, url: str) -> Iterator[Start]:
    """Starts the command in `folder`, its data in `data` and its logs beside it; what is left of it is killed."""
    started: list[Process] = []

    def begin(*arguments: str, url: str = url, env: Mapping[str, str] | None = None) -> Process:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GPUTAB_")}
        environment |= {"GPUTAB_VICTORIAMETRICS_URL": url, "GPUTAB_DATA_DIR": str(folder / "data")}
        environment |= {"GPUTAB_METRICS_PORT": "0", **(env or {})}
        command = [sys.executable, "-m", "gputab", "collect", *arguments]
        with (folder / f"log-{len(started)}").open("w+") as log:
            started.append(subprocess.Popen(command, env=environment, cwd=folder, stderr=log, stdout=log, text=True))
        return started[-1]

    try:
        yield begin
    finally:
        for process in started:
            if process.poll() is None:
                process.kill()
            process.wait()


def wait_for_queued_seconds(folder: Path, node: str) -> None:
    """Wait until the first collector of `folder` has put two seconds or more into its queue, of which nothing is taken.

    Once it has started, such a queue is written to in each second, and then only.
    """
    path = queue_path(folder / "data", node)
    journal = path.with_name(f"{path.name}-wal")
    sizes: set[int] = set()

    def has_sampled() -> bool:
        if "collector_started" in (folder / "log-0").read_text():
            sizes.add(journal.stat().st_size)
        return len(sizes) >= 4

    wait_until(has_sampled)
