"""A MIG instance has one holder, on whatever card a record says it is."""

import io
from typing import TYPE_CHECKING

import pytest

from allocator.records.csv_rows import Problems, read_rows, write_rows
from allocator.records.store import ImportOutcome, import_records
from domain.allocation_csv import COLUMNS
from domain.errors import InputError
from domain.skus import load_skus
from store.access import Principal
from store.tables.capacity import allocations, grants

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Ledger, Service

ROW = {
    "allocation": "job-1",
    "tenant": "acme",
    "project": "lab",
    "node": "n8",
    "gpu_uuid": "GPU-x",
    "model": "NVIDIA H100 80GB HBM3",
    "kind": "mig",
    "mig_profile": "1g.10gb",
    "mig_uuid": "MIG-1",
    "start": "3600",
}
ELSEWHERE = {"allocation": "job-2", "node": "n9", "gpu_uuid": "GPU-y"}


def load(ledger: "Ledger", *rows: dict[str, str]) -> ImportOutcome:
    text = io.StringIO()
    write_rows(text, [[{**ROW, **row}.get(name, "") for name in COLUMNS] for row in rows])
    problems = Problems()
    found = read_rows(io.StringIO(text.getvalue()), problems)
    return import_records(ledger.database, Principal.local_operator(), found, problems, source="csv", skus=load_skus())


@pytest.mark.parametrize("rows", [({}, ELSEWHERE), (ELSEWHERE, {})])
def test_an_instance_that_is_open_on_another_card_is_refused_with_the_line(
    ledger: "Ledger", rows: tuple[dict[str, str], dict[str, str]]
) -> None:
    first, second = rows
    load(ledger, first)
    before = ledger.everything(allocations, grants)
    with pytest.raises(InputError) as refused:
        load(ledger, second)
    assert str(refused.value) == (
        "cannot import the records, nothing was written: line 2: the MIG instance 'MIG-1' is granted twice at "
        "1970-01-01T01:00:00Z: end the first before"
    )
    assert ledger.everything(allocations, grants) == before


def test_so_is_one_that_was_held_there_at_the_time(ledger: "Ledger") -> None:
    """No constraint of the database sees two grants that have ended."""
    load(ledger, {"end": "7200"})
    with pytest.raises(InputError, match="'MIG-1' is granted twice at 1970-01-01T01:59:59Z"):
        load(ledger, {**ELSEWHERE, "start": "7199", "end": "9000"})
    load(ledger, {**ELSEWHERE, "start": "7200", "end": "9000"})


def test_an_instance_may_pass_from_card_to_card_in_one_file(ledger: "Ledger") -> None:
    """What the file replaces is not in its way, and a grant that two of its rows meet is counted once."""
    load(ledger, {})
    load(ledger, {"end": "7200"}, {**ELSEWHERE, "start": "7200"})
    assert [(row.allocation, row.gpu_uuid) for row in ledger.rows(grants)] == [("job-1", "GPU-x"), ("job-2", "GPU-y")]


def test_a_grant_on_the_same_card_and_instance_is_one_grant(ledger: "Ledger") -> None:
    """It is found by its card and by its instance, and must not be in its own way."""
    load(ledger, {"end": "7200"})
    load(ledger, {"allocation": "job-2", "start": "7200"}, {"allocation": "job-3", "mig_uuid": "MIG-2"})
    assert len(ledger.rows(grants)) == 3


def test_an_instance_that_a_record_holds_on_another_card_is_not_granted(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    service.furnish("n1", hardware.h100_mig("GPU-9", 1, 0, 1))
    for start in (0, 1):
        service.client("operator").adopt(f"MIG-GPU-9-{start}")
    load(ledger, {"mig_uuid": "MIG-GPU-9-0"})
    given = service.grant("acme", kind="mig", mig_profile="1g.10gb")
    assert given["grants"][0]["mig_uuid"] == "MIG-GPU-9-1"
    assert service.ask("acme", kind="mig", mig_profile="1g.10gb").status_code == 409
