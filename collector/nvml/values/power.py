"""What a card draws: its power, with what that number means on this card, and the energy in all."""

from collector.nvml.probe import Probe, Round
from collector.nvml.values.counters import CardCounters
from collector.nvml.values.fields import POWER_AVERAGE, POWER_INSTANT, Field, Told
from collector.ranges import is_possible
from collector.telling import Telling
from domain.samples import Basis, FieldState
from domain.series import GPU_ENERGY, GPU_POWER, GPU_POWER_INSTANT

FIELDS: tuple[Field, ...] = (POWER_AVERAGE, POWER_INSTANT)
_AVERAGE, _INSTANT = Basis("nvml", "average"), Basis("nvml", "instant")
_COUNTED, _BY_POWER = Basis("nvml", "counter"), Basis("nvml", "power")
_MILLI = 1_000
# nvml.h, NVML_DEVICE_ARCH_AMPERE; GA100 is the only chip of the compute capability 8.0.
_AMPERE = 7
_GA100 = [8, 0]


class Power:
    """The power and energy of one card."""

    def __init__(self, probe: Probe, counters: CardCounters) -> None:
        self._probe = probe
        self._counters = counters
        self._usage_basis: Basis | None = None
        self._round = Round(probe)
        self.limit_watts: float | None = None
        """What the card may draw; None where it does not say. Looked at every ten minutes."""

    def tell(self, telling: Telling, told: Told) -> None:
        """Power, and energy from the card's own counter or, where it has none, from its power.

        Power is never derived from energy, whose counter moves in steps. Raises CardLostError, DriverGoneError.
        """
        if self._round.begins():
            limit = self._probe.ask("DeviceGetEnforcedPowerLimit")
            self.limit_watts = None if isinstance(limit, FieldState) else limit / _MILLI
        self._tell_power(telling, told)
        telling.tell(GPU_POWER_INSTANT, told[POWER_INSTANT], per=_MILLI)
        energy = self._probe.ask("DeviceGetTotalEnergyConsumption")
        # A counter that stands at 0 counts nothing: a driver takes longer than that to load.
        if energy is FieldState.UNSUPPORTED or energy == 0:
            self._tell_energy_by_power(telling)
            return
        telling.tell(GPU_ENERGY, energy, per=_MILLI, basis=_COUNTED)

    def _tell_power(self, telling: Telling, told: Told) -> None:
        average = told[POWER_AVERAGE]
        if average is not FieldState.UNSUPPORTED:
            telling.tell(GPU_POWER, average, per=_MILLI, basis=_AVERAGE)
            return
        usage = self._probe.ask("DeviceGetPowerUsage")
        if usage == 0:
            # No card draws nothing.
            usage = FieldState.UNSUPPORTED
        if self._usage_basis is None and not isinstance(usage, FieldState):
            self._usage_basis = self._meaning_of_usage()
        telling.tell(GPU_POWER, usage, per=_MILLI, basis=self._usage_basis)

    def _meaning_of_usage(self) -> Basis:
        """The mean of a second from Ampere on but for GA100, and what is drawn right now before (nvml.h)."""
        architecture = self._probe.ask("DeviceGetArchitecture")
        if isinstance(architecture, FieldState) or architecture < _AMPERE:
            return _INSTANT
        capability = self._probe.ask("DeviceGetCudaComputeCapability")
        return _INSTANT if isinstance(capability, FieldState) or list(capability) == _GA100 else _AVERAGE

    def _tell_energy_by_power(self, telling: Telling) -> None:
        power_watts = telling.values[GPU_POWER]
        if power_watts is None:
            telling.tell(GPU_ENERGY, telling.missing[GPU_POWER])
        elif is_possible(GPU_POWER, power_watts):
            joules = self._counters.energy_joules(power_watts, self._probe.now_s)
            telling.tell(GPU_ENERGY, joules, basis=_BY_POWER)
        else:
            telling.tell(GPU_ENERGY, FieldState.GARBAGE)
