"""The compute of real cards by owner, in the second of a reading."""

from collections.abc import Callable

from collector.nvml.source import NvmlSource
from domain.samples import UNATTRIBUTED, Basis, DeviceReading, FieldState
from domain.series import (
    COLLECTOR_REFUSED_PROCESS_SAMPLES,
    COLLECTOR_UNPROVED_PROCESSES,
    GPU_BUSY,
    GPU_GR_ACTIVE,
    GPU_MEMORY_USED,
    GPU_UP,
    OWNER_COMPUTE,
    OWNER_MEMORY,
)
from domain.units import GIB
from tests.collector.nvml.owned_card import Own, compute_of, memory_of, run_process, told_uses
from tests.fakes.nvml.driver import Can, FakeDriver
from tests.fakes.nvml.processes import ProcTree

SECOND_US = 1_000_000


class TestCompute:
    """Busy ratio by owner."""

    def test_pods_that_share_a_card_have_what_each_computed(self, driver: FakeDriver, proc: ProcTree, own: Own) -> None:
        """A1: three time-sliced pods on a card at 90 %, and only one computes: 90/0/0."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=90)
        for pid in (101, 102, 103):
            run_process(driver, proc, uuid, pid, f"/system.slice/gputab-{pid}.scope")
        told_uses(driver, uuid, {101: 90})

        reading = own(uuid).read()

        assert compute_of(reading) == {"alloc:101": 0.9, "alloc:102": 0.0, "alloc:103": 0.0, UNATTRIBUTED: 0.0}
        assert reading.bases[OWNER_COMPUTE] == Basis("nvml", "process_samples")

    def test_samples_that_add_up_to_more_than_the_card_was_busy_are_parts_of_it(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A3: 260 % of a card that was all busy; what the driver said is kept for who asks."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=100)
        for pid in (101, 102, 103):
            run_process(driver, proc, uuid, pid, f"/system.slice/gputab-{pid}.scope")
        told_uses(driver, uuid, {101: 100, 102: 100, 103: 60})
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
            run_process(driver, proc, uuid, pid, f"/system.slice/slurmstepd.scope/job_{job}/step_0/user/task_0")
        told_uses(driver, uuid, {101: 60, 102: 20})

        reading = own(uuid).read()

        assert compute_of(reading) == {"slurm:11": 0.6, "slurm:12": 0.2, UNATTRIBUTED: 0.0}
        assert memory_of(reading) == {"slurm:11": GIB, "slurm:12": GIB, UNATTRIBUTED: 2 * GIB}

    def test_a_sample_of_a_process_that_ended_long_ago_is_ignored(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A2: some drivers tell for ever what a PID did that ended 9 s ago, value 100."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=40)
        driver.quirks(process_utilization_stale=1)
        run_process(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
        told_uses(driver, uuid, {101: 100}, age_us=9 * SECOND_US)
        card = own(uuid)
        assert compute_of(card.read()) == {"alloc:a": 0.0, UNATTRIBUTED: 0.4}, "it is there, and what is told is old"

        told_uses(driver, uuid, {101: 30, 102: 100})
        assert compute_of(card.read()) == {"alloc:a": 0.3, UNATTRIBUTED: 0.1}, "of 102 nothing was ever seen"

    def test_a_process_that_ended_in_the_second_keeps_its_owner(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """It is on no list any more, and its sample is of this second."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=50)
        run_process(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
        run_process(driver, proc, uuid, 102, "/system.slice/gputab-b.scope")
        card = own(uuid)
        card.read()

        driver.end_process(uuid, 101)
        proc.end(101)
        told_uses(driver, uuid, {101: 30, 102: 20})
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
        told_uses(driver, uuid, {4242: 50})
        assert compute_of(card.read()) == {"alloc:b": 0.0, UNATTRIBUTED: 0.5}
        told_uses(driver, uuid, {4242: 50}, age_us=0)
        assert compute_of(card.read()) == {"alloc:b": 0.5, UNATTRIBUTED: 0.0}

    def test_what_was_sampled_before_a_pid_changed_hands_is_not_the_new_ones(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A6: what the driver said last holds for two seconds, but not of a PID that has become another's."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=50)
        proc.process(4242, "/system.slice/gputab-a.scope", started=1)
        driver.process(uuid, 4242, GIB)
        told_uses(driver, uuid, {4242: 50})
        card = own(uuid)
        assert compute_of(card.read()) == {"alloc:a": 0.5, UNATTRIBUTED: 0.0}

        proc.process(4242, "/system.slice/gputab-b.scope", started=2)
        assert [compute_of(card.read()) for _ in range(2)] == [{"alloc:b": 0.0, UNATTRIBUTED: 0.5}] * 2

    def test_a_card_that_samples_no_process_is_its_one_owners_or_nobodys(
        self, driver: FakeDriver, proc: ProcTree, own: Own
    ) -> None:
        """A1: where pods take turns and nothing tells them apart, none has a ratio, which is not 0."""
        uuid = driver.card(0, used=4 * GIB, busy_percent=70)
        driver.deny(uuid, Can.PROCESS_UTILIZATION)
        for pid in (101, 102):
            run_process(driver, proc, uuid, pid, "/system.slice/gputab-a.scope")
        card = own(uuid)

        reading = card.read()
        assert compute_of(reading) == {"alloc:a": 0.7, UNATTRIBUTED: 0.0}
        assert reading.bases[OWNER_COMPUTE] == Basis("nvml", "sole_owner")

        run_process(driver, proc, uuid, 103, "/system.slice/gputab-b.scope")
        reading = card.read()
        assert reading.missing == {}
        assert reading.bases[OWNER_COMPUTE] == Basis("nvml", "shared")
        ratios = {owner: use.compute_ratio for owner, use in reading.owners.items()}
        assert ratios == {"alloc:a": None, "alloc:b": None, UNATTRIBUTED: 0.7}

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
        run_process(driver, proc, uuid, 101, "/system.slice/gputab-a.scope")
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


def test_samples_of_processes_that_none_can_have_are_counted_for_all_to_see(
    driver: FakeDriver, proc: ProcTree, open_source: Callable[[], NvmlSource]
) -> None:
    """R1, A3: and whose processes there are none proved of is, too."""
    uuid = driver.card(0, used=2 * GIB, busy_percent=50)
    run_process(driver, proc, uuid, 7, "/user.slice")
    source = open_source()
    driver.uses(uuid, [{"pid": 7, "at_us": driver.now_us(), "sm": 101}])

    source.read(uuid, 0)

    told = {value.series: (value.value, value.labels.get("gpu_uuid")) for value in source.values()}
    assert told[COLLECTOR_REFUSED_PROCESS_SAMPLES] == (1, uuid)
    assert told[COLLECTOR_UNPROVED_PROCESSES] == (1, None)
