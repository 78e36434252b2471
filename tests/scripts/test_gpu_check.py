"""scripts/gpu_check.sh from end to end on the fake driver, since no machine with a card runs these tests."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from scripts.hardware_run import file_name
from scripts.section import Section
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.models import H100, RTX_4090, Model
from tests.namespaces import apart
from tests.side_by_side import side_by_side

ROOT = Path(__file__).parent.parent.parent
QUESTIONS = (
    "(a) Newer fields and counters",
    "(b) Period and clock of finer samples",
    "(c) Cost of one tick",
    "(d) Samples by process",
    "(e) Performance metrics of one second against the energy counter",
    "(f) Reserved memory under load",
    "Compared with nvidia-smi",
    "The collector at work",
    "The load",
)
# In place of the program: it says of the first card what a person would compare.
SMI = """#!/bin/sh
echo "GPU-00000000-0000-0000-0000-000000000000, 81559, 479, 1024, 70.00, 40, 1980"
"""

# Becomes what its arguments say once loopback is up, as it is on every machine (netdevice(7)), and if nothing else is.
LOOPBACK_UP = """
import errno, fcntl, os, socket, struct, sys
with socket.socket() as door:
    fcntl.ioctl(door, 0x8914, struct.pack("16sh22x", b"lo", 1))
    assert door.connect_ex(("192.0.2.1", 80)) == errno.ENETUNREACH
os.execvp(sys.argv[1], sys.argv[1:])
"""
# In place of the program: it has less patience than it is asked for, which it writes down.
TIMEOUT = """#!/bin/sh
echo "$3" > "$(dirname "$0")/limit"
shift 3
exec {timeout} --foreground --kill-after=1 3 "$@"
"""


@contextmanager
def at_work(library: Path, folder: Path, model: Model) -> Iterator[FakeDriver]:
    """A card with two processes that take turns."""
    # A copy, since a library that is loaded has one world.
    driver = FakeDriver(Path(shutil.copy(library, folder)))
    uuid = driver.card(0, model=model, simulated=1, simulated_from_us=driver.now_us())
    with ExitStack() as stack:
        for number in range(2):
            process = stack.enter_context(subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"]))
            stack.callback(process.kill)
            offset_us = number * 350_000
            driver.process(
                uuid, process.pid, 512 * 2**20, period_us=700_000, offset_us=offset_us, on_us=200_000, sm_permille=500
            )
        yield driver


def check(
    driver: FakeDriver, file: Path, path: str = os.environ["PATH"], within: Sequence[str] = ()
) -> "subprocess.CompletedProcess[str]":
    """Run it, with little time for each question; `within` are words that run what follows them."""
    environment = {**os.environ, **driver.env(), "PYTHON": sys.executable, "PATH": path}
    command = [*within, str(ROOT / "scripts" / "gpu_check.sh"), "--seconds", "2.5", "--out", str(file)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def sections_of(report: str) -> dict[str, str]:
    """What stands under each heading."""
    parts = report.split("\n## ")[1:]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


@side_by_side
def test_every_question_is_answered_of_a_card_with_performance_metrics(folder: Path, nvml_library: Path) -> None:
    check_report(folder, nvml_library, H100, has_gpm=True)


@side_by_side
def test_every_question_is_answered_of_a_card_without_them(folder: Path, nvml_library: Path) -> None:
    check_report(folder, nvml_library, RTX_4090, has_gpm=False)


@side_by_side
def test_no_question_needs_a_network(folder: Path, nvml_library: Path) -> None:
    """In a network namespace of its own there is loopback and nothing else: no interface, no route, no name server."""
    within = [*apart("net"), sys.executable, "-c", LOOPBACK_UP]
    check_report(folder, nvml_library, H100, has_gpm=True, within=within)


def check_report(folder: Path, library: Path, model: Model, *, has_gpm: bool, within: Sequence[str] = ()) -> None:
    """Run it on such a card, and look at what it wrote."""
    smi = folder / "bin" / "nvidia-smi"
    smi.parent.mkdir()
    smi.write_text(SMI)
    smi.chmod(0o755)
    with at_work(library, folder, model) as driver:
        done = check(driver, folder / "report.md", f"{smi.parent}:{os.environ['PATH']}", within)
    assert (done.returncode, done.stdout.strip()) == (0, str(folder / "report.md")), done.stderr

    report = (folder / "report.md").read_text("utf-8")
    assert report.startswith(f"# {model.name}, driver 590.48.01\n")
    sections = sections_of(report)
    assert tuple(sections) == QUESTIONS
    assert ("field 197" in sections["(a) Newer fields and counters"].splitlines()[1]) is has_gpm
    assert "busy: 100 ms by the wall clock" in sections["(b) Period and clock of finer samples"]
    assert "DeviceGetMemoryInfo" in sections["(c) Cost of one tick"]
    assert sections["(d) Samples by process"].strip().startswith("2 processes were sampled.")
    energy = sections["(e) Performance metrics of one second against the energy counter"]
    assert ("This card does not tell both." in energy) is not has_gpm
    assert f"It stays at {model.reserved_bytes // 2**20} MiB." in sections["(f) Reserved memory under load"]
    assert "| memory.used | 1024 | 1024.00 |" in sections["Compared with nvidia-smi"]
    assert "| coverage, least | 100.00% |" in sections["The collector at work"]
    # No test machine has the driver's CUDA library, and that is said where it is missed.
    assert "libcuda.so.1" in sections["The load"] or "Two processes" in sections["The load"]
    assert str(folder) not in report, "no path of this machine"


def test_a_machine_without_a_card_is_one_line_and_no_report(nvml_library: Path, tmp_path: Path) -> None:
    done = check(FakeDriver(nvml_library, tmp_path / "fake-nvml.state"), tmp_path / "report.md")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "cannot check any card: the driver has none; see dmesg"
    assert not (tmp_path / "report.md").exists()


def test_a_call_that_hangs_ends_it_within_three_minutes(nvml_library: Path, tmp_path: Path) -> None:
    """L4: with a line that says so, and without a report."""
    driver = FakeDriver(nvml_library, tmp_path / "fake-nvml.state")
    driver.fault(0, "nvmlDeviceGetFieldValues", driver.card(0, model=H100), hang=True)
    impatient = tmp_path / "bin" / "timeout"
    impatient.parent.mkdir()
    impatient.write_text(TIMEOUT.format(timeout=shutil.which("timeout")))
    impatient.chmod(0o755)
    done = check(driver, tmp_path / "report.md", f"{impatient.parent}:{os.environ['PATH']}")
    limit_s = int((impatient.parent / "limit").read_text())
    assert limit_s + 5 < 180
    words = f"cannot check any card: no end after {limit_s} s, as where a call of the driver hangs; see dmesg"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, words)
    assert not (tmp_path / "report.md").exists()


def test_an_interpreter_without_the_libraries_is_named(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHON": "/bin/false"}
    done = subprocess.run(
        [ROOT / "scripts" / "gpu_check.sh"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "'/bin/false' lacks gputab's libraries" in done.stderr


def test_a_report_is_called_by_its_card_and_driver() -> None:
    assert file_name("NVIDIA H100 80GB HBM3", "590.48.01") == "nvidia-h100-80gb-hbm3-590.48.01.md"


def test_a_section_without_numbers_is_its_answer() -> None:
    assert Section("(x) So", "It is.").markdown() == "## (x) So\n\nIt is.\n"
    table = Section("(x) So", "It is.", ("a", "b"), [(1, "c")]).markdown()
    assert table == "## (x) So\n\nIt is.\n\n| a | b |\n| --- | --- |\n| 1 | c |\n"
