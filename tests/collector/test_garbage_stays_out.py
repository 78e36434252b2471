"""What no card can say, from a driver that says it to a store: it is not there, and what is beside it is right."""

import os
import signal
import struct

import polars as pl
import pytest

from domain.samples import UNATTRIBUTED
from domain.series import (
    COLLECTOR_GARBAGE,
    GPU_BUSY,
    GPU_ENCODER_BUSY,
    GPU_ENERGY,
    GPU_FIELD_STATE,
    GPU_GR_ACTIVE,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TEMPERATURE,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_POWER_INSTANT,
    GPU_SM_ACTIVE,
    GPU_SM_CLOCK,
    GPU_TEMPERATURE,
    GPU_UP,
    OWNER_MEMORY,
    Series,
)
from domain.units import GIB, MIB
from tests.collector.collecting import Start
from tests.collector.patience import PATIENCE_S, now_s, wait_until
from tests.collector.sent import stored_samples
from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.state import NONE

H100 = "NVIDIA H100 80GB HBM3"
# What every card says, in the driver's units, and what of it is in the store.
SAYS = {
    "used": 40 * GIB + 7,
    "busy_percent": 87,
    "memory_percent": 31,
    "encoder_percent": 5,
    "milliwatts": 312_451,
    "milliwatts_instant": 333_003,
    "millijoules": 952_494_007,
    "celsius": 61,
    "memory_celsius": 77,
    "sm_megahertz": 1_985,
    "memory_megahertz": 2_619,
}
TRUE = {
    GPU_MEMORY_TOTAL: 81_559 * MIB,
    GPU_MEMORY_RESERVED: 479 * MIB,
    GPU_MEMORY_USED: 40 * GIB + 7,
    GPU_BUSY: 0.87,
    GPU_MEMORY_BUSY: 0.31,
    GPU_ENCODER_BUSY: 0.05,
    GPU_POWER: 312.451,
    GPU_POWER_INSTANT: 333.003,
    GPU_ENERGY: 952_494.007,
    GPU_TEMPERATURE: 61,
    GPU_MEMORY_TEMPERATURE: 77,
    GPU_SM_CLOCK: 1_985_000_000,
    GPU_MEMORY_CLOCK: 2_619_000_000,
}
_NONE_64, _NONE_32 = 2**64 - 1, 2**32 - 1


def _double(value: float) -> int:
    """The bits of it."""
    (bits,) = struct.unpack("<Q", struct.pack("<d", value))
    return int(bits)


# Call, the number of the field or metric in it, 64 bits that are told in place of it, and what is refused for them.
GARBAGE: list[tuple[str, int, int, tuple[Series, ...]]] = [
    ("nvmlDeviceGetMemoryInfo_v2", NONE, _NONE_64, (GPU_MEMORY_TOTAL, GPU_MEMORY_RESERVED, GPU_MEMORY_USED)),
    ("nvmlDeviceGetUtilizationRates", NONE, 808_334_905 * (2**32 + 1), (GPU_BUSY, GPU_MEMORY_BUSY)),
    ("nvmlDeviceGetEncoderUtilization", NONE, _NONE_32, (GPU_ENCODER_BUSY,)),
    ("nvmlDeviceGetTotalEnergyConsumption", NONE, _NONE_64, (GPU_ENERGY,)),
    ("nvmlDeviceGetFieldValues", 185, 5_000_001, (GPU_POWER,)),
    ("nvmlDeviceGetFieldValues", 82, 255, (GPU_MEMORY_TEMPERATURE,)),
    ("nvmlDeviceGetTemperature", NONE, _NONE_32, (GPU_TEMPERATURE,)),
    ("nvmlDeviceGetClockInfo", NONE, _NONE_32, (GPU_SM_CLOCK, GPU_MEMORY_CLOCK)),
    ("nvmlGpmMetricsGet", 2, _double(2.0**64), (GPU_SM_ACTIVE,)),
]
# What says of itself that it is no number is missing and not counted.
NO_NUMBERS = [
    ("nvmlDeviceGetFieldValues", 186, _NONE_32, GPU_POWER_INSTANT),
    ("nvmlGpmMetricsGet", 1, _double(float("nan")), GPU_GR_ACTIVE),
]
REFUSED = [series for *_, refused in GARBAGE for series in refused]


