"""What the columns of a CSV without a header may be, by the form of their cells."""

import re
from collections.abc import Sequence

from collector.logs.columns import SKIPPED, has_readings
from collector.logs.log_times import LogTimes

# Form of a cell -> the names it may have, in nvidia-smi's usual order.
_FORMS: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"[0-9.]+ ?%"), ("utilization.gpu",)),
    (re.compile(r"[0-9.]+ ?[KMG]i?B"), ("memory.used", "memory.total")),
    (re.compile(r"[0-9.]+ ?W"), ("power.draw",)),
    (re.compile(r"GPU-[0-9a-f-]{36}"), ("uuid",)),
    (re.compile(r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]"), ("pci.bus_id",)),
    (re.compile(r"(?:NVIDIA|Tesla|Quadro|GeForce|TITAN) .*"), ("name",)),
    (re.compile(r"[0-9]{1,2}"), ("index",)),
)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_OF_CARD = frozenset({"utilization.gpu", "memory.used", "power.draw"})
# A cell of one of these forms can be nothing else, where it is the only one beside a time.
_UNMISTAKABLE = _OF_CARD | {"timestamp", "uuid", "pci.bus_id", "name", SKIPPED}


def looks_like_reading(cells: Sequence[str]) -> bool:
    """Whether the row has a value with its unit, or a number beside a time."""
    names = suggested_names(cells)
    return says_anything(names) or ("timestamp" in names and any(_NUMBER.fullmatch(cell) for cell in cells))


def says_anything(names: Sequence[str]) -> bool:
    """Whether one of the names is a value of a card."""
    return not _OF_CARD.isdisjoint(names)


def suggested_names(cells: Sequence[str]) -> tuple[str, ...]:
    """What the cells of a row are likely to be, for a person to look at; "-" is what nobody can tell."""
    names: list[str] = []
    for cell in cells:
        candidates = ("timestamp",) if _is_time(cell) else _candidates(cell)
        names.append(next((name for name in candidates if name not in names), SKIPPED))
    return tuple(names)


def unmistakable_names(cells: Sequence[str]) -> tuple[str, ...] | None:
    """The names of the columns of a row, where they can be no others; None where somebody must say.

    There is a time, each cell with a unit is the only one of its unit, and no number stands without one.
    """
    names = suggested_names(cells)
    is_certain = "timestamp" in names and says_anything(names) and _UNMISTAKABLE.issuperset(names)
    unknown = [cell for name, cell in zip(names, cells, strict=True) if name == SKIPPED]
    return names if is_certain and not has_readings(unknown) else None


def _candidates(cell: str) -> tuple[str, ...]:
    return next((names for form, names in _FORMS if form.fullmatch(cell)), ())


def _is_time(cell: str) -> bool:
    times = LogTimes(None, None)
    try:
        times.instant_us(cell)
    except ValueError:
        return False
    # A small number may be anything.
    return not times.is_relative
