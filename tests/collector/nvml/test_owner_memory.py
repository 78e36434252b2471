"""The memory of real cards by owner: what the driver's lists and the cgroups behind them prove."""

from pathlib import Path

import pynvml
import pytest
from structlog.testing import capture_logs

from collector.nvml.card_owners import OwnedProcess
from collector.nvml.driver import CardLostError
from collector.ranges import refuse_garbage
from domain.samples import UNATTRIBUTED, Basis, DeviceReading, FieldState, OwnerUse
from domain.series import GPU_MEMORY_USED, GPU_UP, OWNER_COMPUTE, OWNER_MEMORY
from domain.units import GIB, MIB
from tests.collector.nvml.owned_card import Own, compute_of, memory_of, run_process, told_uses
from tests.fakes.nvml.driver import Can, FakeDriver
from tests.fakes.nvml.processes import ProcTree

NOT_AVAILABLE = 2**64 - 1
CONTAINER = "0123456789abcdef" * 4
POD = "2fc932ce-fdcc-454b-97bd-aadfdeb4c340"
POD_SLICE = f"/kubepods.slice/kubepods-pod{POD.replace('-', '_')}.slice"


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
        run_process(driver, proc, uuid, 101, "/system.slice/gputab-al_1.scope", 2 * GIB)
        run_process(driver, proc, uuid, 102, "/system.slice/gputab-al_1.scope", 1 * GIB)
        run_process(driver, proc, uuid, 103, "/system.slice/slurmstepd.scope/job_17/step_0/user/task_0", 3 * GIB)
        run_process(driver, proc, uuid, 104, f"/system.slice/docker-{CONTAINER}.scope", 512 * MIB)
        run_process(driver, proc, uuid, 105, f"/system.slice/docker-{'0' * 64}.scope", 512 * MIB)
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
        run_process(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
        driver.process(uuid, 101, GIB, "graphics")
        run_process(driver, proc, uuid, 102, "/system.slice/gputab-b.scope", NOT_AVAILABLE)
        driver.process(uuid, 102, GIB, "mps")

        assert memory_of(own(uuid).read()) == {"alloc:a": GIB, "alloc:b": GIB, UNATTRIBUTED: 2 * GIB}

    def test_containers_of_a_pod_are_its_own_once(self, driver: FakeDriver, proc: ProcTree, own: Own) -> None:
        """A14: each container's processes, then the pod once."""
        uuid = driver.card(0, used=4 * GIB)
        for pid, container in ((101, "a" * 64), (102, "a" * 64), (103, "b" * 64)):
            run_process(driver, proc, uuid, pid, f"{POD_SLICE}/cri-containerd-{container}.scope")

        assert memory_of(own(uuid).read()) == {f"pod:{POD}": 3 * GIB, UNATTRIBUTED: GIB}

    def test_a_pod_that_has_asked_for_no_card_uses_it_all_the_same(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A12: by its cgroup, not by what was granted; the join with grants shows that nobody asked for it."""
        uuid = driver.card(0, used=4 * GIB)
        run_process(driver, proc, uuid, 101, f"{POD_SLICE}/crio-{CONTAINER}.scope/container")

        assert memory_of(own(uuid).read()) == {f"pod:{POD}": GIB, UNATTRIBUTED: 3 * GIB}

    def test_a_card_without_processes_is_still_told(self, driver: FakeDriver, own: Own) -> None:
        """A11: of four cards one is in use; a free one is read as any other."""
        reading = own(driver.card(0, used=3 * MIB)).read()

        assert memory_of(reading) == {UNATTRIBUTED: 3 * MIB}
        assert compute_of(reading) == {UNATTRIBUTED: 0.0}

    def test_the_server_of_mps_is_nobodys(self, driver: FakeDriver, proc: ProcTree, own: Own) -> None:
        """The operator's, which works for its clients; one that a tenant runs for itself is the tenant's."""
        uuid = driver.card(0, used=4 * GIB)
        run_process(driver, proc, uuid, 100, "/system.slice/nvidia-mps.service", 32 * MIB)
        run_process(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
        driver.process(uuid, 101, GIB, "mps")

        assert memory_of(own(uuid).read()) == {"alloc:a": GIB, UNATTRIBUTED: 3 * GIB}

    def test_bytes_that_the_driver_does_not_say_are_not_made_up(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A5: 2^64-1 is "not available", neither 17,592,186,044,415 MiB nor 0; the owner has at least the rest."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=60)
        run_process(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
        run_process(driver, proc, uuid, 102, "/system.slice/gputab-a.scope", NOT_AVAILABLE)
        run_process(driver, proc, uuid, 103, "/system.slice/gputab-b.scope", NOT_AVAILABLE)
        told_uses(driver, uuid, {101: 20, 102: 10, 103: 30})

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
        run_process(driver, proc, uuid, 101, "/system.slice/gputab-a.scope", NOT_AVAILABLE)
        run_process(driver, proc, uuid, 102, "/system.slice/gputab-b.scope", NOT_AVAILABLE)
        card = own(uuid)
        card.read()
        driver.end_process(uuid, 102)
        told_uses(driver, uuid, {101: 40, 102: 10})

        reading = card.read()

        assert {use.memory_bytes for use in reading.owners.values()} == {None}
        assert reading.missing == {OWNER_MEMORY: FieldState.UNSUPPORTED}
        assert compute_of(reading) == {"alloc:a": 0.4, "alloc:b": 0.1, UNATTRIBUTED: 0.1}

    def test_where_nothing_is_told_of_any_owner_only_compute_is_told_as_nobodys(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A5: several share the card, and the driver says neither whose bytes it has nor who computed."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=50)
        driver.deny(uuid, Can.PROCESS_UTILIZATION)
        for pid in (101, 102):
            run_process(driver, proc, uuid, pid, f"/system.slice/gputab-{pid}.scope", NOT_AVAILABLE)

        reading = own(uuid).read()

        assert reading.owners == {UNATTRIBUTED: OwnerUse(None, 0.5)}
        assert reading.missing == {OWNER_MEMORY: FieldState.UNSUPPORTED}

    def test_memory_that_was_freed_after_it_was_listed_is_listed_again(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        uuid = driver.card(0, used=4 * GIB)
        run_process(driver, proc, uuid, 101, "/system.slice/gputab-a.scope", 3 * GIB)
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
            run_process(driver, proc, uuid, pid, f"/system.slice/gputab-{pid}.scope", 3 * GIB)

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
        run_process(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
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
        run_process(driver, proc, uuid, 4242, "/system.slice/gputab-a.scope")
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
        run_process(driver, proc, uuid, 101, "/../../system.slice/gputab-a.scope")
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
