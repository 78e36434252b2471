"""By how much two sets of charges differ, as charges whose every number is a difference."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from meter.rating.charges import Charge

_SUMMED = (
    "granted_seconds",
    "measured_seconds",
    "bridged_seconds",
    "on_record_seconds",
    "free_seconds",
    "quantity",
    "amount_nano",
)


def difference(after: Iterable[Charge], before: Iterable[Charge]) -> list[Charge]:
    """What must be added to `before` to come to `after`, by charge; what is the same in both is left out.

    A charge that says otherwise whose it is, what it is of, or in what it counts, is taken back under the old words and
    put under the new. Covered seconds are None where neither side has a device.
    """
    sums: dict[tuple[str, ...], Charge] = {}
    for charges, sign in ((before, -1), (after, 1)):
        for charge in charges:
            key = _identity(charge)
            sums[key] = _plus(sums.get(key), charge, sign)
    return [sums[key] for key in sorted(sums) if _says_something(sums[key])]


def net(charges: Iterable[Charge]) -> list[Charge]:
    """Charges and the adjustments of them, summed by charge; what comes to nothing is left out."""
    return difference(charges, [])


def _identity(charge: Charge) -> tuple[str, ...]:
    named = (charge.tenant, charge.project, charge.sku, str(charge.quantity_whole), charge.currency)
    return (charge.charge_id, *named)


def _plus(sum_: Charge | None, charge: Charge, sign: int) -> Charge:
    covered = sum_.covered_seconds if sum_ else None
    if charge.covered_seconds is not None:
        covered = (covered or 0) + sign * charge.covered_seconds
    summed: dict[str, Any] = {
        name: (getattr(sum_, name) if sum_ else 0) + sign * getattr(charge, name) for name in _SUMMED
    }
    return replace(charge, **summed, covered_seconds=covered)


def _says_something(charge: Charge) -> bool:
    return bool(charge.covered_seconds) or any(getattr(charge, name) for name in _SUMMED)
