"""The memory and compute of real cards by owner: what the driver's lists and the cgroups behind them prove."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pynvml
import pytest
from structlog.testing import capture_logs

from collector.nvml.card_owners import OwnedProcess
from collector.nvml.driver import CardLostError
from collector.owners.processes import ProcessTable
from collector.owners.records import OwnerRecords
from collector.ranges import refuse_garbage
from domain.samples import UNATTRIBUTED, Basis, DeviceReading, FieldState
from domain.series import GPU_BUSY, GPU_GR_ACTIVE, GPU_MEMORY_USED, GPU_UP, OWNER_COMPUTE, OWNER_MEMORY
from domain.units import GIB, MIB
from tests.collector.nvml.owned_card import OwnedCard, compute_of, memory_of
from tests.fakes.nvml.driver import Can, FakeDriver
from tests.fakes.nvml.processes import ProcTree

NOT_AVAILABLE = 2**64 - 1
CONTAINER = "0123456789abcdef" * 4
POD = "2fc932ce-fdcc-454b-97bd-aadfdeb4c340"
POD_SLICE = f"/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice"
SECOND_US = 1_000_000

Own = Callable[..., OwnedCard]


@pytest.fixture
def own(driver: FakeDriver, proc: ProcTree, tmp_path: Path) -> Iterator[Own]:
    """Opens a card with the owners that its `/proc` and records prove."""
    opened: list[OwnedCard] = []

    def open_(uuid: str, *instances: str) -> OwnedCard:
        table = ProcessTable(proc.root, OwnerRecords(tmp_path / "owners"))
        opened.append(OwnedCard(driver, uuid, table, instances))
        return opened[-1]

    yield open_
    for each in opened:
        each.close()


def _run(driver: FakeDriver, proc: ProcTree, uuid: str, pid: int, cgroup: str, used_bytes: int = GIB) -> None:
    proc.process(pid, cgroup)
    driver.process(uuid, pid, used_bytes)


def _uses(driver: FakeDriver, uuid: str, percents: dict[int, int], age_us: int = 100_000) -> None:
    at_us = driver.now_us() - age_us
    driver.uses(uuid, [{"pid": pid, "at_us": at_us, "sm": percent} for pid, percent in percents.items()])


class TestMemory:
    """Bytes by owner."""

    def test_it_is_split_by_whose_processes_use_it(
        self, driver: FakeDriver, proc: ProcTree, own: Own, tmp_path: Path
    ) -> None:
        """Two processes of one allocation are summed; what no owner is proved of is `unattributed`."""
        uuid = driver.card(0, used=10 * GIB)
        (tmp_path / "owners").mkdir(mode=0o755)
        record = tmp_path / "owners" / CONTAINER
        record.write_text("alloc:al_2\n")
        record.chmod(0o644)
        _run(driver, proc, uuid, 101, "/system.slice/gputab-al_1.scope", 2 * GIB)
        _run(driver, proc, uuid, 102, "/system.slice/gputab-al_1.scope", 1 * GIB)
        _run(driver, proc, uuid, 103, "/system.slice/slurmstepd.scope/job_17/step_0/user/task_0", 3 * GIB)
        _run(driver, proc, uuid, 104, f"/system.slice/docker-{CONTAINER}.scope", 512 * MIB)
        _run(driver, proc, uuid, 105, f"/system.slice/docker-{'0' * 64}.scope", 512 * MIB)
        driver.process(uuid, 106, 256 * MIB)
        card = own(uuid)

        reading = card.read()

        assert memory_of(reading) == {
            "alloc:al_1": 3 * GIB,
            "slurm:17": 3 * GIB,
            "alloc:al_2": 512 * MIB,
            UNATTRIBUTED: 3 * GIB + 512 * MIB,
        }
        assert card.owners.unproved == 2
        assert reading.bases[OWNER_MEMORY] == Basis("nvml", "process_list")
        assert card.owners.processes()[3] == OwnedProcess(104, "alloc:al_2", None, 512 * MIB, None)

    def test_a_process_on_several_lists_counts_once(self, driver: FakeDriver, proc: ProcTree, own: Own) -> None:
        """One that computes and draws (C+G), and a client of MPS (M+C)."""
        uuid = driver.card(0, used=4 * GIB)
        _run(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
        driver.process(uuid, 101, GIB, "graphics")
        _run(driver, proc, uuid, 102, "/system.slice/gputab-b.scope", NOT_AVAILABLE)
        driver.process(uuid, 102, GIB, "mps")

        assert memory_of(own(uuid).read()) == {"alloc:a": GIB, "alloc:b": GIB, UNATTRIBUTED: 2 * GIB}

    def test_containers_of_a_pod_are_its_own_once(self, driver: FakeDriver, proc: ProcTree, own: Own) -> None:
        """A14: each container's processes, then the pod once."""
        uuid = driver.card(0, used=4 * GIB)
        for pid, container in ((101, "a" * 64), (102, "a" * 64), (103, "b" * 64)):
            _run(driver, proc, uuid, pid, f"{POD_SLICE}/cri-containerd-{container}.scope")

        assert memory_of(own(uuid).read()) == {f"pod:{POD}": 3 * GIB, UNATTRIBUTED: GIB}

    def test_a_pod_that_has_asked_for_no_card_uses_it_all_the_same(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A12: by its cgroup, not by what was granted; the join with grants shows that nobody asked for it."""
        uuid = driver.card(0, used=4 * GIB)
        _run(driver, proc, uuid, 101, f"{POD_SLICE}/crio-{CONTAINER}.scope/container")

        assert memory_of(own(uuid).read()) == {f"pod:{POD}": GIB, UNATTRIBUTED: 3 * GIB}

    def test_a_card_without_processes_is_still_told(self, driver: FakeDriver, own: Own) -> None:
        """A11: of four cards one is in use; a free one is read as any other."""
        reading = own(driver.card(0, used=3 * MIB)).read()

        assert memory_of(reading) == {UNATTRIBUTED: 3 * MIB}
        assert compute_of(reading) == {UNATTRIBUTED: 0.0}

    def test_the_server_of_mps_is_nobodys(self, driver: FakeDriver, proc: ProcTree, own: Own) -> None:
        """The operator's, which works for its clients; one that a tenant runs for itself is the tenant's."""
        uuid = driver.card(0, used=4 * GIB)
        _run(driver, proc, uuid, 100, "/system.slice/nvidia-mps.service", 32 * MIB)
        _run(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
        driver.process(uuid, 101, GIB, "mps")

        assert memory_of(own(uuid).read()) == {"alloc:a": GIB, UNATTRIBUTED: 3 * GIB}

    def test_bytes_that_the_driver_does_not_say_are_not_made_up(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A5: 2^64-1 is "not available", neither 17,592,186,044,415 MiB nor 0; the owner has at least the rest."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=60)
        _run(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
        _run(driver, proc, uuid, 102, "/system.slice/gputab-a.scope", NOT_AVAILABLE)
        _run(driver, proc, uuid, 103, "/system.slice/gputab-b.scope", NOT_AVAILABLE)
        _uses(driver, uuid, {101: 20, 102: 10, 103: 30})

        reading = own(uuid).read()

        assert memory_of(reading) == {"alloc:a": GIB, UNATTRIBUTED: 3 * GIB}
        assert compute_of(reading) == {"alloc:a": 0.3, "alloc:b": 0.3, UNATTRIBUTED: 0.0}
        assert reading.owners["alloc:b"].memory_bytes is None, "not told is not 0"
        assert reading.bases[OWNER_MEMORY] == Basis("nvml", "at_least")

    def test_where_no_bytes_are_told_at_all_memory_by_owner_is_missing_and_compute_is_not(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A5: "all of it is nobody's" would say that the tenant uses none."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=60)
        _run(driver, proc, uuid, 101, "/system.slice/gputab-a.scope", NOT_AVAILABLE)
        _run(driver, proc, uuid, 102, "/system.slice/gputab-b.scope", NOT_AVAILABLE)
        card = own(uuid)
        card.read()
        driver.end_process(uuid, 102)
        _uses(driver, uuid, {101: 40, 102: 10})

        reading = card.read()

        assert {use.memory_bytes for use in reading.owners.values()} == {None}
        assert reading.missing == {OWNER_MEMORY: FieldState.UNSUPPORTED}
        assert compute_of(reading) == {"alloc:a": 0.4, "alloc:b": 0.1, UNATTRIBUTED: 0.1}

    def test_where_neither_bytes_nor_compute_are_told_there_are_no_owners(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A5."""
        uuid = driver.card(0, used=4 * GIB)
        driver.deny(uuid, Can.PROCESS_UTILIZATION)
        for pid in (101, 102):
            _run(driver, proc, uuid, pid, f"/system.slice/gputab-{pid}.scope", NOT_AVAILABLE)

        reading = own(uuid).read()

        assert reading.owners == {}
        assert reading.missing == dict.fromkeys((OWNER_MEMORY, OWNER_COMPUTE), FieldState.UNSUPPORTED)

    def test_memory_that_was_freed_after_it_was_listed_is_listed_again(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        uuid = driver.card(0, used=4 * GIB)
        _run(driver, proc, uuid, 101, "/system.slice/gputab-a.scope", 3 * GIB)
        card = own(uuid)
        card.owners.list_processes()
        driver.end_processes(uuid)
        driver.process(uuid, 101, GIB)

        (reading,) = card.owners.split(
            card.device, [DeviceReading(uuid, None, {GPU_UP: 1, GPU_MEMORY_USED: 2 * GIB}, {})]
        )

        assert memory_of(reading) == {"alloc:a": GIB, UNATTRIBUTED: GIB}

    def test_processes_that_claim_more_than_is_used_are_not_believed_and_counted(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        uuid = driver.card(0, used=4 * GIB)
        for pid in (101, 102):
            _run(driver, proc, uuid, pid, f"/system.slice/gputab-{pid}.scope", 3 * GIB)

        checked = refuse_garbage(own(uuid).readings()[0])

        assert checked.refused == (OWNER_MEMORY,)
        assert memory_of(checked.reading) == {UNATTRIBUTED: 4 * GIB}

    @pytest.mark.parametrize(
        ("code", "state"),
        [
            (pynvml.NVML_ERROR_NOT_SUPPORTED, FieldState.UNSUPPORTED),
            (pynvml.NVML_ERROR_UNKNOWN, FieldState.ERROR),
            (pynvml.NVML_ERROR_NO_PERMISSION, FieldState.NO_PERMISSION),
        ],
    )
    def test_where_processes_are_not_told_owners_are_missing_and_no_zeros(
        self, driver: FakeDriver, proc: ProcTree, own: Own, code: int, state: FieldState
    ) -> None:
        uuid = driver.card(0, used=4 * GIB)
        _run(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
        for kind in ("Compute", "Graphics", "MPSCompute"):
            for version in ("v3", "v2"):
                driver.fault(code, f"nvmlDeviceGet{kind}RunningProcesses_{version}")

        reading = own(uuid).read()

        assert reading.owners == {}
        assert reading.missing == {OWNER_MEMORY: state, OWNER_COMPUTE: state}

    def test_a_card_lost_while_its_processes_are_listed_is_lost(self, driver: FakeDriver, own: Own) -> None:
        uuid = driver.card(0, used=GIB)
        card = own(uuid)
        driver.fault(pynvml.NVML_ERROR_GPU_IS_LOST, "nvmlDeviceGetComputeRunningProcesses_v3")

        with pytest.raises(CardLostError):
            card.owners.list_processes()

    def test_owners_follow_processes_from_second_to_second(self, driver: FakeDriver, proc: ProcTree, own: Own) -> None:
        """A9, A6: use ends with the process, and is the next one's as soon as the PID is."""
        uuid = driver.card(0, used=4 * GIB)
        card = own(uuid)
        assert memory_of(card.read()) == {UNATTRIBUTED: 4 * GIB}

        proc.process(101, "/system.slice/gputab-a.scope", started=1)
        driver.process(uuid, 101, GIB)
        assert memory_of(card.read()) == {"alloc:a": GIB, UNATTRIBUTED: 3 * GIB}

        proc.process(101, "/system.slice/gputab-b.scope", started=2)
        assert memory_of(card.read()) == {"alloc:b": GIB, UNATTRIBUTED: 3 * GIB}

        driver.end_processes(uuid)
        assert memory_of(card.read()) == {UNATTRIBUTED: 4 * GIB}


class TestUnavailable:
    """A13: the PIDs that the driver names are not those seen here."""

    def test_pids_of_another_namespace_are_not_looked_up(self, driver: FakeDriver, proc: ProcTree, own: Own) -> None:
        """A13: this 4242 is ours, the driver's is another's; it is said once, and there are no zeros."""
        uuid = driver.card(0, used=4 * GIB)
        _run(driver, proc, uuid, 4242, "/system.slice/gputab-a.scope")
        proc.enter_namespace("pid:[4026532451]")

        with capture_logs() as logs:
            card = own(uuid)
            readings = [card.read() for _ in range(3)]

        state = FieldState.ATTRIBUTION_UNAVAILABLE
        assert [reading.owners for reading in readings] == [{}] * 3
        assert readings[0].missing == {OWNER_MEMORY: state, OWNER_COMPUTE: state}
        assert readings[0].missing is readings[2].missing
        assert [log["event"] for log in logs] == ["owners_unknown"]

    def test_names_of_cgroups_that_begin_elsewhere_are_no_proof(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A13: in a cgroup namespace of its own a collector would find every process to be nobody's."""
        uuid = driver.card(0, used=4 * GIB)
        _run(driver, proc, uuid, 101, "/../../system.slice/gputab-a.scope")
        proc.enter_namespace("cgroup:[4026532452]")

        reading = own(uuid).read()

        assert reading.owners == {}
        assert reading.missing == dict.fromkeys((OWNER_MEMORY, OWNER_COMPUTE), FieldState.ATTRIBUTION_UNAVAILABLE)

    def test_a_proc_that_knows_none_of_the_listed_processes_is_another_machines(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A13: the namespace looks right, and `/proc` shows none of them."""
        uuid = driver.card(0, used=4 * GIB)
        for pid in (101, 102):
            driver.process(uuid, pid, GIB)
        card = own(uuid)

        state = FieldState.ATTRIBUTION_UNAVAILABLE
        assert card.read().missing == {OWNER_MEMORY: state, OWNER_COMPUTE: state}

        proc.process(102, "/system.slice/gputab-a.scope")
        assert memory_of(card.read()) == {"alloc:a": GIB, UNATTRIBUTED: 3 * GIB}
        proc.end(102)
        driver.end_processes(uuid)
        driver.process(uuid, 101, GIB)
        assert memory_of(card.read()) == {UNATTRIBUTED: 4 * GIB}, "one that was seen once shows that all can be"


class TestCompute:
    """Busy ratio by owner."""

    def test_pods_that_share_a_card_have_what_each_computed(self, driver: FakeDriver, proc: ProcTree, own: Own) -> None:
        """A1: three time-sliced pods on a card at 90 %, and only one computes: 90/0/0."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=90)
        for pid in (101, 102, 103):
            _run(driver, proc, uuid, pid, f"/system.slice/gputab-{pid}.scope")
        _uses(driver, uuid, {101: 90})

        reading = own(uuid).read()

        assert compute_of(reading) == {"alloc:101": 0.9, "alloc:102": 0.0, "alloc:103": 0.0, UNATTRIBUTED: 0.0}
        assert reading.bases[OWNER_COMPUTE] == Basis("nvml", "process_samples")

    def test_samples_that_add_up_to_more_than_the_card_was_busy_are_parts_of_it(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A3: 260 % of a card that was all busy; what the driver said is kept for who asks."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=100)
        for pid in (101, 102, 103):
            _run(driver, proc, uuid, pid, f"/system.slice/gputab-{pid}.scope")
        _uses(driver, uuid, {101: 100, 102: 100, 103: 60})
        card = own(uuid)

        assert compute_of(card.read()) == {
            "alloc:101": round(100 / 260, 6),
            "alloc:102": round(100 / 260, 6),
            "alloc:103": round(60 / 260, 6),
            UNATTRIBUTED: 0.0,
        }
        assert [each.sm_percent for each in card.owners.processes()] == [100, 100, 60]

    def test_jobs_on_one_card_sum_to_it(self, driver: FakeDriver, proc: ProcTree, own: Own) -> None:
        """A7: jobs 11 and 12 on GPU 0 are told apart by their processes, not copied."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=80)
        for pid, job in ((101, 11), (102, 12)):
            _run(driver, proc, uuid, pid, f"/system.slice/slurmstepd.scope/job_{job}/step_0/user/task_0")
        _uses(driver, uuid, {101: 60, 102: 20})

        reading = own(uuid).read()

        assert compute_of(reading) == {"slurm:11": 0.6, "slurm:12": 0.2, UNATTRIBUTED: 0.0}
        assert memory_of(reading) == {"slurm:11": GIB, "slurm:12": GIB, UNATTRIBUTED: 2 * GIB}

    def test_a_sample_of_a_process_that_ended_long_ago_is_ignored(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A2: some drivers tell for ever what a PID did that ended 9 s ago, value 100."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=40)
        driver.quirks(process_utilization_stale=1)
        _run(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
        _uses(driver, uuid, {101: 100}, age_us=9 * SECOND_US)
        card = own(uuid)
        assert compute_of(card.read()) == {"alloc:a": 0.0, UNATTRIBUTED: 0.4}, "it is there, and what is told is old"

        _uses(driver, uuid, {101: 30, 102: 100})
        assert compute_of(card.read()) == {"alloc:a": 0.3, UNATTRIBUTED: 0.1}, "of 102 nothing was ever seen"

    def test_a_process_that_ended_in_the_second_keeps_its_owner(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """It is on no list any more, and its sample is of this second."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=50)
        _run(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
        _run(driver, proc, uuid, 102, "/system.slice/gputab-b.scope")
        card = own(uuid)
        card.read()

        driver.end_process(uuid, 101)
        proc.end(101)
        _uses(driver, uuid, {101: 30, 102: 20})
        reading = card.read()

        assert compute_of(reading) == {"alloc:a": 0.3, "alloc:b": 0.2, UNATTRIBUTED: 0.0}
        assert memory_of(reading) == {"alloc:a": 0, "alloc:b": GIB, UNATTRIBUTED: 3 * GIB}

    def test_a_sample_of_a_pid_that_has_changed_hands_is_neithers(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A6: a sample names a PID and no start, so that second's is nobody's; the next is the new one's."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=50)
        proc.process(4242, "/system.slice/gputab-a.scope", started=1)
        driver.process(uuid, 4242, GIB)
        card = own(uuid)
        card.read()

        proc.process(4242, "/system.slice/gputab-b.scope", started=2)
        _uses(driver, uuid, {4242: 50})
        assert compute_of(card.read()) == {"alloc:b": 0.0, UNATTRIBUTED: 0.5}
        _uses(driver, uuid, {4242: 50}, age_us=0)
        assert compute_of(card.read()) == {"alloc:b": 0.5, UNATTRIBUTED: 0.0}

    def test_what_was_sampled_before_a_pid_changed_hands_is_not_the_new_ones(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A6: what the driver said last holds for two seconds, but not of a PID that has become another's."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=50)
        proc.process(4242, "/system.slice/gputab-a.scope", started=1)
        driver.process(uuid, 4242, GIB)
        _uses(driver, uuid, {4242: 50})
        card = own(uuid)
        assert compute_of(card.read()) == {"alloc:a": 0.5, UNATTRIBUTED: 0.0}

        proc.process(4242, "/system.slice/gputab-b.scope", started=2)
        assert [compute_of(card.read()) for _ in range(2)] == [{"alloc:b": 0.0, UNATTRIBUTED: 0.5}] * 2

    def test_a_card_that_samples_no_process_is_its_one_owners(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        uuid = driver.card(0, used=4 * GIB, busy_percent=70)
        driver.deny(uuid, Can.PROCESS_UTILIZATION)
        for pid in (101, 102):
            _run(driver, proc, uuid, pid, "/system.slice/gputab-a.scope")
        card = own(uuid)

        reading = card.read()
        assert compute_of(reading) == {"alloc:a": 0.7, UNATTRIBUTED: 0.0}
        assert reading.bases[OWNER_COMPUTE] == Basis("nvml", "sole_owner")

        _run(driver, proc, uuid, 103, "/system.slice/gputab-b.scope")
        reading = card.read()
        assert reading.missing == {OWNER_COMPUTE: FieldState.UNSUPPORTED}
        assert OWNER_COMPUTE not in reading.bases
        assert {use.compute_ratio for use in reading.owners.values()} == {None}

    def test_a_busy_ratio_that_is_not_told_is_not_split(self, driver: FakeDriver, own: Own) -> None:
        uuid = driver.card(0, used=4 * GIB)
        card = own(uuid)
        card.owners.list_processes()
        said = DeviceReading(
            uuid, None, {GPU_UP: 1, GPU_MEMORY_USED: GIB, GPU_BUSY: None}, {}, missing={GPU_BUSY: FieldState.STALE}
        )

        (reading,) = card.owners.split(card.device, [said])

        assert reading.missing == {GPU_BUSY: FieldState.STALE, OWNER_COMPUTE: FieldState.STALE}
        assert memory_of(reading) == {UNATTRIBUTED: GIB}

    def test_what_is_said_of_it_is_the_same_object_while_nothing_changes(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        uuid = driver.card(0, used=4 * GIB)
        _run(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
        card = own(uuid)
        missing, bases = {GPU_GR_ACTIVE: FieldState.UNSUPPORTED}, {GPU_BUSY: Basis("nvml", "rate")}
        said = DeviceReading(
            uuid, None, {GPU_UP: 1, GPU_MEMORY_USED: 4 * GIB, GPU_BUSY: 0}, {}, missing=missing, bases=bases
        )

        def split() -> DeviceReading:
            card.owners.list_processes()
            (reading,) = card.owners.split(card.device, [said])
            return reading

        first, second = split(), split()
        assert second.bases is first.bases
        assert second.missing is first.missing
        assert first.missing == missing
        assert first.bases.keys() == {GPU_BUSY, OWNER_MEMORY, OWNER_COMPUTE}

    def test_a_lost_card_stays_as_it_is(self, driver: FakeDriver, own: Own) -> None:
        uuid = driver.card(0)
        card = own(uuid)
        lost = DeviceReading(uuid, None, {GPU_UP: 0}, {})

        assert card.owners.split(card.device, [lost]) == [lost]


class TestInstances:
    """Owners of MIG instances; the card's own reading has none."""

    @pytest.fixture
    def card(self, driver: FakeDriver) -> str:
        return driver.card(0, "NVIDIA H100 80GB HBM3", used=10 * GIB, mig_mode=1)

    def test_each_instance_has_its_own_owners(self, driver: FakeDriver, proc: ProcTree, own: Own, card: str) -> None:
        """One PID on two instances is two claims; a process of no known instance is nobody's."""
        first = driver.instance(0, 0, "1g.10gb", gi_id=7, start=0, used=4 * GIB)
        second = driver.instance(0, 1, "1g.10gb", gi_id=8, start=1, used=3 * GIB)
        _run(driver, proc, first, 101, "/system.slice/gputab-a.scope", 2 * GIB)
        driver.process(second, 101, GIB)
        _run(driver, proc, second, 102, "/system.slice/gputab-b.scope")
        driver.process(card, 102, GIB)
        owned = own(card, first, second)
        owned.gr_active = {first: 0.5}

        whole, *instances = owned.readings()

        assert (whole.owners, whole.missing, whole.bases) == ({}, {}, {})
        assert {each.mig_uuid: memory_of(each) for each in instances} == {
            first: {"alloc:a": 2 * GIB, UNATTRIBUTED: 2 * GIB},
            second: {"alloc:a": GIB, "alloc:b": GIB, UNATTRIBUTED: GIB},
        }
        assert compute_of(instances[0], GPU_GR_ACTIVE) == {"alloc:a": 0.5, UNATTRIBUTED: 0.0}
        assert instances[0].bases[OWNER_COMPUTE] == Basis("nvml", "sole_owner")
        assert instances[1].missing == {OWNER_COMPUTE: FieldState.UNSUPPORTED}, "it has no performance metrics"

    def test_two_compute_instances_of_one_gpu_instance_share_it_by_their_sms(
        self, driver: FakeDriver, proc: ProcTree, own: Own, card: str
    ) -> None:
        """M6: 1c.3g and 2c.3g: memory of both is the GPU instance's, and its activity is split by SMs."""
        small = driver.instance(0, 0, "1c.3g.40gb", gi_id=2, start=0, used=8 * GIB, sms=16)
        large = driver.instance(0, 1, "2c.3g.40gb", gi_id=2, start=0, used=8 * GIB, sms=32)
        _run(driver, proc, small, 101, "/system.slice/gputab-a.scope")
        _run(driver, proc, large, 102, "/system.slice/gputab-b.scope")
        owned = own(card, small)
        owned.gr_active = {small: 0.9}

        _, instance = owned.readings()

        assert memory_of(instance) == {"alloc:a": GIB, "alloc:b": GIB, UNATTRIBUTED: 6 * GIB}
        assert compute_of(instance, GPU_GR_ACTIVE) == {"alloc:a": 0.3, "alloc:b": 0.6, UNATTRIBUTED: 0.0}
        assert instance.bases[OWNER_COMPUTE] == Basis("nvml", "sm_share")

        _run(driver, proc, large, 103, "/system.slice/gputab-a.scope")
        driver.end_process(small, 101)
        _, instance = owned.readings()
        assert instance.missing == {OWNER_COMPUTE: FieldState.UNSUPPORTED}, "two owners in one compute instance"

    def test_compute_instances_that_are_made_anew_are_looked_up_anew(
        self, driver: FakeDriver, proc: ProcTree, own: Own, card: str
    ) -> None:
        """M2, M6: their numbers come back, with other SMs."""
        small = driver.instance(0, 0, "1c.3g.40gb", gi_id=2, start=0, used=8 * GIB, sms=16)
        large = driver.instance(0, 1, "2c.3g.40gb", gi_id=2, start=0, used=8 * GIB, sms=32)
        _run(driver, proc, small, 101, "/system.slice/gputab-a.scope")
        _run(driver, proc, large, 102, "/system.slice/gputab-b.scope")
        owned = own(card, small)
        owned.gr_active = {small: 0.9}
        owned.readings()

        driver.set(small, sms=32)
        driver.set(large, sms=16)
        owned.device = replace(owned.device)
        _, instance = owned.readings()

        assert compute_of(instance, GPU_GR_ACTIVE) == {"alloc:a": 0.6, "alloc:b": 0.3, UNATTRIBUTED: 0.0}

    def test_a_failure_to_tell_compute_instances_costs_compute_only(
        self, driver: FakeDriver, proc: ProcTree, own: Own, card: str
    ) -> None:
        small = driver.instance(0, 0, "1c.3g.40gb", gi_id=2, start=0, used=8 * GIB, sms=16)
        large = driver.instance(0, 1, "2c.3g.40gb", gi_id=2, start=0, used=8 * GIB, sms=32)
        _run(driver, proc, small, 101, "/system.slice/gputab-a.scope")
        _run(driver, proc, large, 102, "/system.slice/gputab-b.scope")
        owned = own(card, small)
        owned.gr_active = {small: 0.9}
        driver.fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetComputeInstanceId")

        _, instance = owned.readings()

        assert instance.missing == {OWNER_COMPUTE: FieldState.ERROR}
        assert memory_of(instance) == {"alloc:a": GIB, "alloc:b": GIB, UNATTRIBUTED: 6 * GIB}
