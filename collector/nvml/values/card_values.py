"""What one card, or one MIG instance, says of itself in a second, in base units and with what its numbers mean.

Memory is asked for by its second version, whose `used` is without what the driver reserves (the first version's is
not: 912 MB on an idle A100).
"""

from collections.abc import Sequence
from typing import Any

from collector.compute_basis import (
    CARD_CANDIDATES,
    INSTANCE_CANDIDATES,
    ComputeBasis,
    StuckProfiling,
    tell_from_instances,
)
from collector.nvml.driver import MEMORY_VERSION_2, Driver
from collector.nvml.probe import Probe
from collector.nvml.values import clock_events, fields, gpm, health, pcie, power
from collector.nvml.values.clock_events import ClockEvents
from collector.nvml.values.counters import CardCounters
from collector.nvml.values.fields import FieldValues
from collector.nvml.values.gpm import Gpm, Metrics
from collector.nvml.values.health import Health
from collector.nvml.values.nvlink import NvLinks
from collector.nvml.values.pcie import Pcie
from collector.nvml.values.power import Power
from collector.nvml.values.utilisation import Utilisation
from collector.nvml.values.vgpu import Vgpus
from collector.telling import Said, Telling
from domain.clock import Clock
from domain.inventory import MigInstance
from domain.samples import FieldState
from domain.series import (
    GPU_BUSY,
    GPU_DECODER_BUSY,
    GPU_ENCODER_BUSY,
    GPU_JPEG_BUSY,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TEMPERATURE,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_OFA_BUSY,
    GPU_SM_ACTIVE_CYCLES,
    GPU_SM_CLOCK,
    GPU_SM_ELAPSED_CYCLES,
    GPU_TEMPERATURE,
)

_MEGAHERTZ = 1_000_000
_CLOCKS = {GPU_SM_CLOCK: 1, GPU_MEMORY_CLOCK: 2}
_SENSOR_CORE = 0
_ENGINES = {
    GPU_ENCODER_BUSY: "DeviceGetEncoderUtilization",
    GPU_DECODER_BUSY: "DeviceGetDecoderUtilization",
    GPU_JPEG_BUSY: "DeviceGetJpgUtilization",
    GPU_OFA_BUSY: "DeviceGetOfaUtilization",
}
_CYCLES = {GPU_SM_ELAPSED_CYCLES: gpm.SM_ELAPSED_CYCLES, GPU_SM_ACTIVE_CYCLES: gpm.SM_ACTIVE_CYCLES}
_FIELDS = (fields.MEMORY_TEMPERATURE, *power.FIELDS, *clock_events.FIELDS, *pcie.FIELDS)


