"""Correcting closed windows: what they would come to by now, as adjustments that are added and change nothing."""

from dataclasses import dataclass

from domain.errors import ConflictError
from domain.period import HOUR_US, Period, format_instant
from meter.ledger import closing_store, corrections_store, late_store, ledger_store
from meter.ledger.leases_store import end_lease, give_up_lease, take_lease
from meter.rating.charges import Charge
from meter.windows.comparing import Comparison, compare_window
from meter.windows.observing import Observer
from store.access import Principal
from store.database import Database


@dataclass(frozen=True, slots=True)
class Corrected:
    """A closed window that was corrected, and by what; `is_new_evidence` where more was observed of it by now."""

    node: str
    start_us: int
    adjusted: tuple[Charge, ...]
    is_new_evidence: bool


class Corrector:
    """Corrects closed windows, each in a transaction of its own."""

    def __init__(self, database: Database, principal: Principal, observer: Observer) -> None:
        self._database = database
        self._principal = principal
        self._observer = observer

    def correct(self, node: str, start_us: int, reason: str, now_us: int) -> Corrected | None:
        """Adjust the window of a closed hour to what it comes to by now; None where it comes to the same.

        ConflictError where the hour is not closed, where another meter is at work on the window, and where what it
        would come to could not have been closed: capacity that does not add up, or use without a price.
        """
        with self._database.read() as connection:
            if not closing_store.is_closed(connection, self._principal, start_us):
                raise ConflictError(
                    f"cannot correct the hour {format_instant(start_us)!r}: it is not closed; `gputab meter run` rates "
                    "it again"
                )
        with self._database.write() as connection:
            lease = take_lease(connection, self._principal, node, start_us)
        if lease is None:
            raise ConflictError(
                f"cannot correct the window {node!r} {format_instant(start_us)!r}: another meter is at work on it; run "
                "again"
            )
        try:
            compared = compare_window(self._database, self._principal, self._observer, node, start_us, now_us)
            if not compared.changes and not (compared.is_new_evidence and compared.frozen is not None):
                return None
            _check(compared)
            revision, frozen = compared.frozen.revision if compared.frozen else 0, compared.frozen
            if compared.is_new_evidence:
                revision += 1
                frozen = self._observer.freeze(compared.observed, revision, None)
            with self._database.write() as connection:
                end_lease(connection, self._principal, lease)
                if frozen is not None:
                    ledger_store.save_closed(connection, self._principal, node, start_us, frozen)
                corrections_store.save_correction(
                    connection,
                    self._principal,
                    node,
                    start_us,
                    revision=revision,
                    evidence_digest=compared.observed.evidence.digest,
                    reason=reason,
                    adjusted=compared.changes,
                )
                late_store.save_late(connection, self._principal, node, start_us, 0, compared.record.read_us)
        finally:
            with self._database.write() as connection:
                give_up_lease(connection, self._principal, lease)
        return Corrected(node, start_us, tuple(compared.changes), compared.is_new_evidence)

    def places(self, period: Period) -> list[tuple[str, int]]:
        """The closed windows that the period touches, by hour and node."""
        with self._database.read() as connection:
            found = ledger_store.load_windows(
                connection, self._principal, Period(period.start_us // HOUR_US * HOUR_US, period.end_us)
            )
        return [(each.node, each.start_us) for each in found if each.state == "closed"]


def _check(compared: Comparison) -> None:
    where = f"cannot correct the window {compared.node!r} {format_instant(compared.hour.start_us)!r}"
    left = compared.residuals
    if left.compute_unit_seconds != 0 or left.vram_byte_seconds != 0:
        raise ConflictError(
            f"{where}: its capacity would not add up ({left.compute_unit_seconds} compute-unit-seconds, "
            f"{left.vram_byte_seconds} byte-seconds); see `gputab meter balance`"
        )
    unpriced = sum(each.granted_seconds for each in compared.after if each.rate_id is None)
    if unpriced:
        raise ConflictError(f"{where}: {unpriced} seconds of use have no price; load one with `gputab prices load`")
