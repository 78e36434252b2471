"""What a window would come to if it were rated now, beside what the ledger has of it; nothing is written."""

from dataclasses import dataclass

from domain.period import HOUR_US, Period
from meter.conservation.residuals import Residuals, residuals
from meter.ledger import closing_store, corrections_store, ledger_store
from meter.ledger.ledger_store import NO_NODE, FrozenEvidence
from meter.rating.charges import Charge
from meter.rating.differences import difference, net
from meter.rating.rating import rate
from meter.windows.observing import Observed, Observer
from meter.windows.record_store import WindowRecord
from store.access import Principal
from store.database import Database


@dataclass(frozen=True, slots=True)
class Comparison:
    """`before` is what the ledger has, charges and adjustments summed; `after` what the window would be rated to.

    `frozen` is the newest evidence on record, None where the window has not settled. `observed` is what `after` stands
    on; `is_new_evidence` where that is another than the frozen one.
    """

    node: str
    hour: Period
    record: WindowRecord
    before: tuple[Charge, ...]
    after: tuple[Charge, ...]
    frozen: FrozenEvidence | None
    observed: Observed
    residuals: Residuals

    @property
    def is_new_evidence(self) -> bool:
        """Whether rating now would freeze a new revision, or rate more of an open window."""
        return self.frozen is None or self.frozen.digest != self.observed.evidence.digest

    @property
    def changes(self) -> list[Charge]:
        """By how much each charge would change."""
        return difference(self.after, self.before)


def compare_window(
    database: Database, principal: Principal, observer: Observer, node: str, start_us: int, now_us: int
) -> Comparison:
    """The window as it is and as it would be: of a closed hour all, of a window that is open what is complete of it.

    Raises UnavailableError where the store or the frozen evidence cannot be read.
    """
    hour = Period(start_us, start_us + HOUR_US)
    record = observer.record(node, hour)
    with database.read() as connection:
        charged = ledger_store.load_charges(connection, principal, windows_in=hour, node=node)
        adjusted = corrections_store.load_adjustments(connection, principal, windows_in=hour, node=node)
        is_closed = closing_store.is_closed(connection, principal, start_us)
    until_us = hour.end_us if is_closed else _complete_until_us(observer, node, hour, record, now_us)
    observed = _observed(observer, node, hour, record, until_us)
    evidence = observed.evidence
    return Comparison(
        node,
        hour,
        record,
        before=tuple(net([*charged, *adjusted])),
        after=tuple(rate(evidence, record.grants, record.tenants, record.books)),
        frozen=record.frozen,
        observed=observed,
        residuals=residuals(record.fleet, evidence) if node != NO_NODE else Residuals(0, 0),
    )


def _complete_until_us(observer: Observer, node: str, hour: Period, record: WindowRecord, now_us: int) -> int:
    """Up to where an open window would be rated: as far as it is complete, and no less than it was."""
    rated_us = record.window.rated_until_us if record.window else hour.start_us
    return max(rated_us, min(hour.end_us, observer.complete_until_us(node, now_us)))


def _observed(observer: Observer, node: str, hour: Period, record: WindowRecord, until_us: int) -> Observed:
    """What the store has by now, unless that is less than what is frozen."""
    if record.frozen is None:
        return observer.observe(node, Period(hour.start_us, until_us), record)
    kept = observer.frozen(record.frozen, node, hour)
    observed = observer.observe(node, hour, record)
    return Observed(kept, record.frozen.samples) if observed.evidence.lacks(kept) else observed