class CardValues:
    """One card, asked once a second from one thread. Made anew where its handle, MIG mode or layout changes.

    `counters` outlives it: one `CardCounters()` per card UUID, kept as long as the process runs.
    """

    def __init__(self, driver: Driver, handle: Any, *, is_mig: bool, clock: Clock, counters: CardCounters) -> None:
        self._probe = Probe(driver, handle, clock)
        self._counters = counters
        self._is_mig = is_mig
        self._said: Said | None = None
        self._fields = FieldValues(self._probe)
        self._gpm = Gpm(self._probe, gpm.CARD_METRICS, "GpmSampleGet", handle)
        self._utilisation = Utilisation(self._probe)
        self._power = Power(self._probe, counters)
        self._pcie = Pcie(counters.add)
        self._clock_events = ClockEvents(self._probe)
        self._links = NvLinks(self._probe, counters)
        self._vgpus = Vgpus(self._probe)
        self._health = Health(self._probe)
        self._stuck = StuckProfiling()
        self._compute = ComputeBasis(CARD_CANDIDATES)

    def read(self, instances: Sequence[tuple[MigInstance, Said]] = (), sm_count: int | None = None) -> Said:
        """What the card says now.

        `instances` are those of a card in MIG mode, with what they said in this second, and `sm_count` is
        `Device.sm_count`: the card cannot tell by itself how busy it is. Raises CardLostError, DriverGoneError.
        """
        probe, telling = self._probe, Telling()
        probe.begin()
        is_due = self._health.is_due
        if is_due:
            self._links.find()
        _tell_memory(telling, probe)
        asked = (*_FIELDS, *self._links.fields, *(health.FIELDS if is_due else ()))
        told = self._fields.read(asked)
        metrics = self._gpm.read()
        if self._is_mig:
            # Some drivers say 0 % of a card in MIG mode at 438 W: there the rate does not exist.
            telling.tell(GPU_BUSY, FieldState.UNSUPPORTED)
            telling.tell(GPU_MEMORY_BUSY, FieldState.UNSUPPORTED)
        else:
            self._utilisation.tell(telling)
        self._tell_simple(telling, told)
        self._power.tell(telling, told)
        self._pcie.tell(telling, told, metrics, self._gpm.window_s)
        self._clock_events.tell(telling, told)
        self._links.tell(telling, told, metrics, self._gpm.window_s)
        self._vgpus.tell(telling)
        if is_due:
            self._health.tell(telling, told)
        else:
            self._health.tell_missing(telling)
        _tell_metrics(telling, metrics, self._counters)
        self._counters.see(telling)
        self._stuck.check(telling, self._power.limit_watts, probe.now_s)
        self._compute.tell(telling, probe.now_s)
        tell_from_instances(telling, instances, sm_count)
        self._said = telling.said(self._said)
        return self._said

    def close(self) -> None:
        """Let go of what the driver keeps for it. Never while a read is running: the driver writes there."""
        self._gpm.close()

    def _tell_simple(self, telling: Telling, told: fields.Told) -> None:
        """What is one question and one number."""
        ask = self._probe.ask
        telling.tell(GPU_TEMPERATURE, ask("DeviceGetTemperature", _SENSOR_CORE))
        telling.tell(GPU_MEMORY_TEMPERATURE, told[fields.MEMORY_TEMPERATURE])
        for series, clock in _CLOCKS.items():
            telling.tell(series, ask("DeviceGetClockInfo", clock, of=clock), times=_MEGAHERTZ)
        for series, call in _ENGINES.items():
            percent = ask(call)
            telling.tell(series, percent if isinstance(percent, FieldState) else percent[0], per=100)


class InstanceValues:
    """One MIG instance, asked once a second from its card's thread. Made anew where its generation changes.

    `card` is the handle of the card, `handle` that of the MIG device. Several compute instances in one GPU instance
    share what is told here: one of these per GPU instance. `counters` are the card's, and outlive it.
    """

    def __init__(
        self,
        driver: Driver,
        card: Any,
        handle: Any,
        gi_id: int,
        *,
        generation: int,
        clock: Clock,
        counters: CardCounters,
    ) -> None:
        self._counters = counters
        self._probe = Probe(driver, handle, clock)
        # Metrics are the card's business, and the number of the instance a part of the question.
        self._card = Probe(driver, card, clock)
        self._gpm = Gpm(self._card, gpm.INSTANCE_METRICS, "GpmMigSampleGet", card, gi_id)
        self._pcie = Pcie(counters.of_instance(gi_id, generation).add)
        self._said: Said | None = None
        self._compute = ComputeBasis(INSTANCE_CANDIDATES)

    def read(self) -> Said:
        """What the instance says now. Raises CardLostError, DriverGoneError."""
        telling = Telling()
        self._probe.begin()
        self._card.begin()
        _tell_memory(telling, self._probe)
        metrics = self._gpm.read()
        _tell_metrics(telling, metrics, self._counters)
        self._pcie.tell(telling, {}, metrics, self._gpm.window_s)
        telling.tell(GPU_BUSY, FieldState.UNSUPPORTED)
        self._compute.tell(telling, self._probe.now_s)
        self._said = telling.said(self._said)
        return self._said

    def close(self) -> None:
        """Let go of what the driver keeps for it. Never while a read is running: the driver writes there."""
        self._gpm.close()


def _tell_memory(telling: Telling, probe: Probe) -> None:
    memory = probe.ask("DeviceGetMemoryInfo", version=MEMORY_VERSION_2)
    is_missing = isinstance(memory, FieldState)
    telling.tell(GPU_MEMORY_TOTAL, memory if is_missing else memory.total)
    telling.tell(GPU_MEMORY_RESERVED, memory if is_missing else memory.reserved)
    telling.tell(GPU_MEMORY_USED, memory if is_missing else memory.used)


def _tell_metrics(telling: Telling, metrics: Metrics, counters: CardCounters) -> None:
    for series, metric in gpm.RATIOS.items():
        told = metrics[metric]
        if not isinstance(told, FieldState):
            told = counters.capped_ratio(series, told / 100)
        telling.tell(series, told)
    for series, metric in _CYCLES.items():
        telling.tell(series, metrics[metric])