class Stored:
    """What the store has of a node."""

    def __init__(self, url: str, node: str) -> None:
        self._url, self._node, self._began_s = url, node, now_s()

    def frame(self, *series: Series) -> pl.DataFrame:
        return stored_samples(self._url, series, {"node": self._node}, self._began_s, now_s() + 2)

    def of_card(self, series: Series, gpu_uuid: str) -> dict[int, float]:
        """Second -> value."""
        frame = self.frame(series)
        return dict(frame.filter(pl.col("gpu_uuid") == gpu_uuid).select("second_s", "value").rows())

    def refused(self) -> dict[str, float]:
        """Field -> how often it was refused until now."""
        frame = self.frame(COLLECTOR_GARBAGE)
        return dict(frame.sort("second_s").select("field", "value").rows()) if frame.height else {}

    def states(self, series: Series, gpu_uuid: str, state: str) -> dict[int, float]:
        """Second -> whether it was said then that the series is missing for that reason."""
        is_it = (pl.col("gpu_uuid") == gpu_uuid) & (pl.col("field") == series.name) & (pl.col("state") == state)
        return dict(self.frame(GPU_FIELD_STATE).filter(is_it).select("second_s", "value").rows())


@pytest.fixture
def stored(victoriametrics_url: str, unique_node: str) -> Stored:
    return Stored(victoriametrics_url, unique_node)


def test_what_no_card_can_say_never_is_in_the_store_and_its_neighbours_are_right_to_the_digit(
    driver: FakeDriver, start: Start, stored: Stored, unique_node: str
) -> None:
    """R1: a card that tells sentinels and nonsense for some seconds, one that does not, and one with such a process."""
    sick, well, claimed = cards = [driver.card(index, H100) for index in range(3)]
    for uuid in cards:
        driver.set(uuid, **SAYS)
        driver.process(uuid, os.getpid(), 30 * GIB)
    process = start("--node", unique_node, env=driver.env())
    wait_until(lambda: len(stored.of_card(GPU_GR_ACTIVE, sick)) >= 2)

    for call, entry, bits, _ in [*GARBAGE, *NO_NUMBERS]:
        driver.fault(0, call, sick, entry=entry, garbage=bits)
    driver.fault(0, "nvmlDeviceGetComputeRunningProcesses_v3", claimed, garbage=2**62)
    wait_until(lambda: min(stored.refused().get(series.name, 0) for series in [*REFUSED, OWNER_MEMORY]) >= 3)
    driver.fault(0)
    cleared_s = now_s()
    wait_until(lambda: max(stored.of_card(GPU_GR_ACTIVE, sick)) > cleared_s + 1)
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE_S) == 0

    ready_s = min(stored.of_card(GPU_GR_ACTIVE, sick))
    asked = {second_s for second_s in stored.of_card(GPU_UP, sick) if second_s >= ready_s}
    refused = stored.refused()
    for series, value in TRUE.items():
        assert set(stored.of_card(series, sick).values()) == {value}
        for card in (well, claimed):
            assert stored.of_card(series, card) == dict.fromkeys(stored.of_card(GPU_UP, card), value)
    for series in REFUSED:
        silent = asked - stored.of_card(series, sick).keys()
        assert refused.pop(series.name) == len(silent) >= 3
        said = stored.states(series, sick, "garbage")
        assert said.pop(min(second_s for second_s in asked if second_s > max(silent))) == 0
        # And again in each minute.
        assert (min(said), set(said.values())) == (min(silent), {1})
    for *_, series in NO_NUMBERS:
        assert len(asked - stored.of_card(series, sick).keys()) >= 3
        assert not stored.states(series, sick, "garbage")
    assert refused.pop(OWNER_MEMORY.name) >= 3
    assert refused == {}
    owners = stored.frame(OWNER_MEMORY)
    assert set(owners.select("owner", "value").rows()) == {(UNATTRIBUTED, SAYS["used"])}
    assert set(owners.filter(pl.col("gpu_uuid") == claimed)["second_s"]) == stored.of_card(GPU_UP, claimed).keys()
