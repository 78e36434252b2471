"""One window: read what was observed, freeze it when it is complete, rate it, and put the result in the ledger."""

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

import polars as pl

from domain.clock import MICROSECONDS
from domain.period import HOUR_US, Period, ceil_second, format_instant
from meter.conservation import Residuals, residuals
from meter.evidence.evidence import CONTEXT_S, Evidence, make_evidence
from meter.evidence.evidence_file import read_evidence, write_evidence
from meter.evidence.observations import SAMPLE_COLUMNS, Observations
from meter.rating.charges import Charge
from meter.rating.rating import rate
from meter.windows import ledger_store
from meter.windows.ledger_store import NO_NODE, FrozenEvidence, Window
from meter.windows.record_store import WindowRecord, read_record
from store.access import Principal
from store.database import Database

# Above it a window does not settle by itself, not even at the deadline: somebody must look.
SKEW_LIMIT_S = 2.0


class Outcome(StrEnum):
    """What became of a window in one pass."""

    OPEN = "open"
    SETTLED = "settled"
    CLOSED = "closed"
    WAITING = "waiting"
    """Nothing of it is complete yet."""
    SKEWED = "skewed"
    """Open though it is complete, or late: the node's clock was too far wrong for it to settle by itself."""


@dataclass(frozen=True, slots=True)
class WindowResult:
    """One window after a pass; `window` is None while it waits. `kept_frozen` is set where the store by now holds
    less than the evidence that was frozen, so that the frozen evidence was rated."""

    node: str
    start_us: int
    outcome: Outcome
    window: Window | None
    charges: tuple[Charge, ...]
    kept_frozen: bool = False


@dataclass(frozen=True, slots=True)
class SettleRules:
    """When a window settles: `grace_us` after its end if complete, `deadline_us` after its end if it is not.

    `accepts_skew`: also where the node's clock was more than `SKEW_LIMIT_S` wrong.
    """

    grace_us: int
    deadline_us: int
    accepts_skew: bool = False


