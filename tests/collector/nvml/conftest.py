"""The values of cards of the fake driver."""

from collections.abc import Iterator

import pytest

from tests.collector.nvml.value_rig import ValueRig
from tests.fakes.nvml.driver import FakeDriver


@pytest.fixture
def values(driver: FakeDriver) -> Iterator[ValueRig]:
    rig = ValueRig(driver)
    yield rig
    rig.close()
