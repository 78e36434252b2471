"""Importing records: all or nothing, twice is once, and what was exported comes back."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event, select

from allocator.inventory_store import take_inventory
from allocator.records.store import ImportOutcome, NewTenants
from allocator.stock_store import serialize_capacity
from domain.allocation_csv import COLUMNS, REQUIRED_COLUMNS
from domain.clock import MICROSECONDS
from domain.errors import AccessError, InputError
from domain.inventory import Inventory
from domain.period import HOUR_US
from domain.units import MIB
from store.access import Principal, Role
from store.tables.capacity import allocations, grants
from tests.allocator.records import SKUS, TABLES, another_process, assert_refused, csv_text, export, load

if TYPE_CHECKING:
    from types import ModuleType

    from tests.allocator.conftest import Hardware, Ledger, Service


def test_a_record_becomes_an_allocation_with_its_grants(ledger: "Ledger") -> None:
    outcome = load(
        ledger,
        csv_text(
            {"labels": '{"job":"7"}', "source_id": "s:1"},
            {"labels": '{"job":"7"}', "source_id": "s:1", "gpu_uuid": "GPU-y"},
        ),
    )
    assert outcome == ImportOutcome(added=1, replaced=0, unchanged=0, grants=2, record_only=0)
    (allocation,) = ledger.rows(allocations)
    assert (allocation.source, allocation.source_id, allocation.labels) == ("csv", "s:1", '{"job": "7"}')
    assert [(row.ordinal, row.gpu_uuid, row.sku, row.start_us, row.end_us) for row in ledger.rows(grants)] == [
        (0, "GPU-x", "l4-24g", 0, HOUR_US),
        (1, "GPU-y", "l4-24g", 0, HOUR_US),
    ]
    assert {row.vram_bytes for row in ledger.rows(grants)} == {22_522 * MIB}


def test_the_same_file_again_changes_nothing_in_any_order_of_its_lines(ledger: "Ledger") -> None:
    rows = [{"gpu_uuid": "GPU-y"}, {}, {"allocation": "job-2", "start": "3600", "end": ""}]
    load(ledger, csv_text(*rows))
    before = ledger.everything(*TABLES)
    for text in (csv_text(*rows), csv_text(*reversed(rows))):
        outcome = load(ledger, text)
        assert (outcome.added, outcome.replaced, outcome.unchanged) == (0, 0, 2)
        assert ledger.everything(*TABLES) == before


def test_equal_rows_are_separate_grants_unless_they_share_one_card(ledger: "Ledger") -> None:
    shared = {"kind": "share", "milli_gpu": "400", "vram_mib": "100", "gpu_uuid": "", "node": ""}
    load(ledger, csv_text(shared, shared))
    assert [(row.ordinal, row.compute_units) for row in ledger.rows(grants)] == [(0, 400), (1, 400)]
    on_a_card = {**shared, "allocation": "job-2", "gpu_uuid": "GPU-x", "node": "n9"}
    said = "line 3: 'job-2' has several shares of the card 'GPU-x' .*: write them as one row"
    assert_refused(ledger, InputError, said, csv_text(on_a_card, on_a_card))


def test_a_later_file_replaces_what_the_source_said_of_its_allocations_and_no_others(ledger: "Ledger") -> None:
    load(ledger, csv_text({"end": ""}, {"allocation": "job-2", "gpu_uuid": "GPU-y"}))
    created = {row.allocation: row.created_us for row in ledger.rows(allocations)}
    outcome = load(ledger, csv_text({"end": "1800"}))
    assert (outcome.added, outcome.replaced, outcome.unchanged) == (0, 1, 0)
    assert [(row.allocation, row.end_us) for row in ledger.rows(grants)] == [
        ("job-1", 1_800 * MICROSECONDS),
        ("job-2", HOUR_US),
    ]
    assert {row.allocation: row.created_us for row in ledger.rows(allocations)} == created


def test_a_card_may_pass_from_one_allocation_to_another_in_one_file(ledger: "Ledger") -> None:
    """Both are open: the old grant must go before the new one comes."""
    load(ledger, csv_text({"end": ""}, {"allocation": "job-2", "gpu_uuid": "GPU-y", "end": ""}))
    load(ledger, csv_text({"end": "", "gpu_uuid": "GPU-y"}, {"allocation": "job-2", "end": ""}))
    assert [(row.allocation, row.gpu_uuid) for row in ledger.rows(grants)] == [("job-1", "GPU-y"), ("job-2", "GPU-x")]


def test_records_without_a_device_stand_outside_and_are_counted(ledger: "Ledger") -> None:
    row = {"gpu_uuid": "", "node": ""}
    outcome = load(ledger, csv_text(row, row, {**row, "allocation": "b"}))
    assert (outcome.grants, outcome.record_only) == (3, 3)


def test_a_replaced_record_is_a_change_and_an_equal_one_is_none(ledger: "Ledger") -> None:
    """The meter looks for what was said after it had rated an hour."""
    load(ledger, csv_text({}, {"allocation": "other", "gpu_uuid": "GPU-y"}))
    before = {row.allocation: row.changed_us for row in ledger.rows(grants)}
    time.sleep(0.002)  # a tick of SQLite's clock
    load(ledger, csv_text({"end": "1800"}, {"allocation": "other", "gpu_uuid": "GPU-y"}))
    after = {row.allocation: row.changed_us for row in ledger.rows(grants)}
    assert after["other"] == before["other"]
    assert after["job-1"] > before["job-1"]


def test_an_export_imports_as_the_same_and_a_tenant_exports_its_own(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    load(
        ledger,
        csv_text({}, {"allocation": "b", "tenant": "beta", "gpu_uuid": "", "node": "", "end": "", "vram_mib": "0.5"}),
    )
    text = export(ledger)
    assert load(ledger, text).unchanged == 2
    assert export(ledger) == text
    own = export(ledger, Principal("x", Role.TENANT, tenant="beta"))
    assert [line.split(",")[0] for line in own.splitlines()] == ["allocation", "b"]
    with pytest.raises(AccessError):
        export(ledger, Principal("x", Role.NODE, node="n1"))


def test_the_header_of_an_export_has_every_column(ledger: "Ledger") -> None:
    assert export(ledger) == ",".join(COLUMNS) + "\n"
    assert COLUMNS[: len(REQUIRED_COLUMNS)] == REQUIRED_COLUMNS


def test_the_openb_trace_is_exact_and_importing_it_twice_changes_nothing(ledger: "Ledger", openb: "ModuleType") -> None:
    text = openb.allocation_csv(openb.OPENB)
    outcome = load(ledger, text, new_tenants=NewTenants("UTC", "CNY"))
    assert (outcome.grants, outcome.record_only) == (openb.GRANTS, openb.GRANTS)
    with ledger.database.read() as connection:
        rows = connection.execute(
            select(grants.c.compute_units, grants.c.compute_units_total, grants.c.start_us, grants.c.end_us)
        ).all()
    assert {row.compute_units_total for row in rows} == {1_000}
    assert min(row.start_us for row in rows) == 0
    exact = sum(row.compute_units * (row.end_us - row.start_us) for row in rows)
    assert exact == openb.MILLI_GPU_SECONDS * MICROSECONDS
    before = ledger.everything(allocations, grants)
    again = load(ledger, text, new_tenants=NewTenants("UTC", "CNY"))
    assert (again.added, again.replaced, again.unchanged) == (0, 0, outcome.added)
    assert ledger.everything(allocations, grants) == before


def test_a_file_is_judged_without_the_lock_that_grants_need(ledger: "Ledger") -> None:
    """A bad file is refused, and a good one made ready, while another process writes."""
    with another_process(ledger) as other, other.write() as writing:
        serialize_capacity(writing)
        assert_refused(ledger, InputError, "line 2: the model is missing", csv_text({"model": ""}))


def test_a_card_that_changes_between_judging_and_storing_is_seen(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    """The record gets its size from the card as it is when the record is stored."""
    card = hardware.rtx4090("GPU-0", 0)
    second = ledger.now_s() - 60
    service.report("n1", card, observed_s=second)
    smaller = replace(card, vram_reserved_bytes=card.vram_reserved_bytes + MIB)

    begun: list[str] = []

    def report_in_between(*_: Any) -> None:
        begun.append("a transaction")
        if len(begun) == 2:  # reading was the first, and this one is about to store
            node = Principal("n1", Role.NODE, node="n1")
            inventory = Inventory(second + 1, (smaller,))
            with another_process(ledger) as other, other.write() as writing:
                take_inventory(writing, node, "n1", inventory, skus=SKUS, share_grain=None)

    row = {"node": "n1", "gpu_uuid": "GPU-0", "model": "", "vram_mib": "", "start": str(second + 5), "end": ""}
    event.listen(ledger.database.engine, "checkout", report_in_between)
    try:
        load(ledger, csv_text(row))
    finally:
        event.remove(ledger.database.engine, "checkout", report_in_between)
    assert len(begun) == 2
    assert ledger.rows(grants)[0].vram_bytes == smaller.vram_total_bytes - smaller.vram_reserved_bytes
