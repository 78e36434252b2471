"""What a real ledger says, in the words of the model, and whether it is what the model has."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import RowMapping, select

from meter.ledger.closing_store import load_chain
from meter.ledger.corrections_store import load_adjustments, load_corrections
from meter.ledger.late_store import late_seconds
from meter.ledger.ledger_store import load_windows
from meter.rating.charges import Charge
from store.tables import billing
from tests.meter.hour import hours_after
from tests.meter.ledger_at_work import OPERATOR, PLAYED, LedgerAtWork, place_of
from tests.meter.ledger_expectation import Charges, Figures, Key
from tests.meter.ledger_model import LedgerModel, Place
from tests.meter.ledger_world import HOURS
from tests.meter.ledgers import charges_of


class LedgerChecks:
    """Compares, again and again, and remembers what must never change."""

    def __init__(self, work: LedgerAtWork, model: LedgerModel) -> None:
        self._work, self._model = work, model
        self._closed: dict[int, Any] = {}
        self._files: dict[str, bytes] = {}
        self._corrected: list[Any] = []

    def compare(self) -> None:
        """Windows, charges, what is owed, days, what came late, leases; and that nothing closed has changed."""
        model = self._model
        with self._work.database.read() as connection:
            states = {
                place_of(each.node, each.start_us): each.state for each in load_windows(connection, OPERATOR, PLAYED)
            }
            adjusted = load_adjustments(connection, OPERATOR)
            days = list(connection.execute(select(billing.daily_charges)).mappings())
            late = late_seconds(connection, OPERATOR)
        charged = charges_of(self._work.database)
        its = model.windows.items()
        _same("states", states, {place: window.state for place, window in its})
        _same("charges", _by_place(charged), {place: window.charges for place, window in its if window.charges})
        _same("owed", _by_place([*charged, *adjusted]), {place: window.owed for place, window in its if window.owed})
        _same("days", _days(days), _summed_by_day([*charged, *adjusted]))
        late_by_node: dict[str, int] = defaultdict(int)
        for (node, _), window in model.windows.items():
            late_by_node[node] += window.late
        _same("late", late, {node: seconds for node, seconds in late_by_node.items() if seconds})
        # One that has ended keeps nobody away: whoever takes the window next, and be it for nothing, clears it away.
        leases = [
            {place: until for place, until in each.items() if until > model.now}
            for each in (self._work.leases(), model.leases)
        ]
        _same("leases", *leases)
        self._compare_closed(charged)

    def _compare_closed(self, charged: list[Charge]) -> None:
        """Closed hours, all evidence and all corrections stay as they were first seen."""
        with self._work.database.read() as connection:
            chain = load_chain(connection, OPERATOR)
            corrections = load_corrections(connection, OPERATOR)
            corrected = [
                (each, load_adjustments(connection, OPERATOR, correction_id=each.correction_id)) for each in corrections
            ]
            windows = list(connection.execute(select(billing.windows).where(billing.windows.c.revision > 0)).mappings())
        assert {hours_after(each.start_us) for each in chain} == self._model.closed_hours
        for hour in chain:
            start_us = hour.start_us
            its = [
                {name: value for name, value in row.items() if name != "rated_us"}
                for row in windows
                if row["start_us"] == start_us
            ]
            seen = (hour, its, [each for each in charged if each.window_start_us == start_us])
            assert self._closed.setdefault(start_us, seen) == seen
        assert corrected[: len(self._corrected)] == self._corrected
        self._corrected = corrected
        files = self._work.files()
        assert {name: files.get(name) for name in self._files} == self._files
        self._files = files


def _same(what: str, found: Mapping[Any, Any], expected: Mapping[Any, Any]) -> None:
    """The ledger has what the model has; else only what differs is said."""
    differing = {key: (found.get(key), expected.get(key)) for key in {*found, *expected}}
    differing = {key: both for key, both in differing.items() if both[0] != both[1]}
    assert not differing, f"{what}, in the ledger and in the model: {differing}"


def _by_place(charges: Iterable[Charge]) -> dict[Place, Charges]:
    """Sums by window and key; what comes to nothing is left out."""
    found: dict[Place, Charges] = defaultdict(dict)
    for each in charges:
        its = found[place_of(each.node, each.window_start_us)]
        key: Key = (
            each.allocation,
            each.ordinal,
            each.dimension,
            each.rate_id,
            each.billing_date,
            each.tenant,
            each.project,
        )
        figures = (
            each.granted_seconds,
            each.measured_seconds,
            each.bridged_seconds,
            each.on_record_seconds,
            each.free_seconds,
            each.covered_seconds,
            each.quantity,
            each.amount_nano,
        )
        its[key] = _plus(its[key], figures) if key in its else figures
    # An open grant goes on for longer than is played.
    played = ((place, its) for place, its in found.items() if place[1] < HOURS)
    return {place: left for place, its in played if (left := {k: v for k, v in its.items() if any(v)})}


def _plus(before: Figures, more: Figures) -> Figures:
    summed = (None if a is None or b is None else a + b for a, b in zip(before, more, strict=True))
    return tuple(summed)  # type: ignore[return-value] # as many of them


def _summed_by_day(charges: Iterable[Charge]) -> dict[tuple[str, ...], tuple[int, int]]:
    """Seconds and money by tenant, day, project, dimension and rate, while there is a row at all."""
    sums: dict[tuple[str, ...], tuple[int, int]] = {}
    for each in charges:
        key = (each.tenant, each.billing_date, each.project, each.dimension, each.rate_id or "")
        seconds, amount = sums.get(key, (0, 0))
        sums[key] = (seconds + each.granted_seconds, amount + each.amount_nano)
    return sums


def _days(rows: Iterable[RowMapping]) -> dict[tuple[str, ...], tuple[int, int]]:
    """The same of the sums that the ledger keeps."""
    sums: dict[tuple[str, ...], tuple[int, int]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("tenant", "billing_date", "project", "dimension", "rate_id"))
        seconds, amount = sums.get(key, (0, 0))
        more = row["amount_wholes"] * 10**9 + row["amount_nanos"]
        sums[key] = (seconds + row["granted_seconds"], amount + more)
    return sums
