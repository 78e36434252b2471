"""From fields to series: what one card or MIG instance says, from whichever of DCGM's doors its fields came."""

import re
from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from typing import NamedTuple

from collector.dcgm.field import DcgmField
from collector.dcgm.fields import MEMORY_FREE, MEMORY_RESERVED, MEMORY_TOTAL, MEMORY_USED
from domain.samples import FieldState
from domain.series import Series

# Since this driver used memory is without what it reserves, and the two are told apart (DCGM, DcgmCacheManager.cpp).
_RESERVED_TOLD_SINCE = 510
_MAJOR = re.compile("([0-9]{1,4})[.]")


class DeviceValues(NamedTuple):
    """Values in base units, exact; by series, and by part where a series has several. `missing` says why one has none.

    What is not told at all is in none of them.
    """

    values: Mapping[Series, int | Fraction]
    parts: Mapping[Series, Mapping[str, int | Fraction]]
    missing: Mapping[Series, FieldState]


def device_values(told: Mapping[DcgmField, int | Fraction | FieldState], driver_version: str | None) -> DeviceValues:
    """The series of the fields that a device tells, or leaves blank for a reason."""
    known = {field: exact for field, exact in told.items() if not isinstance(exact, FieldState)}
    blank = {field: exact for field, exact in told.items() if isinstance(exact, FieldState)}
    _settle_memory(known, blank, driver_version)
    values: dict[Series, int | Fraction] = {}
    parts: dict[Series, dict[str, int | Fraction]] = defaultdict(dict)
    for field, exact in known.items():
        if field.series is not None and field.series.part is not None:
            parts[field.series].update(field.parts(exact))
        elif field.series is not None:
            values[field.series] = exact
    missing = {
        field.series: reason
        for field, reason in blank.items()
        if field.series is not None and field.series not in values and field.series not in parts
    }
    return DeviceValues(values, dict(parts), missing)


def _settle_memory(
    known: dict[DcgmField, int | Fraction], blank: dict[DcgmField, FieldState], driver_version: str | None
) -> None:
    """What a device has in all, where that is not told itself, and no use that counts what the driver reserves.

    Used and free make a total only together with what is reserved (dcgm-exporter 271), which older drivers count as
    used. Each is cut to whole MiB, so a sum is up to 2 MiB short.
    """
    major = _MAJOR.match(driver_version or "")
    reserved_is_used = major is not None and int(major[1]) < _RESERVED_TOLD_SINCE
    parts = (MEMORY_USED, MEMORY_FREE) if reserved_is_used else (MEMORY_USED, MEMORY_FREE, MEMORY_RESERVED)
    if MEMORY_TOTAL not in known and all(part in known for part in parts):
        known[MEMORY_TOTAL] = sum(known[part] for part in parts)
    if reserved_is_used and known.pop(MEMORY_USED, None) is not None:
        blank[MEMORY_USED] = FieldState.UNSUPPORTED
