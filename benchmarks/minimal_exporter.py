"""What most people run today, as small as it can be: NVML read in each scrape, by prometheus-client.

`python -m benchmarks.minimal_exporter PORT`: per card 12 gauges, and per process its memory.
"""

import sys
import threading
from collections.abc import Iterator

import pynvml
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

_VALUES = {
    "busy_percent": lambda card: pynvml.nvmlDeviceGetUtilizationRates(card).gpu,
    "memory_busy_percent": lambda card: pynvml.nvmlDeviceGetUtilizationRates(card).memory,
    "memory_used_bytes": lambda card: pynvml.nvmlDeviceGetMemoryInfo(card).used,
    "memory_total_bytes": lambda card: pynvml.nvmlDeviceGetMemoryInfo(card).total,
    "power_milliwatts": pynvml.nvmlDeviceGetPowerUsage,
    "energy_millijoules": pynvml.nvmlDeviceGetTotalEnergyConsumption,
    "temperature_celsius": lambda card: pynvml.nvmlDeviceGetTemperature(card, pynvml.NVML_TEMPERATURE_GPU),
    "sm_clock_megahertz": lambda card: pynvml.nvmlDeviceGetClockInfo(card, pynvml.NVML_CLOCK_SM),
    "memory_clock_megahertz": lambda card: pynvml.nvmlDeviceGetClockInfo(card, pynvml.NVML_CLOCK_MEM),
    "encoder_percent": lambda card: pynvml.nvmlDeviceGetEncoderUtilization(card)[0],
    "decoder_percent": lambda card: pynvml.nvmlDeviceGetDecoderUtilization(card)[0],
    "clock_event_reasons": pynvml.nvmlDeviceGetCurrentClocksEventReasons,
}
UP = "exporter_memory_used_bytes"


class Cards(Collector):
    """Every card of the machine, read when somebody scrapes."""

    def __init__(self) -> None:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        self._cards = {pynvml.nvmlDeviceGetUUID(handle): handle for handle in handles}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The families of one scrape."""
        for name, read in _VALUES.items():
            family = GaugeMetricFamily(f"exporter_{name}", name, labels=["gpu_uuid"])
            for uuid, handle in self._cards.items():
                family.add_metric([uuid], read(handle))
            yield family
        family = GaugeMetricFamily("exporter_process_memory_bytes", "by process", labels=["gpu_uuid", "pid"])
        for uuid, handle in self._cards.items():
            for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle):
                family.add_metric([uuid, str(process.pid)], process.usedGpuMemory or 0)
        yield family

    def describe(self) -> Iterator[GaugeMetricFamily]:
        """Nothing beforehand."""
        yield from ()


if __name__ == "__main__":
    registry = CollectorRegistry()
    registry.register(Cards())
    start_http_server(int(sys.argv[1]), "127.0.0.1", registry)
    threading.Event().wait()
