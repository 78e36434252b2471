"""Why a card's clocks are lower than they could be: now, and for how long in all."""

from collections.abc import Mapping

from collector.clock_reasons import CLOCK_REASONS
from collector.nvml.probe import Probe
from collector.nvml.values import fields
from collector.nvml.values.fields import Field, Told
from collector.telling import Telling
from domain.samples import FieldState
from domain.series import GPU_CLOCK_EVENT, GPU_THROTTLE

_NONE = 2**64 - 1
# In nanoseconds, those with a name of their own as those without.
_THROTTLES: Mapping[str, Field] = {
    "sw_power_cap": fields.PERF_POLICY_POWER,
    "thermal": fields.PERF_POLICY_THERMAL,
    "sync_boost": fields.PERF_POLICY_SYNC_BOOST,
    "board_limit": fields.PERF_POLICY_BOARD_LIMIT,
    "low_utilization": fields.PERF_POLICY_LOW_UTILIZATION,
    "reliability": fields.PERF_POLICY_RELIABILITY,
    "below_applications_clocks": fields.PERF_POLICY_TOTAL_APP_CLOCKS,
    "below_base_clocks": fields.PERF_POLICY_TOTAL_BASE_CLOCKS,
    "sw_thermal_slowdown": fields.SW_THERMAL_SLOWDOWN,
    "hw_thermal_slowdown": fields.HW_THERMAL_SLOWDOWN,
    "hw_power_brake_slowdown": fields.HW_POWER_BRAKE_SLOWDOWN,
}
FIELDS: tuple[Field, ...] = tuple(_THROTTLES.values())
_NANOSECONDS = 1_000_000_000


class ClockEvents:
    """The clock events of one card."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    def tell(self, telling: Telling, told: Told) -> None:
        """Each reason as 0 or 1, and the seconds of each by `FIELDS`. Raises CardLostError, DriverGoneError."""
        bits = self._probe.ask("DeviceGetCurrentClocksEventReasons")
        if bits is FieldState.UNSUPPORTED:
            # Its name before driver 535.
            bits = self._probe.ask("DeviceGetCurrentClocksThrottleReasons")
        if isinstance(bits, FieldState) or bits == _NONE:
            telling.missing[GPU_CLOCK_EVENT] = FieldState.UNSUPPORTED if bits == _NONE else bits
        else:
            telling.parts[GPU_CLOCK_EVENT] = {reason: int(bits & bit != 0) for bit, reason in CLOCK_REASONS.items()}
        throttles = {reason: told[field] for reason, field in _THROTTLES.items()}
        telling.tell_parts(GPU_THROTTLE, throttles, per=_NANOSECONDS)
