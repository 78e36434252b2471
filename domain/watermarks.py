"""The watermarks of VRAM: how full a card may be before somebody is told. Alerts and dashboards draw them from here."""

from dataclasses import dataclass

from domain.series import GPU_MEMORY_RESERVED, GPU_MEMORY_TOTAL, GPU_MEMORY_USED, Series


@dataclass(frozen=True, slots=True)
class Watermark:
    """A threshold on used / usable VRAM, where usable is the total without what the driver keeps; the level's name."""

    level: str
    used_ratio: float


# Above what serving programs take at their start and keep, 0.9 of the card where they are not told otherwise (vLLM's
# `gpu_memory_utilization`): a level that is always reached tells nobody anything.
WATERMARKS = (Watermark("warning", 0.93), Watermark("high", 0.96), Watermark("critical", 0.98))


def reached(used: float) -> Watermark | None:
    """The highest watermark that a used / usable ratio is at or above; None: it is below all."""
    return max((mark for mark in WATERMARKS if used >= mark.used_ratio), key=lambda mark: mark.used_ratio, default=None)


def used_ratio(selector: str = "", window: str = "", modifier: str = "") -> str:
    """PromQL for used / usable VRAM of every card and MIG instance, by node, gpu_uuid and mig_uuid.

    `selector` is what stands between braces; `window`, such as "10s", takes the fullest moment of that time;
    `modifier`, such as "@ end()", says when that is. A card whose driver does not tell what it reserves is taken to
    reserve nothing.
    """
    used = _read(GPU_MEMORY_USED, "max_over_time", selector, window, modifier)
    return f"{used} / {usable_bytes(selector, window, modifier)}"


def usable_bytes(selector: str = "", window: str = "", modifier: str = "") -> str:
    """PromQL, in parentheses, for the VRAM that tenants can use, by the same labels; of a `window` its last value."""
    total, reserved = (
        _read(series, "last_over_time", selector, window, modifier)
        for series in (GPU_MEMORY_TOTAL, GPU_MEMORY_RESERVED)
    )
    return f"({total} - ({reserved} or {total} * 0))"


def _read(series: Series, over_time: str, selector: str, window: str, modifier: str) -> str:
    braces = f"{{{selector}}}" if selector else ""
    at = f" {modifier}" if modifier else ""
    return f"{over_time}({series.name}{braces}[{window}]{at})" if window else f"{series.name}{braces}{at}"
