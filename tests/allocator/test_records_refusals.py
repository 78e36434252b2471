"""An import that is refused leaves nothing: a source speaks for itself only, a card is given once, closed is closed."""

from typing import TYPE_CHECKING

import pytest

from allocator.records.csv_rows import Problems
from allocator.records.store import NewTenants, import_records
from domain.clock import MICROSECONDS
from domain.errors import AccessError, ConflictError, InputError
from store.access import Principal, Role
from store.tables.access import projects, tenants
from store.tables.capacity import allocations, grants
from tests.allocator.records import SKUS, assert_refused, close, close_everywhere, csv_text, load

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Ledger, Service


def test_every_problem_of_a_file_is_reported_at_once_and_nothing_is_written(ledger: "Ledger") -> None:
    text = csv_text(
        {"end": "-5"},
        {"allocation": "ok"},
        {"allocation": "b", "vram_mib": ""},
        {"allocation": "c", "tenant": "nobody"},
        {"allocation": "ok", "gpu_uuid": "GPU-y", "project": "other"},
    )
    assert_refused(
        ledger,
        InputError,
        "line 2: .*line 4: vram_mib is missing.*line 6: 'ok' has another tenant.*line 5: unknown",
        text,
    )


def test_an_allocation_of_another_source_is_not_touched(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    ours = service.grant("acme", kind="whole")["allocation"]
    load(ledger, csv_text({}), source="slurm")
    assert_refused(ledger, ConflictError, "belongs to the source 'slurm'", csv_text({}))
    assert_refused(ledger, ConflictError, "belongs to the source 'service'", csv_text({"allocation": ours}))
    assert_refused(ledger, InputError, "cannot import as the source 'service'", csv_text({}), source="service")
    assert_refused(ledger, InputError, "as a source", csv_text({}), source="a b")


def test_tenants_and_projects_are_created_only_when_asked(ledger: "Ledger") -> None:
    text = csv_text({"tenant": "gamma", "project": "x"}, {"allocation": "b", "gpu_uuid": "GPU-y", "project": "new"})
    assert_refused(ledger, InputError, "line 2: unknown project 'x' of tenant 'gamma'.*line 3: unknown project", text)
    assert_refused(ledger, InputError, "'XX' as a currency", text, new_tenants=NewTenants("UTC", "XX"))
    assert_refused(ledger, InputError, "cannot find the time zone", text, new_tenants=NewTenants("Mars", "CNY"))
    load(ledger, text, new_tenants=NewTenants("Asia/Shanghai", "CNY"))
    (gamma,) = ledger.rows(tenants, tenant="gamma")
    assert (gamma.billing_zone, gamma.currency) == ("Asia/Shanghai", "CNY")
    assert {(row.tenant, row.project) for row in ledger.rows(projects)} >= {("gamma", "x"), ("acme", "new")}


def test_more_than_a_card_has_is_refused_with_the_line(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    """Also against what the service has granted itself."""
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    service.grant("acme", kind="share", milli_gpu=500)
    known = {"node": "n1", "gpu_uuid": "GPU-0", "model": "", "vram_mib": ""}
    assert_refused(
        ledger, InputError, "line 2: more than all of the card 'GPU-0'", csv_text({**known, "start": "0", "end": ""})
    )
    earlier = str(ledger.now_s() - 30)
    too_much = {**known, "start": earlier, "end": str(int(earlier) + 10), "vram_mib": "24564"}
    assert_refused(
        ledger, InputError, "line 2: .* bytes of VRAM .* are granted, of 25220349952 usable", csv_text(too_much)
    )
    load(ledger, csv_text({**too_much, "vram_mib": ""}))


def test_an_unknown_card_is_not_given_twice_either(ledger: "Ledger") -> None:
    text = csv_text({"end": ""}, {"allocation": "b", "end": ""})
    assert_refused(ledger, InputError, "line 3: more than all of the card 'GPU-x' is granted", text)
    load(ledger, csv_text({"end": ""}))
    assert_refused(ledger, InputError, "line 2: more than all of", csv_text({"allocation": "b", "end": ""}))


def test_what_would_change_a_closed_hour_is_refused_and_names_the_way(ledger: "Ledger") -> None:
    open_end = {"start": "5400", "end": ""}
    load(ledger, csv_text(open_end, {"allocation": "rec", "gpu_uuid": "", "node": ""}))
    close(ledger, "n9", 1, 2)
    close(ledger, "", 0)
    load(ledger, csv_text(open_end))
    for change in (
        {"start": "5400", "end": "7200"},
        {"start": "5400", "end": "10799"},
        {"start": "5400", "end": "", "vram_mib": "1"},
        {"start": "5400", "end": "", "project": "new"},
        {"start": "5400", "end": "", "source_id": "slurm:9"},
        {"start": "10000", "end": "20000", "allocation": "late", "gpu_uuid": "GPU-z"},
    ):
        assert_refused(
            ledger,
            ConflictError,
            "of 'n9' is closed; use `gputab meter correct`",
            csv_text(change),
            new_tenants=NewTenants("UTC", "CNY"),
        )
    assert_refused(
        ledger,
        ConflictError,
        "without a device",
        csv_text({"allocation": "rec", "gpu_uuid": "", "node": "", "end": "60"}),
    )
    assert_refused(ledger, ConflictError, "1970-01-01T01:00:00Z", csv_text({**open_end, "tenant": "beta"}))


@pytest.mark.parametrize(("before", "after"), [("", "slurm:9"), ("slurm:8", "slurm:9"), ("slurm:8", "")])
def test_another_name_by_which_use_is_known_changes_closed_hours(ledger: "Ledger", before: str, after: str) -> None:
    """The use of its owners is what a share is billed by."""
    row = {"start": "5400", "end": ""}
    load(ledger, csv_text({**row, "source_id": before}))
    changed = csv_text({**row, "source_id": after})
    close(ledger, "n8", 1, 2)
    close(ledger, "n9", 0)
    load(ledger, changed)
    load(ledger, csv_text({**row, "source_id": before}))
    close(ledger, "n9", 1, 2)
    assert_refused(ledger, ConflictError, "hour 1970-01-01T01:00:00Z of 'n9' is closed", changed)
    load(ledger, changed, corrects_closed=True)
    assert [each.source_id for each in ledger.rows(allocations)] == [after or None]


def test_an_hour_is_closed_also_for_a_node_that_had_nothing_in_it(ledger: "Ledger") -> None:
    """Nor for records without a device: there is no window that could say so."""
    load(ledger, csv_text({}))
    close_everywhere(ledger, 2)
    for late in (
        {"allocation": "late", "node": "n7", "gpu_uuid": "GPU-z", "start": "10000", "end": "10001"},
        {"allocation": "late", "node": "", "gpu_uuid": "", "start": "7199.999999", "end": ""},
        {"end": "7200.000001"},
    ):
        text = csv_text(late)
        assert_refused(ledger, ConflictError, "the hour 1970-01-01T02:00:00Z of .* is closed; use `gputab", text)
    for beside in ({"end": "7200"}, {"allocation": "later", "gpu_uuid": "GPU-z", "start": "10800", "end": "10801"}):
        load(ledger, csv_text(beside))
    assert load(ledger, csv_text({"end": "9000"}), corrects_closed=True).replaced == 1
    assert max(row.end_us for row in ledger.rows(grants) if row.allocation == "job-1") == 9_000 * MICROSECONDS


def test_an_open_record_may_end_after_hours_that_are_closed(ledger: "Ledger") -> None:
    """It says nothing new of the hours before: a running job is imported each hour until it ends."""
    load(ledger, csv_text({"end": ""}))
    close(ledger, "n9", 0, 1)
    load(ledger, csv_text({"end": "7200"}))
    assert ledger.rows(grants)[0].end_us == 7_200 * MICROSECONDS
    load(ledger, csv_text({"end": "9000", "labels": '{"a": "b"}'}))


def test_only_an_operator_imports(ledger: "Ledger") -> None:
    for role in (Role.TENANT, Role.BILLING, Role.NODE):
        with pytest.raises(AccessError):
            import_records(
                ledger.database, Principal("x", role, tenant="acme"), [], Problems(), source="csv", skus=SKUS
            )
