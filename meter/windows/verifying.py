"""Whether the ledger is what its evidence, grants and prices make it, and nobody has changed it since it was closed."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from domain.errors import GputabError
from domain.period import HOUR_US, Period, format_instant
from meter.conservation.residuals import Residuals, residuals
from meter.ledger import closing_store, corrections_store, ledger_store
from meter.ledger.chain import hour_digest
from meter.ledger.daily_store import charged_days, load_day, sums_by_day
from meter.ledger.ledger_store import NO_NODE, Window
from meter.rating.charges import Charge
from meter.rating.differences import difference, net
from meter.rating.rating import rate
from meter.windows.observing import Observer
from store.access import Principal
from store.database import Database


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that is not as it should be; `where` is a window, an hour, a correction or a day."""

    where: str
    what: str


class Verifier:
    """Reads, and changes nothing."""

    def __init__(self, database: Database, principal: Principal, observer: Observer) -> None:
        self._database = database
        self._principal = principal
        self._observer = observer

    def windows(self, period: Period) -> list[Window]:
        """The windows of the period that have settled, which are those that can be proved."""
        with self._database.read() as connection:
            touched = Period(period.start_us // HOUR_US * HOUR_US, period.end_us)
            found = ledger_store.load_windows(connection, self._principal, touched)
        return [each for each in found if each.state != "open"]

    def verify_window(self, window: Window) -> Iterator[Problem]:
        """Recompute the window from its frozen evidence and compare what comes out with the ledger."""
        hour = Period(window.start_us, window.start_us + HOUR_US)
        where = f"{format_instant(window.start_us)} {window.node or '(no device)'}"
        record = self._observer.record(window.node, hour)
        if record.frozen is None:
            yield Problem(where, "its evidence is not on record")
            return
        if window.state == "settled" and record.frozen.digest != window.evidence_digest:
            yield Problem(where, "the digest of its evidence is not the one it was rated by")
        try:
            evidence = self._observer.frozen(record.frozen, window.node, hour)
        except GputabError as error:
            yield Problem(where, str(error))
            return
        with self._database.read() as connection:
            charged = ledger_store.load_charges(connection, self._principal, windows_in=hour, node=window.node)
            adjusted = corrections_store.load_adjustments(
                connection, self._principal, windows_in=hour, node=window.node
            )
            ids = ledger_store.charge_ids(connection, self._principal, window)
        if ids != sorted(each.charge_id for each in charged):
            yield Problem(where, "a charge's name is not that of what it says")
        rated = rate(evidence, record.grants, record.tenants, record.books)
        for change in difference(rated, net([*charged, *adjusted])):
            yield Problem(where, _told(change))
        if window.state == "settled":
            left = residuals(record.fleet, evidence) if window.node != NO_NODE else Residuals(0, 0)
            if (left.compute_unit_seconds, left.vram_byte_seconds) != (window.residual_compute, window.residual_vram):
                yield Problem(where, f"its residual is not {left} as its record has it")

    def verify_chain(self) -> Iterator[Problem]:
        """Compare every closed hour, and every correction, with its digest and the one before it."""
        with self._database.read() as connection:
            hours = closing_store.load_chain(connection, self._principal)
            corrections = corrections_store.load_corrections(connection, self._principal)
        previous: str | None = None
        for hour in hours:
            yield from self._verify_hour(hour, previous)
            previous = hour.digest
        previous = None
        for correction in corrections:
            where = f"correction {correction.correction_id}"
            with self._database.read() as connection:
                adjusted = corrections_store.load_adjustments(
                    connection, self._principal, correction_id=correction.correction_id
                )
            if correction.previous_digest != previous:
                yield Problem(where, "the correction before it is missing or another")
            if corrections_store.digest_of(correction, adjusted) != correction.digest:
                yield Problem(where, "it is not what was written: its digest differs")
            previous = correction.digest
        yield from self._closed_without_a_digest(hour.start_us for hour in hours)

    def verify_days(self) -> Iterator[Problem]:
        """Compare the sums of each day with the charges and adjustments that they are of."""
        with self._database.read() as connection:
            days = charged_days(connection, self._principal)
        for day in days:
            with self._database.read() as connection:
                asked: Any = {"first_date": day, "last_date": day}
                charged = ledger_store.load_charges(connection, self._principal, **asked)
                adjusted = corrections_store.load_adjustments(connection, self._principal, **asked)
                found = {tuple(row.values()) for row in load_day(connection, self._principal, day)}
            expected = {tuple(row.values()) for row in sums_by_day(charged, adjusted)}
            for tenant in sorted({row[0] for row in found ^ expected}):
                yield Problem(f"day {day} of {tenant}", "its sums are not those of its charges and adjustments")

    def _verify_hour(self, hour: closing_store.HourDigest, previous: str | None) -> Iterator[Problem]:
        where = f"hour {format_instant(hour.start_us)}"
        with self._database.read() as connection:
            period = Period(hour.start_us, hour.start_us + HOUR_US)
            windows = ledger_store.load_windows(connection, self._principal, period)
            closed = closing_store.closed_windows(connection, self._principal, hour.start_us, windows)
        if hour.previous_digest != previous:
            yield Problem(where, "the hour closed before it is missing or another")
        if any(window.state != "closed" for window in windows):
            yield Problem(where, "it was closed, and a window of it is not")
        if hour_digest(hour.start_us, closed, hour.previous_digest) != hour.digest:
            yield Problem(where, "its windows or charges are not those that were closed: its digest differs")

    def _closed_without_a_digest(self, chained: Iterable[int]) -> Iterator[Problem]:
        known = set(chained)
        with self._database.read() as connection:
            windows = ledger_store.load_windows(connection, self._principal)
        for start_us in sorted({each.start_us for each in windows if each.state == "closed"} - known):
            yield Problem(f"hour {format_instant(start_us)}", "it is closed and has no digest")


def _told(change: Charge) -> str:
    return (
        f"charge {change.charge_id} ({change.allocation}.{change.ordinal} {change.dimension}) is not what evidence, "
        f"grants and prices make: {change.granted_seconds:+} s granted, {change.quantity:+} of quantity, "
        f"{change.amount_nano:+} nano-{change.currency}"
    )