class WindowRater:
    """Rates windows; holds nothing between two of them, so a kill at any point costs only the pass."""

    def __init__(
        self,
        database: Database,
        principal: Principal,
        observations: Observations,
        evidence_dir: Path,
        rules: SettleRules,
    ) -> None:
        self._database = database
        self._principal = principal
        self._observations = observations
        self._evidence_dir = evidence_dir
        self._rules = rules

    def rate_window(self, node: str, start_us: int, now_us: int) -> WindowResult:
        """One pass over the (node, UTC hour) window: rate what is complete at `now_us`, settle it if it is due.

        A closed window is left as it is. Raises UnavailableError where the store or the evidence cannot be read,
        and then writes nothing.
        """
        hour = Period(start_us, start_us + HOUR_US)
        record = self._read(node, hour)
        if record.window is not None and record.window.state == Outcome.CLOSED:
            return WindowResult(node, start_us, Outcome.CLOSED, record.window, ())
        complete_us = self._complete_until_us(node, now_us)
        # Once settled a window stays whole, whatever a store that was restored says of completeness.
        due = record.frozen is not None or self._is_due(hour, node, record.inventory_us, complete_us, now_us)
        skewed = due and record.frozen is None and self._is_skewed(node, hour)
        settled = due and not skewed
        until_us = hour.end_us if settled else min(hour.end_us, complete_us)
        if until_us <= start_us:
            return WindowResult(node, start_us, Outcome.WAITING, None, ())
        evidence = self._observe(node, Period(start_us, until_us), record)
        kept = self._frozen_evidence(record, node, hour)
        kept_frozen = kept is not None and evidence.lacks(kept)
        if kept is not None and kept_frozen:
            evidence = kept
        result = self._save(node, evidence, record, settled=settled, kept_frozen=kept_frozen)
        return replace(result, outcome=Outcome.SKEWED) if skewed else result

    def evidence_of(self, node: str, hour: Period, now_us: int) -> Evidence:
        """The evidence of an hour as it stands: frozen where the window has settled, else read from the store."""
        record = self._read(node, hour)
        frozen = self._frozen_evidence(record, node, hour)
        if frozen is not None:
            return frozen
        until_us = min(hour.end_us, now_us // MICROSECONDS * MICROSECONDS)
        return self._observe(node, Period(hour.start_us, max(hour.start_us, until_us)), record)

    def complete_until_s(self, node: str) -> int | None:
        """The second before which everything of the node was delivered or is a hole; None if it never said."""
        return self._observations.complete_until_s(node)

    def _read(self, node: str, hour: Period) -> WindowRecord:
        with self._database.read() as connection:
            return read_record(connection, self._principal, node, hour)

    def _complete_until_us(self, node: str, now_us: int) -> int:
        """Up to when every second is known to be delivered or a hole; nothing is missing where no device is."""
        past_us = now_us // MICROSECONDS * MICROSECONDS
        if node == NO_NODE:
            return past_us
        mark_s = self._observations.complete_until_s(node)
        return min(past_us, mark_s * MICROSECONDS) if mark_s is not None else 0

    def _is_due(self, hour: Period, node: str, inventory_us: int | None, complete_us: int, now_us: int) -> bool:
        if now_us < hour.end_us + self._rules.grace_us:
            return False
        if node == NO_NODE or now_us >= hour.end_us + self._rules.deadline_us:
            return True
        # The context after the hour must be complete as well, so that a hole at its end is seen whole.
        complete = complete_us >= hour.end_us + CONTEXT_S * MICROSECONDS
        reported = inventory_us is not None and inventory_us >= hour.end_us
        return complete and reported

    def _is_skewed(self, node: str, hour: Period) -> bool:
        """Whether the node's clock went so far wrong that its seconds are not those of its grants, and nobody said
        that it is to be billed so."""
        if node == NO_NODE or self._rules.accepts_skew:
            return False
        skew_s = self._observations.clock_skew_s(node, hour.first_second, ceil_second(hour.end_us))
        return skew_s is not None and skew_s > SKEW_LIMIT_S

    def _observe(self, node: str, period: Period, record: WindowRecord) -> Evidence:
        if node == NO_NODE:
            return make_evidence(node, period, pl.DataFrame(schema=SAMPLE_COLUMNS), [], [])
        start_s, end_s = period.first_second, ceil_second(period.end_us)
        samples = self._observations.samples(node, start_s - CONTEXT_S, end_s + CONTEXT_S)
        devices = [(each.gpu_uuid, "") for each in record.fleet.devices if each.node == node]
        devices += [(each.gpu_uuid, each.mig_uuid) for each in record.fleet.instances]
        return make_evidence(node, period, samples, record.contacts, devices)

    def _frozen_evidence(self, record: WindowRecord, node: str, hour: Period) -> Evidence | None:
        if record.frozen is None:
            return None
        return read_evidence(self._evidence_dir / record.frozen.path, node, hour, record.frozen.digest)

    def _save(
        self, node: str, evidence: Evidence, record: WindowRecord, *, settled: bool, kept_frozen: bool
    ) -> WindowResult:
        charges = rate(evidence, record.grants, record.tenants, record.books)
        left = residuals(record.fleet, evidence) if node != NO_NODE else Residuals(0, 0)
        before = record.window
        changed = before is None or before.evidence_digest != evidence.digest
        revision = before.revision if before else 0
        frozen = None
        if settled:
            revision += 1 if changed else 0
            frozen = record.frozen if not changed else self._freeze(evidence, revision)
        window = Window(
            node=node,
            start_us=evidence.period.start_us,
            state=Outcome.SETTLED if settled else Outcome.OPEN,
            rated_until_us=evidence.period.end_us,
            revision=revision,
            evidence_digest=evidence.digest if settled else None,
            residual_compute=left.compute_unit_seconds,
            residual_vram=left.vram_byte_seconds,
            unpriced_seconds=sum(each.granted_seconds for each in charges if each.rate_id is None),
            rated_us=record.read_us,
        )
        with self._database.write() as connection:
            ledger_store.save_window(connection, self._principal, window, charges, frozen)
        return WindowResult(node, window.start_us, Outcome(window.state), window, tuple(charges), kept_frozen)

    def _freeze(self, evidence: Evidence, revision: int) -> FrozenEvidence:
        hour = format_instant(evidence.period.start_us)[:13].replace("T", "/")
        # With the digest in its name a file never takes the place of other evidence, should two meters meet here.
        path = f"{hour}/{quote(evidence.node, safe='') or '_'}.r{revision}.{evidence.digest[:12]}.parquet"
        size_bytes = write_evidence(evidence, self._evidence_dir / path)
        return FrozenEvidence(path, evidence.digest, size_bytes)
