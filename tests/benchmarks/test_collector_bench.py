"""The benchmark of the collector works; what it measures is nobody's verdict here."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.collector_figures import OwnSamples, lines
from benchmarks.figures import Line
from benchmarks.process_usage import cpu_seconds, rss_mib
from benchmarks.pushing import Costs
from benchmarks.watched_run import Watched
from tests.side_by_side import side_by_side

ROOT = Path(__file__).parent.parent.parent


@side_by_side
def test_a_few_seconds_of_it_give_every_figure(folder: Path, victoriametrics_binary: Path, nvml_library: Path) -> None:
    """The benchmark builds a library of its own; where there is none to be had, the test is skipped."""
    environment = {**os.environ, "GPUTAB_VICTORIAMETRICS_BINARY": str(victoriametrics_binary)}
    command = [sys.executable, "-m", "benchmarks.collector", "--duration", "8", "--warm-up", "4"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    rows = [re.split(r" {2,}", line.strip()) for line in done.stdout.splitlines() if line.strip()]
    figures = {row[0]: float(row[2].replace(",", "")) for row in rows[2:]}
    assert len(figures) == 13
    assert figures["samples"] > 100


def test_a_machine_without_a_compiler_is_one_line_with_what_to_install(
    victoriametrics_binary: Path, tmp_path: Path
) -> None:
    environment = {**os.environ, "GPUTAB_VICTORIAMETRICS_BINARY": str(victoriametrics_binary), "PATH": str(tmp_path)}
    command = [sys.executable, "-m", "benchmarks.collector"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("cannot build the fake driver: 'gcc' is not on PATH; install it")
    assert "Traceback" not in done.stderr


WATCHED = Watched(
    seconds=10, cpu_share=0.01, store_cpu_share=0.02, rss_mib=50, rss_growth_mib=0.5, samples=1_000,
    stamps_s=[100.0, 101.0, 103.0], seen_after_s=[1.0, 2.0, 3.0],
)  # fmt: skip


def figure(what: str, own: OwnSamples) -> Line:
    found = lines(WATCHED, own, WATCHED, Costs(20, 1_000, 300, 250), letting_go_s=1.2)
    (line,) = [line for line in found if line.what.startswith(what)]
    return line


def test_figures_are_what_was_measured_and_held_against_what_was_asked_for() -> None:
    own = OwnSamples({100: 0.001, 101: 0.04}, {100: 0.02, 101: 0.02}, {100: 0.1, 101: 0.4})
    assert figure("processor by", own).ours == pytest.approx(100)
    assert figure("seconds that are there", own).ours == 75
    assert figure("seconds that are there", own).is_met is False
    assert figure("seconds read within", own).ours == 50
    assert figure("from reading", own).ours == 0.4
    assert figure("until a query", own).ours == 3.0
    assert figure("letting go", own).is_met is False
    assert figure("building", own).is_met is True
    assert figure("sending", own).ratio == 1.2
    assert figure("samples", own).is_met is None


def test_a_process_is_measured_by_what_the_kernel_says_of_it() -> None:
    before_s = cpu_seconds(os.getpid())
    while cpu_seconds(os.getpid()) < before_s + 0.03:
        sum(range(10_000))
    without_libraries = rss_mib(os.getpid(), ".so.6")
    assert without_libraries > 10
    assert rss_mib(os.getpid()) - without_libraries > 0.5, "the C library is some two MiB"
