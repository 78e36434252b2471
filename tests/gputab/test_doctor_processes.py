"""`gputab doctor` on the processes of a card: whose each is, and what the driver itself says that it uses."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from collector.call_times import CallTimes
from collector.node_state import NodeState
from collector.nvml.source import NvmlSource
from collector.owners.hints import hints
from collector.owners.places import place
from collector.owners.processes import ProcessTable
from collector.owners.records import OwnerRecords
from domain.clock import FrozenClock, SystemClock
from domain.inventory import Device
from domain.units import GIB, MIB
from gputab.doctor.devices import examine
from gputab.doctor.findings import CardProcess, DeviceReport, Diagnosis
from gputab.doctor.report import as_json, print_report
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.models import A100, RTX_4090
from tests.fakes.nvml.processes import ProcTree

Examined = Callable[[], list[DeviceReport]]


@pytest.fixture
def examined(driver: FakeDriver, proc: ProcTree, tmp_path: Path) -> Iterator[Examined]:
    """Examines the cards of the driver, with the processes of that `/proc`."""
    clock = SystemClock()
    sources: list[NvmlSource] = []

    def ask() -> list[DeviceReport]:
        table = ProcessTable(proc.root, OwnerRecords(tmp_path / "owners"))
        sources.append(NvmlSource(clock, CallTimes(clock), table, NodeState(None)))
        # The second between its two rounds is not waited for: a sample of a process holds for no more than two.
        return examine(sources[-1], FrozenClock(clock.now_us()))[0]

    yield ask
    for source in sources:
        source.close()


def three_that_take_turns(driver: FakeDriver, proc: ProcTree) -> None:
    """A3: processes of two owners and of nobody, of which the driver samples 260 % of a card that is all busy."""
    uuid = driver.card(0, model=RTX_4090, busy_percent=100, used=4 * GIB)
    percents = {4_000_101: 100, 4_000_102: 100, os.getpid(): 60}
    for pid, cgroup in zip(percents, ("gputab-a.scope", "ollama.service", "foreign.scope"), strict=True):
        proc.process(pid, f"/system.slice/{cgroup}")
        driver.process(uuid, pid, GIB)
    at_us = driver.now_us() - 100_000
    driver.uses(uuid, [{"pid": pid, "at_us": at_us, "sm": percent} for pid, percent in percents.items()])


def test_a3_each_process_has_the_percent_that_the_driver_sampled(
    driver: FakeDriver, proc: ProcTree, examined: Examined
) -> None:
    """A3: owners have parts of what the card was busy, 260 % of it are no ratio; the raw samples show why."""
    three_that_take_turns(driver, proc)

    (report,) = examined()

    assert report.processes == (
        CardProcess(4_000_101, "alloc:a", GIB, 100, None, {}),
        CardProcess(4_000_102, "unit:ollama.service", GIB, 100, None, {}),
        CardProcess(os.getpid(), None, GIB, 60, str(place(os.getpid())), hints(os.getpid())),
    )
    shown = as_json(Diagnosis("node-1", (), (report,)))["devices"][0]["processes"]
    assert [(each["owner"], each["sm_percent"]) for each in shown] == [
        ("alloc:a", 100),
        ("unit:ollama.service", 100),
        (None, 60),
    ]


def test_people_see_them_as_a_table(
    driver: FakeDriver, proc: ProcTree, examined: Examined, capsys: pytest.CaptureFixture[str]
) -> None:
    three_that_take_turns(driver, proc)

    print_report(Diagnosis("node-1", (), tuple(examined())))

    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["process", "memory", "SM", "whose"] in rows
    assert ["4000101", "1,024", "MiB", "100%", "alloc:a"] in rows
    assert [str(os.getpid()), "1,024", "MiB", "60%", "nobody's"] in rows


def test_what_a_process_claims_is_shown_as_it_wrote_it(capsys: pytest.CaptureFixture[str]) -> None:
    """Its environment may hold what looks like markup, and an id that is to be copied stays in one piece."""
    container = f"container:{'4f0c8a6d' * 8}:docker"
    claims = {"SLURM_JOB_ID": "[/bold] 7"}
    process = CardProcess(4_000_101, None, None, None, container, claims)
    report = DeviceReport(Device("GPU-1", 0, "a card", 4 * GIB, 0), None, "a family", (), 4 * GIB, 0, (process,))

    print_report(Diagnosis("node-1", (), (report,)))

    words = capsys.readouterr().out.split()
    assert f"{container};" in words
    assert words[words.index("says") :][:3] == ["says", "SLURM_JOB_ID=[/bold]", "7"]


def test_of_a_process_on_an_instance_no_sample_is_not_0_percent(
    driver: FakeDriver, proc: ProcTree, examined: Examined, capsys: pytest.CaptureFixture[str]
) -> None:
    """The driver samples none there; the card itself tells of no owner, since its instances do."""
    card = driver.card(0, model=A100, mig_mode=1)
    instance = driver.create_instance(card, "2g.20gb")
    proc.process(4_000_101, "/system.slice/gputab-a.scope")
    driver.process(instance, 4_000_101, 512 * MIB)

    reports = examined()
    print_report(Diagnosis("node-1", (), tuple(reports)))

    assert reports[1].processes == (CardProcess(4_000_101, "alloc:a", 512 * MIB, None, None, {}),)
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert [row for row in rows if row[:1] == ["4000101"]] == [["4000101", "512", "MiB", "alloc:a"]]
