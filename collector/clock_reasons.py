"""Why a card's clocks are lower than they could be: the reasons by their bits, which DCGM hands on as NVML has them."""

from collections.abc import Mapping

# nvml.h, nvmlClocksEventReason*.
CLOCK_REASONS: Mapping[int, str] = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
