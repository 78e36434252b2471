"""What there is to rate a window by: its record out of the database, and its evidence, frozen or out of the store."""

from dataclasses import dataclass
from urllib.parse import quote

import polars as pl

from domain.clock import MICROSECONDS
from domain.errors import EvidenceError, UnavailableError
from domain.period import HOUR_US, Period, ceil_second, format_instant
from meter.evidence.evidence import CONTEXT_S, Evidence, make_evidence
from meter.evidence.evidence_file import read_evidence, write_evidence
from meter.evidence.evidence_store import EvidenceStore
from meter.evidence.observations import SAMPLE_COLUMNS, Observations
from meter.ledger.ledger_store import NO_NODE, FrozenEvidence, load_revisions
from meter.windows.record_store import WindowRecord, read_record
from store.access import Principal
from store.database import Database

# Above it a window does not settle by itself, not even at the deadline: somebody must look.
SKEW_LIMIT_S = 2.0
# Above it the coverage of a window is flagged.
SKEW_FLAG_US = 500_000


@dataclass(frozen=True, slots=True)
class SettleRules:
    """When a window settles: `grace_us` after its end if complete, `deadline_us` after its end if it is not.

    `accepts_skew`: also where the node's clock was more than `SKEW_LIMIT_S` wrong.
    """

    grace_us: int
    deadline_us: int
    accepts_skew: bool = False


@dataclass(frozen=True, slots=True)
class Observed:
    """Evidence out of the store, and of how many readings it was made."""

    evidence: Evidence
    samples: int


@dataclass(frozen=True, slots=True)
class Charged:
    """What charges were made of; `digest` is of the frozen evidence, None where the window has not settled.

    `skew_us` is how far the node's clock was off at most; None: not measured.
    """

    record: WindowRecord
    evidence: Evidence
    digest: str | None
    skew_us: int | None


