"""How far the figures of a page can be relied on, in words."""

from collections.abc import Iterable
from datetime import date, datetime
from zoneinfo import ZoneInfo

from domain.clock import MICROSECONDS
from domain.period import billing_date
from meter.bills.freshness_store import Freshness
from meter.bills.spend import SpendRow, coverage


def reliability(rows: Iterable[SpendRow], freshness: Freshness, zone: ZoneInfo) -> str:
    """Up to when there are charges, how many windows are open, and how much of what was granted was measured."""
    parts = [_until("settled", freshness.settled_until_us, zone)]
    if freshness.open_windows:
        parts.append(_until("rated", freshness.rated_until_us, zone))
    parts.append(f"{_count(freshness.open_windows, 'window')} still open")
    parts.append(f"covered seconds: {_covered(rows)}")
    return " · ".join([*parts, f"times in {zone.key}"])


def unpriced(rows: Iterable[SpendRow]) -> str | None:
    """What has no price, and is therefore in no amount; None where everything has one."""
    found = [row for row in rows if row.rate_id is None]
    if not found:
        return None
    kinds = ", ".join(sorted({f"{row.dimension} of {row.sku}" for row in found}))
    number = sum(row.charges for row in found)
    return (
        f"{_count(number, 'charge')} without a price, for {kinds}: what was used is in the ledger and not in these "
        "amounts. The operator adds a rate by `gputab prices load`."
    )


def draft_from(freshness: Freshness, first: date, zones: Iterable[ZoneInfo], at_us: int) -> date:
    """The first day from `first` on that is not over, or of which not every window has settled.

    In the zone where that is earliest, of those given.
    """
    known = list(zones)
    unfinished_us = [at_us]
    if freshness.open_windows:
        if freshness.settled_until_us is None:
            return first
        unfinished_us.append(freshness.settled_until_us)
    return max(first, min(billing_date(instant_us, zone) for instant_us in unfinished_us for zone in known))


def _covered(rows: Iterable[SpendRow]) -> str:
    covered, coverable, granted = coverage(rows)
    unknown = granted - coverable
    if covered is None or not coverable:
        return f"not known of {granted:,} granted" if granted else "none granted"
    # Rounded down, so that 100 % means every second.
    hundredths = 10_000 * covered // coverable
    text = f"{covered:,} of {coverable:,} granted ({hundredths // 100}.{hundredths % 100:02d} %)"
    return f"{text}, not known of {unknown:,} more" if unknown else text


def _until(what: str, instant_us: int | None, zone: ZoneInfo) -> str:
    if instant_us is None:
        return f"nothing {what} yet"
    return f"{what} up to {datetime.fromtimestamp(instant_us // MICROSECONDS, zone):%Y-%m-%d %H:%M:%S}"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
