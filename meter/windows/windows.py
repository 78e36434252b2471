"""One window: read what was observed, freeze it when it is complete, rate it, and put the result in the ledger."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum

from domain.period import HOUR_US, Period
from meter.conservation.residuals import Residuals, residuals
from meter.ledger import late_store, ledger_store
from meter.ledger.leases_store import Lease, end_lease, give_up_lease, take_lease
from meter.ledger.ledger_store import NO_NODE, Window
from meter.rating.charges import Charge
from meter.rating.rating import rate
from meter.windows.observing import Observed, Observer
from meter.windows.record_store import WindowRecord
from store.access import Principal
from store.database import Database


class Outcome(StrEnum):
    """What became of a window in one pass."""

    OPEN = "open"
    SETTLED = "settled"
    CLOSED = "closed"
    WAITING = "waiting"
    """Nothing of it is complete yet."""
    SKEWED = "skewed"
    """Open though it is complete, or late: the node's clock was too far wrong for it to settle by itself."""
    BUSY = "busy"
    """Another meter is at work on it."""


@dataclass(frozen=True, slots=True)
class WindowResult:
    """One window after a pass; `window` is None while it waits, another meter is at work on it, or its hour was closed
    without it.

    `kept_frozen` is set where the store by now holds less than the evidence that was frozen, so that the frozen
    evidence was rated. `quarantined_samples` counts readings that no card can have made. `skew_us` is how far the
    node's clock was off; None: not measured, or the window is not due.
    """

    node: str
    start_us: int
    outcome: Outcome
    window: Window | None
    charges: tuple[Charge, ...]
    kept_frozen: bool = False
    quarantined_samples: int = 0
    skew_us: int | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    """What is to be done with a window: rate it up to an instant, and settle it or not."""

    until_us: int
    settles: bool
    is_skewed: bool
    skew_us: int | None


class WindowRater:
    """Rates windows; holds nothing between two of them, so a kill at any point costs only the pass."""

    def __init__(self, database: Database, principal: Principal, observer: Observer) -> None:
        self._database = database
        self._principal = principal
        self._observer = observer

    def rate_window(self, node: str, start_us: int, now_us: int) -> WindowResult:
        """One pass over the (node, UTC hour) window: rate what is complete at `now_us`, settle it if it is due.

        Of a closed window only what came late is counted. Raises UnavailableError where the store or the evidence
        cannot be read, and ConflictError where another meter has overtaken this one, and then writes nothing.
        """
        hour = Period(start_us, start_us + HOUR_US)
        complete_us = self._observer.complete_until_us(node, now_us)
        if self._is_waiting(node, hour, complete_us, now_us):
            return WindowResult(node, start_us, Outcome.WAITING, None, ())
        with self._leased(node, start_us) as lease:
            if lease is None:
                return WindowResult(node, start_us, Outcome.BUSY, None, ())
            record = self._observer.record(node, hour)
            if record.is_closed:
                self._count_late(node, hour, record)
                return WindowResult(node, start_us, Outcome.CLOSED, record.window, ())
            plan = self._plan(node, hour, record, complete_us, now_us)
            if plan is None:
                return WindowResult(node, start_us, Outcome.WAITING, None, ())
            return self._rate(node, Period(start_us, plan.until_us), record, plan, lease)

    def _is_waiting(self, node: str, hour: Period, complete_us: int, now_us: int) -> bool:
        """Whether there is nothing to do, as is found without keeping others from the window."""
        record = self._observer.record(node, hour)
        if record.frozen is not None or complete_us > hour.start_us:
            return False
        return self._observer.waits_for(hour, node, record.inventory_us, complete_us, now_us) is not None

    def _plan(self, node: str, hour: Period, record: WindowRecord, complete_us: int, now_us: int) -> _Plan | None:
        """What the window is due for; None: for nothing yet."""
        # Once settled a window stays whole, whatever a store that was restored says of completeness.
        waits_for = self._observer.waits_for(hour, node, record.inventory_us, complete_us, now_us)
        if record.frozen is not None:
            return _Plan(hour.end_us, settles=True, is_skewed=False, skew_us=record.frozen.skew_us)
        skew_us = self._observer.skew_us(node, hour) if waits_for is None else None
        skewed = self._observer.is_skewed(skew_us)
        settles = waits_for is None and not skewed
        until_us = hour.end_us if settles else min(hour.end_us, complete_us)
        if until_us <= hour.start_us:
            return None
        return _Plan(until_us, settles, skewed, skew_us)

    @contextmanager
    def _leased(self, node: str, start_us: int) -> Iterator[Lease | None]:
        """The window's lease, given back at the end if it was not before; None while another meter holds it."""
        with self._database.write() as connection:
            lease = take_lease(connection, self._principal, node, start_us)
        try:
            yield lease
        finally:
            if lease is not None:
                with self._database.write() as connection:
                    give_up_lease(connection, self._principal, lease)

    def _rate(self, node: str, period: Period, record: WindowRecord, plan: _Plan, lease: Lease) -> WindowResult:
        observed = self._observer.observe(node, period, record)
        kept_frozen = False
        if record.frozen is not None:
            kept = self._observer.frozen(record.frozen, node, period)
            kept_frozen = observed.evidence.lacks(kept)
            if kept_frozen:
                observed = Observed(kept, record.frozen.samples)
        result = self._save(observed, record, plan, lease)
        return replace(result, kept_frozen=kept_frozen, outcome=Outcome.SKEWED if plan.is_skewed else result.outcome)

    def _save(self, observed: Observed, record: WindowRecord, plan: _Plan, lease: Lease) -> WindowResult:
        evidence, before = observed.evidence, record.window
        node, start_us = evidence.node, evidence.period.start_us
        charges = rate(evidence, record.grants, record.tenants, record.books)
        left = residuals(record.fleet, evidence) if node != NO_NODE else Residuals(0, 0)
        revision = before.revision if before else 0
        frozen = record.frozen
        if plan.settles and (frozen is None or frozen.digest != evidence.digest):
            revision += 1
            frozen = self._observer.freeze(observed, revision, plan.skew_us)
        window = Window(
            node=node,
            start_us=start_us,
            state=Outcome.SETTLED if plan.settles else Outcome.OPEN,
            rated_until_us=evidence.period.end_us,
            revision=revision,
            evidence_digest=evidence.digest if plan.settles else None,
            residual_compute=left.compute_unit_seconds,
            residual_vram=left.vram_byte_seconds,
            unpriced_seconds=sum(each.granted_seconds for each in charges if each.rate_id is None),
            rated_us=record.read_us,
        )
        with self._database.write() as connection:
            end_lease(connection, self._principal, lease)
            ledger_store.save_window(connection, self._principal, window, charges, frozen)
        return WindowResult(
            node,
            start_us,
            Outcome(window.state),
            window,
            tuple(charges),
            quarantined_samples=evidence.quarantined_samples,
            skew_us=plan.skew_us,
        )

    def _count_late(self, node: str, hour: Period, record: WindowRecord) -> None:
        """Write down how many device-seconds of samples the closed window does without."""
        if record.frozen is None or record.window is None:
            return
        known = self._observer.frozen(record.frozen, node, hour)
        seconds = self._observer.observe(node, hour, record).evidence.late_seconds(known)
        with self._database.write() as connection:
            late_store.save_late(connection, self._principal, node, hour.start_us, seconds, record.read_us)
