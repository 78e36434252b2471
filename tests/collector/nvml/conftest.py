"""The values of cards of the fake driver."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.owners.processes import ProcessTable
from collector.owners.records import OwnerRecords
from tests.collector.nvml.owned_card import Own, OwnedCard
from tests.collector.nvml.value_rig import ValueRig
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.processes import ProcTree


@pytest.fixture
def values(driver: FakeDriver) -> Iterator[ValueRig]:
    rig = ValueRig(driver)
    yield rig
    rig.close()


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
