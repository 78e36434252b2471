"""The watermarks of VRAM: how full a card may be before somebody is told. Alerts and dashboards draw them from here."""

from dataclasses import dataclass

from domain.series import GPU_MEMORY_RESERVED, GPU_MEMORY_TOTAL, GPU_MEMORY_USED


@dataclass(frozen=True, slots=True)
class Watermark:
    """A threshold on used / usable VRAM, where usable is the total without what the driver keeps; the level's name."""

    level: str
    used_ratio: float


WATERMARKS = (Watermark("warning", 0.85), Watermark("high", 0.92), Watermark("critical", 0.97))


def used_ratio(selector: str = "", window: str = "") -> str:
    """PromQL for used / usable VRAM of every card and MIG instance, by node, gpu_uuid and mig_uuid.

    `selector` is what stands between braces; `window`, such as "10s", takes the fullest moment of that time. A card
    whose driver does not tell what it reserves is taken to reserve nothing.
    """
    braces = f"{{{selector}}}" if selector else ""
    used, total, reserved = (
        f"{series.name}{braces}" for series in (GPU_MEMORY_USED, GPU_MEMORY_TOTAL, GPU_MEMORY_RESERVED)
    )
    if window:
        used, total, reserved = f"max_over_time({used}[{window}])", f"last_over_time({total}[{window}])", (
            f"last_over_time({reserved}[{window}])"
        )
    return f"{used} / ({total} - ({reserved} or {total} * 0))"
