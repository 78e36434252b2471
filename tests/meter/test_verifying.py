"""Proving a ledger: whoever changes anything that was charged, observed or closed is found out."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import delete, insert, select, update

from meter.windows.corrections import Corrector
from meter.windows.verifying import Verifier
from store.access import Principal
from store.database import Database
from store.tables.billing import charges, daily_charges, evidence, rates, windows
from store.tables.capacity import grants
from store.tables.closing import adjustments, corrections, hour_digests
from tests.meter.closed_hour import NOW, close_hour, rate_hours
from tests.meter.fixture_types import At, MakeGrant, MakeObserver, MakeRater, PutGrants, Recorded, UseOf
from tests.meter.hour import DONE, START_US, instant_us, stretch

Verify = Callable[[], list[str]]
COLUMNS = [each.name for each in charges.columns if each.name not in ("node", "window_start_us")]


@pytest.fixture
def verify(ledger: Database, operator: Principal, make_observer: MakeObserver, recorded: Recorded) -> Verify:
    """What is wrong with the ledger, by a store that has forgotten everything."""

    def verified() -> list[str]:
        verifier = Verifier(ledger, operator, make_observer(recorded([])))
        found = [
            problem for window in verifier.windows(stretch(0, 3_600)) for problem in verifier.verify_window(window)
        ]
        return [each.what for each in (*found, *verifier.verify_chain(), *verifier.verify_days())]

    return verified


@pytest.fixture
def settled(
    ledger: Database,
    operator: Principal,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    make_rater: MakeRater,
    recorded: Recorded,
    use_of: UseOf,
    at: At,
) -> None:
    """acme held GPU-1 for the hour and GPU-2 for ten minutes."""
    put_grants(make_grant(), make_grant(0, 600, allocation="a2", gpu_uuid="GPU-2"))
    at(NOW)
    rows = [*use_of(range(1_000)), *use_of(range(500), gpu="GPU-2")]
    rate_hours(ledger, operator, make_rater(recorded(rows, DONE)))


@pytest.fixture
def corrected(
    ledger: Database, operator: Principal, make_observer: MakeObserver, recorded: Recorded, use_of: UseOf, settled: None
) -> None:
    """The hour closed, and corrected twice."""
    close_hour(ledger, operator)
    for until in (1_600, 2_000):
        observer = make_observer(recorded([*use_of(range(until)), *use_of(range(500), gpu="GPU-2")], DONE))
        assert Corrector(ledger, operator, observer).correct("n1", START_US, "late", instant_us(NOW + 100))


@pytest.mark.usefixtures("settled")
def test_a_ledger_that_nobody_touched_is_vouched_for_without_raw_samples(
    ledger: Database, operator: Principal, verify: Verify
) -> None:
    assert verify() == []
    close_hour(ledger, operator)
    assert verify() == []


@pytest.mark.usefixtures("corrected")
def test_so_is_one_that_was_corrected(verify: Verify) -> None:
    assert verify() == []


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize(
    "column", [each.name for each in charges.columns if each.name not in ("node", "window_start_us")]
)
def test_every_column_of_a_charge_is_proved(ledger: Database, verify: Verify, column: str) -> None:
    """Before the close by rating it anew."""
    changes = {
        "rate_id": select(rates.c.rate_id).where(rates.c.dimension == "vram").scalar_subquery(),
        "tenant": "globex",
        "granted_seconds": charges.c.granted_seconds + 1,
        "measured_seconds": charges.c.measured_seconds + 1,
    }
    both = {
        "granted_seconds": {"free_seconds": charges.c.free_seconds + 1},
        "measured_seconds": {"granted_seconds": charges.c.granted_seconds + 1},
        "bridged_seconds": {"granted_seconds": charges.c.granted_seconds + 1},
        "on_record_seconds": {"granted_seconds": charges.c.granted_seconds + 1},
        "free_seconds": {"granted_seconds": charges.c.granted_seconds + 1},
    }
    kind = charges.c[column].type.python_type
    other = changes.get(column, charges.c[column] + (1 if kind is int else "x"))
    with ledger.write() as connection:
        connection.exec_driver_sql("INSERT INTO tenants SELECT 'globex', billing_zone, currency, 0 FROM tenants")
        one = (charges.c.allocation == "a1") & (charges.c.dimension == "gpu")
        connection.execute(update(charges).where(one).values({column: other, **both.get(column, {})}))
    assert verify() != []


@pytest.mark.usefixtures("settled")
def test_evidence_that_was_changed_or_is_gone_is_found(ledger: Database, verify: Verify, tmp_path: Path) -> None:
    (file,) = (tmp_path / "evidence").rglob("*.parquet")
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert [each.split(":")[0][:24] for each in verify()] == ["cannot read the evidence"]
    file.unlink()
    assert [each.split(":")[0][:24] for each in verify()] == ["cannot read the evidence"]
    file.write_bytes(content)
    with ledger.write() as connection:
        connection.execute(delete(evidence))
    assert verify() == ["its evidence is not on record"]


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("changed", ["price", "grant", "residual", "digest"])
def test_what_a_settled_window_stands_on_is_proved(ledger: Database, verify: Verify, changed: str) -> None:
    statement = {
        "price": update(rates).where(rates.c.dimension == "gpu").values(price="2.21"),
        "grant": update(grants).where(grants.c.allocation == "a2").values(end_us=instant_us(601)),
        "residual": update(windows).values(residual_compute=1),
        "digest": update(windows).values(evidence_digest="0" * 64),
    }[changed]
    with ledger.write() as connection:
        connection.execute(statement)
    assert verify() != []


@pytest.mark.usefixtures("corrected")
@pytest.mark.parametrize(
    "tamper",
    [
        update(charges).where(charges.c.allocation == "a1").values(amount_nano=charges.c.amount_nano + 1),
        delete(charges).where(charges.c.allocation == "a2"),
        update(windows).values(evidence_digest="0" * 64),
        update(windows).values(revision=7),
        update(windows).where(windows.c.state == "closed").values(state="settled"),
        update(hour_digests).values(digest="0" * 64),
        update(hour_digests).values(previous_digest="0" * 64),
        delete(hour_digests),
        update(adjustments).where(adjustments.c.rate_id.is_not(None)).values(amount_nano=adjustments.c.amount_nano - 1),
        update(adjustments).values(quantity=adjustments.c.quantity + 1),
        delete(adjustments).where(adjustments.c.dimension == "gpu"),
        update(corrections).where(corrections.c.correction_id == 1).values(reason="another"),
        update(corrections).values(principal="somebody"),
        update(corrections).values(created_us=corrections.c.created_us + 1),
        update(corrections).where(corrections.c.correction_id == 2).values(previous_digest=None),
        update(daily_charges).values(amount_nanos=daily_charges.c.amount_nanos + 1),
        delete(daily_charges).where(daily_charges.c.dimension == "gpu"),
    ],
    ids=str,
)
def test_what_was_closed_cannot_be_changed_unseen(ledger: Database, verify: Verify, tamper: object) -> None:
    with ledger.write() as connection:
        connection.execute(tamper)  # type: ignore[call-overload] # each is a statement
    assert verify() != []


@pytest.mark.usefixtures("corrected")
def test_a_charge_that_was_changed_together_with_its_days_and_its_adjustments_is_found_by_the_digest(
    ledger: Database, verify: Verify
) -> None:
    """One who moves money from the charge to its adjustment leaves every sum as it was."""
    one = charges.c.dimension == "gpu", charges.c.allocation == "a1"
    with ledger.write() as connection:
        connection.execute(update(charges).where(*one).values(amount_nano=charges.c.amount_nano + 5))
        adjusted = (
            adjustments.c.dimension == "gpu",
            adjustments.c.correction_id == 1,
            adjustments.c.allocation == "a1",
        )
        connection.execute(update(adjustments).where(*adjusted).values(amount_nano=adjustments.c.amount_nano - 5))
    assert sorted(verify()) == [
        "it is not what was written: its digest differs",
        "its windows or charges are not those that were closed: its digest differs",
    ]


@pytest.mark.usefixtures("settled")
def test_a_window_that_was_closed_by_hand_has_no_digest(ledger: Database, verify: Verify) -> None:
    with ledger.write() as connection:
        connection.execute(update(windows).where(windows.c.state == "settled").values(state="closed"))
        connection.execute(insert(hour_digests).values(start_us=0, digest="d", previous_digest=None))
    assert "it is closed and has no digest" in verify()
