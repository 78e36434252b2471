"""A collector that runs for weeks holds no more than one that runs for an hour, whatever comes and goes on its cards.

Counted are blocks of the interpreter's memory, not bytes of the process, and seconds that pass when told to: so it is
the same on a busy machine.
"""

import gc
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from collector.nvml.source import NvmlSource
from collector.owners.processes import ProcessTable
from collector.owners.records import OwnerRecords
from domain.inventory import Device, MigInstance
from domain.samples import UNATTRIBUTED, Basis, DeviceReading, FieldState, OwnerUse
from domain.series import GPU_BUSY, GPU_MEMORY_USED, GPU_UP, GPU_XID_EVENTS
from domain.units import GIB, MIB
from tests.collector.nvml.owned_card import OwnedCard
from tests.collector.rig import DEVICES, MakeRig, Rig
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.processes import ProcTree

# Enough to fill whatever is bounded (1,024 of its kind), and as many again to see that it was.
SECONDS = 1_200
# What is bounded is let go of all at once, so that it is the peaks that stay. Between two looks one may pass unseen.
LOOK_SECONDS = 10


def _grown(live: Callable[[int], object]) -> int:
    """By how many blocks more are held at most in the second half of two times `SECONDS` than in the first."""
    gc.collect()
    gc.freeze()
    try:
        peaks = [
            max(_blocks_after(live, half * SECONDS + look) for look in range(0, SECONDS, LOOK_SECONDS))
            for half in range(2)
        ]
    finally:
        gc.unfreeze()
    return peaks[1] - peaks[0]


def _blocks_after(live: Callable[[int], object], first: int) -> int:
    for number in range(first, first + LOOK_SECONDS):
        live(number)
    gc.collect()
    return sys.getallocatedblocks()


def _second_of(gpu_uuid: str, second_s: int) -> list[DeviceReading]:
    """One in which all that can be another is: the instance, its owner, reasons, garbage, and who does not answer."""
    if gpu_uuid == "GPU-2" and second_s % 3 == 0:
        raise OSError("no answer")
    owners = {f"alloc:{second_s}": OwnerUse(MIB, 0.25), UNATTRIBUTED: OwnerUse(4 * MIB, 0.25)}
    values = {GPU_UP: 1, GPU_MEMORY_USED: 5 * MIB, GPU_BUSY: 0.5 if second_s % 5 else 5_000}
    missing = {} if second_s % 7 else {GPU_BUSY: FieldState.ERROR}
    bases = {GPU_BUSY: Basis("nvml", "rate" if second_s % 2 else "samples")}
    card = DeviceReading(gpu_uuid, None, values, {}, {GPU_XID_EVENTS: {"31": second_s}}, missing, bases)
    instance = DeviceReading(gpu_uuid, f"MIG-{gpu_uuid}-{second_s}", values, owners, {}, missing, bases)
    return [card, instance]


def _live_a_second(rig: Rig, number: int) -> None:
    instance = MigInstance(f"MIG-{number}", 1, "1g.10gb", 0, 1, 16, GIB)
    rig.source.devices = (Device("GPU-0", 0, "card", 2**35, 0, True, 132, instances=(instance,)), *DEVICES[1:])
    rig.clock.advance_us(1_000_000)
    rig.loop.sample(rig.clock.now_us() // 1_000_000)
    waiting = [batch.second_s for batch in rig.queue.pending(2**30)]
    rig.queue.delivered(waiting, rig.clock.now_us())


def test_what_comes_and_goes_in_the_loop_is_forgotten(make_rig: MakeRig) -> None:
    """O1: instances, owners, reasons and bases that are other ones in every second, garbage, a card that is mute."""
    rig = make_rig(_second_of)

    assert _grown(lambda number: _live_a_second(rig, number)) < SECONDS


@pytest.mark.parametrize("is_believed", [True, False])
def test_what_comes_and_goes_on_a_card_is_forgotten(
    driver: FakeDriver, proc: ProcTree, tmp_path: Path, *, is_believed: bool
) -> None:
    """O1: in each second another process in another container, whose record is believed, or is not and said so."""
    folder = tmp_path / "owners"
    folder.mkdir(mode=0o755)
    uuid = driver.card(0, used=4 * GIB, busy_percent=50)
    card = OwnedCard(driver, uuid, ProcessTable(proc.root, OwnerRecords(folder)))

    def live_a_second(number: int) -> None:
        pid, container = 1_000 + number, f"{number:064x}"
        record = folder / container
        record.write_text("alloc:a\n")
        record.chmod(0o644 if is_believed else 0o666)
        proc.process(pid, f"/system.slice/docker-{container}.scope")
        driver.process(uuid, pid, GIB)
        driver.uses(uuid, [{"pid": pid, "at_us": driver.now_us(), "sm": 50}])
        assert set(card.read().owners) == ({"alloc:a", UNATTRIBUTED} if is_believed else {UNATTRIBUTED})
        driver.end_process(uuid, pid)
        proc.end(pid)
        record.unlink()

    grown = _grown(live_a_second)
    card.close()
    assert grown < SECONDS


def test_instances_that_are_made_and_destroyed_are_forgotten(
    driver: FakeDriver, open_source: Callable[[], NvmlSource]
) -> None:
    """O1: nothing is kept of an instance that is gone, here or in the driver."""
    card = driver.card(0, "NVIDIA H100 80GB HBM3", mig_mode=1)
    source = open_source()
    held: set[int] = set()

    def live_a_second(number: int) -> None:
        uuid = driver.create_instance(card, ("1g.10gb", "2g.20gb", "3g.40gb")[number % 3])
        source.inventory()
        assert [each.mig_uuid for each in source.read(card, number)] == [None, uuid]
        held.add(driver.opened().gpm_samples)
        driver.destroy_instance(uuid)

    grown = _grown(live_a_second)
    assert max(held) <= 4, "two for the card, two for its instance"
    assert grown < SECONDS
