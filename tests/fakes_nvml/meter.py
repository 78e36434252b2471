"""A meter of cards whose work is known."""

import pynvml

from tests.fakes.nvml.driver import FakeDriver
from tests.fakes.nvml.truth import SECOND_US

# When the work begins, and the period in which processes take turns.
START_S = 1_700_000_000
START_US = START_S * SECOND_US
PERIOD_US = 50_000


class Meter:
    """Reads a card, or a GPU instance of it, at whole seconds of the driver's clock."""

    def __init__(self, driver: FakeDriver, uuid: str, gi_id: int | None = None) -> None:
        self._driver, self._gi_id = driver, gi_id
        self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        self._samples = [pynvml.nvmlGpmSampleAlloc() for _ in range(2)]

    def close(self) -> None:
        for sample in self._samples:
            pynvml.nvmlGpmSampleFree(sample)

    def second(self, second_s: int) -> tuple[float, float, int]:
        """Busy and SM active in percent, and millijoules, of [second_s, second_s + 1)."""
        energies = []
        for sample, at_s in zip(self._samples, (second_s, second_s + 1), strict=True):
            self._driver.set_clock(at_s * SECOND_US)
            if self._gi_id is None:
                pynvml.nvmlGpmSampleGet(self._handle, sample)
            else:
                pynvml.nvmlGpmMigSampleGet(self._handle, self._gi_id, sample)
            energies.append(pynvml.nvmlDeviceGetTotalEnergyConsumption(self._handle))
        get = pynvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=2, sample1=self._samples[0], sample2=self._samples[1])
        get.metrics[0].metricId, get.metrics[1].metricId = 1, 2
        pynvml.nvmlGpmMetricsGet(get)
        return get.metrics[0].value, get.metrics[1].value, energies[1] - energies[0]

    def memory(self) -> dict[int, int]:
        return {each.pid: each.usedGpuMemory for each in pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle)}