class Observer:
    """Reads records and evidence of windows; holds nothing between two of them."""

    def __init__(
        self,
        database: Database,
        principal: Principal,
        observations: Observations,
        evidence_store: EvidenceStore,
        rules: SettleRules,
    ) -> None:
        self._database = database
        self._principal = principal
        self._observations = observations
        self._evidence_store = evidence_store
        self._rules = rules

    def record(self, node: str, hour: Period) -> WindowRecord:
        """What the database says of the window, all of one moment."""
        with self._database.read() as connection:
            return read_record(connection, self._principal, node, hour)

    def complete_until_us(self, node: str, now_us: int) -> int:
        """Up to when every second is known to be delivered or a hole; nothing is missing where no device is."""
        past_us = now_us // MICROSECONDS * MICROSECONDS
        if node == NO_NODE:
            return past_us
        mark_s = self._observations.complete_until_s(node)
        return min(past_us, mark_s * MICROSECONDS) if mark_s is not None else 0

    def waits_for(self, hour: Period, node: str, inventory_us: int | None, complete_us: int, now_us: int) -> str | None:
        """Why the window cannot settle yet, in words; None: it can."""
        grace_end_us, deadline_us = hour.end_us + self._rules.grace_us, hour.end_us + self._rules.deadline_us
        if now_us < grace_end_us:
            return f"its end and {self._rules.grace_us // MICROSECONDS} s to pass"
        if node == NO_NODE or now_us >= deadline_us:
            return None
        # The context after the hour must be complete as well, so that a hole at its end is seen whole.
        if complete_us < hour.end_us + CONTEXT_S * MICROSECONDS:
            said = f"it is at {format_instant(complete_us)}" if complete_us else "it never said anything"
            return f"the node's collector ({said}), until {format_instant(deadline_us)} at the latest"
        if inventory_us is None or inventory_us < hour.end_us:
            said = "none came" if inventory_us is None else f"the last is of {format_instant(inventory_us)}"
            return f"an inventory report of the node ({said}), until {format_instant(deadline_us)} at the latest"
        return None

    def why_open(self, node: str, start_us: int, now_us: int) -> str:
        """Why the window is still to be rated, for a person; a store that is down is a reason as well."""
        hour = Period(start_us, start_us + HOUR_US)
        try:
            record = self.record(node, hour)
            complete_us = self.complete_until_us(node, now_us)
            waits_for = self.waits_for(hour, node, record.inventory_us, complete_us, now_us)
            if record.frozen is None and waits_for is not None:
                return waits_for
            skew_us = self.skew_us(node, hour) if record.frozen is None else None
        except UnavailableError as error:
            return f"the sample store: {error}"
        if self.is_skewed(skew_us):
            return (
                f"somebody to accept its clock, which was {(skew_us or 0) / MICROSECONDS:g} s wrong: `gputab meter run "
                "--accept-skew`"
            )
        return "a meter: `gputab meter run`, or `--follow`"

    def skew_us(self, node: str, hour: Period) -> int | None:
        """How far the node's clock was from the allocator's at most in that hour; None: not measured."""
        if node == NO_NODE:
            return None
        skew_s = self._observations.clock_skew_s(node, hour.first_second, ceil_second(hour.end_us))
        return None if skew_s is None else round(skew_s * MICROSECONDS)

    def is_skewed(self, skew_us: int | None) -> bool:
        """Whether a clock went so far wrong that its seconds are not those of its grants, and nobody said that it is to
        be billed so."""
        return not self._rules.accepts_skew and skew_us is not None and skew_us > SKEW_LIMIT_S * MICROSECONDS

    def observe(self, node: str, period: Period, record: WindowRecord) -> Observed:
        """The evidence of the period out of the store. Raises UnavailableError where that cannot be read whole."""
        if node == NO_NODE:
            return Observed(make_evidence(node, period, pl.DataFrame(schema=SAMPLE_COLUMNS), [], []), 0)
        start_s, end_s = period.first_second, ceil_second(period.end_us)
        samples = self._observations.samples(node, start_s - CONTEXT_S, end_s + CONTEXT_S)
        its_devices = [each for each in record.fleet.devices if each.node == node]
        devices = [(each.gpu_uuid, "") for each in its_devices]
        devices += [(each.gpu_uuid, each.mig_uuid) for each in record.fleet.instances]
        sizes: dict[str, int] = {}
        for each in record.fleet.devices:
            sizes[each.gpu_uuid] = max(each.vram_total_bytes, sizes.get(each.gpu_uuid, 0))
        return Observed(make_evidence(node, period, samples, record.contacts, devices, sizes), samples.height)

    def frozen(self, frozen: FrozenEvidence, node: str, hour: Period) -> Evidence:
        """The frozen evidence of an hour; EvidenceError where its file is gone or is not what was frozen."""
        return read_evidence(self._evidence_store, frozen.path, node, hour, frozen.digest)

    def charged(self, node: str, hour: Period) -> Charged:
        """What the charges of the window were made of: its evidence, and the record as it is by now."""
        record = self.record(node, hour)
        window = record.window
        if window is None or window.state == "open":
            until_us = window.rated_until_us if window else hour.start_us
            evidence = self.observe(node, Period(hour.start_us, until_us), record).evidence
            return Charged(record, evidence, None, self.skew_us(node, hour))
        with self._database.read() as connection:
            revisions = load_revisions(connection, self._principal, window)
        for frozen in revisions:
            if frozen.revision == window.revision:
                return Charged(record, self.frozen(frozen, node, hour), frozen.digest, frozen.skew_us)
        raise EvidenceError(
            f"cannot find revision {window.revision} of the evidence of {node!r} {format_instant(hour.start_us)!r}: it "
            "is not on record; restore the database from a backup"
        )

    def freeze(self, observed: Observed, revision: int, skew_us: int | None) -> FrozenEvidence:
        """Write the evidence as that revision of its window."""
        evidence = observed.evidence
        hour = format_instant(evidence.period.start_us)[:13].replace("T", "/")
        stem = f"{hour}/{quote(evidence.node, safe='') or '_'}.r{revision}"
        path, size_bytes = write_evidence(evidence, self._evidence_store, stem)
        return FrozenEvidence(
            revision, path, evidence.digest, size_bytes, observed.samples, evidence.quarantined_samples, skew_us
        )

    def as_it_stands(self, node: str, hour: Period, now_us: int) -> Evidence:
        """The evidence of an hour: frozen where the window has settled, else read from the store."""
        record = self.record(node, hour)
        if record.frozen is not None:
            return self.frozen(record.frozen, node, hour)
        until_us = min(hour.end_us, now_us // MICROSECONDS * MICROSECONDS)
        return self.observe(node, Period(hour.start_us, max(hour.start_us, until_us)), record).evidence
