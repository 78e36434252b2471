"""Sums of charges and adjustments by day, kept in the transaction that writes these."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, and_, delete, insert, select, union, update

from domain.money import NANO
from meter.rating.charges import Charge
from store.access import Principal, Role
from store.database import serialize
from store.tables.billing import charges, daily_charges
from store.tables.closing import adjustments

_SUMS = (
    "charges",
    "adjustments",
    "granted_seconds",
    "covered_seconds",
    "coverable_seconds",
    "amount_wholes",
    "amount_nanos",
)
_KEY = tuple(column.name for column in daily_charges.primary_key)


def move_days(
    connection: Connection,
    principal: Principal,
    *,
    gone: Iterable[Charge] = (),
    charged: Iterable[Charge] = (),
    adjusted: Iterable[Charge] = (),
) -> None:
    """Take the charges that are `gone` out of their days' sums, and put those `charged` and `adjusted` in."""
    principal.require(Role.OPERATOR, Role.BILLING)
    moved: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * len(_SUMS))
    for its_charges, kind, sign in ((gone, 0, -1), (charged, 0, 1), (adjusted, 1, 1)):
        for charge in its_charges:
            sums = moved[_key(charge)]
            for index, value in enumerate(_parts(charge, kind)):
                sums[index] += sign * value
    # In one order, so that two meters that move the same days never wait for each other.
    for key in sorted(key for key, sums in moved.items() if any(sums)):
        _move(connection, dict(zip(_KEY, key, strict=True)), dict(zip(_SUMS, moved[key], strict=True)))


def load_day(connection: Connection, principal: Principal, billing_date: str) -> list[dict[str, Any]]:
    """The rows of one billing date, YYYY-MM-DD, of every tenant, by their keys."""
    principal.require(Role.OPERATOR, Role.BILLING)
    query = select(daily_charges).where(daily_charges.c.billing_date == billing_date)
    return [dict(row) for row in connection.execute(query.order_by(*daily_charges.primary_key)).mappings()]


def charged_days(connection: Connection, principal: Principal) -> list[str]:
    """Every billing date that has charges, adjustments or sums of them, in order."""
    principal.require(Role.OPERATOR, Role.BILLING)
    tables = (charges, adjustments, daily_charges)
    query = union(*(select(table.c.billing_date) for table in tables))
    return sorted(connection.execute(query).scalars())


def sums_by_day(charged: Iterable[Charge], adjusted: Iterable[Charge]) -> list[dict[str, Any]]:
    """The rows that there should be of all these, by their keys."""
    sums: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0] * len(_SUMS))
    for its_charges, kind in ((charged, 0), (adjusted, 1)):
        for charge in its_charges:
            sums[_key(charge)] = [a + b for a, b in zip(sums[_key(charge)], _parts(charge, kind), strict=True)]
    return [dict(zip((*_KEY, *_SUMS), (*key, *sums[key]), strict=True)) for key in sorted(sums)]


def _key(charge: Charge) -> tuple[Any, ...]:
    return tuple(charge.rate_id or "" if name == "rate_id" else getattr(charge, name) for name in _KEY)


def _parts(charge: Charge, kind: int) -> tuple[int, ...]:
    covered = charge.covered_seconds
    return (
        1 - kind,
        kind,
        charge.granted_seconds,
        covered or 0,
        0 if covered is None else charge.granted_seconds,
        charge.amount_nano // NANO,
        charge.amount_nano % NANO,
    )


def _move(connection: Connection, key: dict[str, Any], by: dict[str, int]) -> None:
    serialize(connection, "day " + " ".join(map(str, key.values())))
    place = and_(*(daily_charges.c[name] == value for name, value in key.items()))
    before = connection.execute(select(daily_charges).where(place)).mappings().one_or_none()
    if before is None:
        connection.execute(insert(daily_charges).values(**key, **by))
        return
    after = {name: before[name] + value for name, value in by.items()}
    if after["charges"] or after["adjustments"]:
        connection.execute(update(daily_charges).where(place).values(**after))
    else:
        connection.execute(delete(daily_charges).where(place))
