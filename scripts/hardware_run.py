"""A collector at work on the cards of this machine, and what `nvidia-smi` says of the same cards."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx

from benchmarks.process_usage import cpu_seconds, rss_mib
from collector.nvml.source import NvmlSource
from domain.clock import MICROSECONDS, Clock
from domain.series import (
    COLLECTOR_COVERAGE,
    COLLECTOR_HOLES,
    COLLECTOR_LATENESS,
    COLLECTOR_MISSED,
    COLLECTOR_READ,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_CLOCK,
    GPU_TEMPERATURE,
)
from domain.units import MIB
from gputab.doctor.collector_page import Values, page_values
from machine.process import Child, free_port
from machine.process import run as run_program
from scripts.section import Section

_MEGAHERTZ = 1_000_000
# What nvidia-smi calls it, what we do, and what one of its units is in ours.
_COMPARED = {
    "memory.total": (GPU_MEMORY_TOTAL, MIB),
    "memory.reserved": (GPU_MEMORY_RESERVED, MIB),
    "memory.used": (GPU_MEMORY_USED, MIB),
    "power.draw": (GPU_POWER, 1),
    "temperature.gpu": (GPU_TEMPERATURE, 1),
    "clocks.sm": (GPU_SM_CLOCK, _MEGAHERTZ),
}
_SMI_SECONDS = 20.0
_WARM_UP_SECONDS = 3.0
_UNKNOWN_PORT = 9
# One that nobody else on this machine collects for.
_NODE = f"gpu-check-{os.getpid()}"


def collector_at_work(seconds: float, clock: Clock) -> Section:
    """`gputab collect` over the driver that is here, without a store: what it takes, and how punctual it is."""
    title = "The collector at work"
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="gpu-check-") as folder:
        settings = {
            "GPUTAB_DATA_DIR": folder,
            # A port to which nothing listens: what is sampled waits on disk.
            "GPUTAB_VICTORIAMETRICS_URL": f"http://127.0.0.1:{_UNKNOWN_PORT}",
            "GPUTAB_METRICS_PORT": str(port),
        }
        words = ["env", *(f"{name}={value}" for name, value in settings.items())]
        log = Path(folder) / "log"
        command = [*words, sys.executable, "-m", "gputab", "collect", "--node", _NODE]
        with Child(command, log=log) as child, httpx.Client(trust_env=False) as client:
            clock.sleep_s(_WARM_UP_SECONDS)
            if child.exit_code is not None:
                return Section(title, f"It ended: {log.read_text('utf-8', errors='replace').splitlines()[-1]}")
            cpu_s, began_s = cpu_seconds(child.pid), clock.monotonic_s()
            late, read = [], []
            page: Values = {}
            while clock.monotonic_s() - began_s < seconds:
                page = page_values(_NODE, port, client) or {}
                late += page.get(COLLECTOR_LATENESS.name, [])
                read += page.get(COLLECTOR_READ.name, [])
                clock.sleep_s(1.0)
            share = (cpu_seconds(child.pid) - cpu_s) / (clock.monotonic_s() - began_s)
            memory_mib = rss_mib(child.pid)
    covered = page.get(COLLECTOR_COVERAGE.name, [])
    rows = [
        ("processor", f"{share:.2%} of a core"),
        ("memory (RSS)", f"{memory_mib:.0f} MiB"),
        ("cards that answer", str(len(covered))),
        ("coverage, least", f"{min(covered, default=0):.2%}"),
        ("late at most", f"{max(late, default=0) * 1_000:.1f} ms"),
        ("read in at most", f"{max(read, default=0) * 1_000:.1f} ms"),
        ("holes", f"{sum(page.get(COLLECTOR_HOLES.name, [])):.0f}"),
        ("missed reads", f"{sum(page.get(COLLECTOR_MISSED.name, [])):.0f}"),
    ]
    answer = f"For {seconds:.0f} s, without a store: {share:.2%} of a core, {memory_mib:.0f} MiB."
    return Section(title, answer, ("figure", "value"), rows)


def against_nvidia_smi(source: NvmlSource, clock: Clock) -> Section:
    """What `nvidia-smi` and we say of each card, one right after the other."""
    title = "Compared with nvidia-smi"
    program = shutil.which("nvidia-smi")
    if program is None:
        return Section(title, "nvidia-smi is not here.")
    command = [program, f"--query-gpu=uuid,{','.join(_COMPARED)}", "--format=csv,noheader,nounits"]
    try:
        said = run_program(command, timeout_s=_SMI_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Section(title, f"nvidia-smi does not answer: {error}.")
    rows = []
    for line in said.stdout.splitlines():
        uuid, *cells = (cell.strip() for cell in line.split(","))
        if not uuid.startswith("GPU-") or len(cells) != len(_COMPARED):
            continue
        values = source.read(uuid, clock.now_us() // MICROSECONDS)[0].values
        for (name, (series, unit)), cell in zip(_COMPARED.items(), cells, strict=True):
            ours = values.get(series)
            rows.append((uuid, name, cell, "-" if ours is None else f"{ours / unit:.2f}"))
    answer = "Values that move differ by what happened between the two." if rows else f"It says {said.stdout[:200]!r}."
    return Section(title, answer, ("card", "field", "nvidia-smi", "gputab"), rows)


def file_name(model: str, driver_version: str) -> str:
    """Of the report on that card under that driver."""
    return re.sub(r"[^a-z0-9.]+", "-", f"{model} {driver_version}".lower()).strip("-") + ".md"
