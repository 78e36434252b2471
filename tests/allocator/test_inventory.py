"""What nodes report: periods begin and end where something changes, and nothing is ever sold that is not there."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from domain.clock import MICROSECONDS
from domain.units import MIB
from store.tables.capacity import device_periods, device_states, events, mig_periods, nodes

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Ledger, Service

TABLES = (nodes, device_periods, mig_periods, device_states, events)


def periods(ledger: "Ledger", table: Any = device_periods, origin_s: int = 0, **where: Any) -> list[tuple[int, Any]]:
    """The intervals of the rows, in seconds from an origin."""
    return [
        (row.start_us // MICROSECONDS - origin_s, row.end_us and row.end_us // MICROSECONDS - origin_s)
        for row in sorted(ledger.rows(table, **where), key=lambda row: row.start_us)
    ]


def states(ledger: "Ledger") -> list[tuple[str, str, bool]]:
    return [(row.state, row.reason, row.end_us is None) for row in ledger.rows(device_states)]


def test_a_card_gets_a_period_with_all_that_its_price_depends_on(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    second = ledger.now_s() - 60
    assert service.report("n1", hardware.rtx4090("GPU-0", 3), observed_s=second).json() == {
        "is_taken": True,
        "held_us": second * MICROSECONDS,
    }
    (row,) = ledger.rows(device_periods)
    assert (row.node, row.device_index, row.sku, row.compute_units) == ("n1", 3, "rtx4090-24g", 1_000)
    assert (row.vram_total_bytes, row.vram_reserved_bytes) == (24_564 * MIB, 512 * MIB)
    assert (row.mig_enabled, row.offered_profiles, row.share_min_milli) == (False, "", 100)
    assert (row.start_us, row.end_us) == (second * MICROSECONDS, None)


def test_a_card_in_mig_mode_counts_sms_and_is_not_sold_in_shares(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    service.report("n1", hardware.h100_mig("GPU-9", 0, 0, 4))
    (row,) = ledger.rows(device_periods)
    assert (row.compute_units, row.mig_enabled, row.share_min_milli, row.share_min_vram_bytes) == (
        132,
        True,
        None,
        None,
    )
    assert row.offered_profiles.split(",")[0] == "1g.10gb"
    assert "7g.80gb" in row.offered_profiles
    assert [(each.mig_uuid, each.start_slice, each.sm_count, each.origin) for each in ledger.rows(mig_periods)] == [
        ("MIG-GPU-9-0", 0, 16, "foreign"),
        ("MIG-GPU-9-4", 4, 16, "foreign"),
    ]


def test_the_same_report_again_and_an_older_one_change_nothing(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    """Collectors retry from a queue: a report may come twice, and after a newer one."""
    second = ledger.now_s() - 60
    service.report("n1", hardware.rtx4090("GPU-0", 0), observed_s=second)
    before = ledger.everything(*TABLES)
    for observed_s in (second, second - 3_600):
        answer = service.report("n1", observed_s=observed_s)
        assert answer.status_code == 200
        assert answer.json() == {"is_taken": False, "held_us": second * MICROSECONDS}
        assert ledger.everything(*TABLES) == before


def test_an_unchanged_card_continues_its_period(service: "Service", ledger: "Ledger", hardware: "Hardware") -> None:
    now = ledger.now_s()
    for ago in (86_400, 60, 30):
        assert service.report("n1", hardware.rtx4090("GPU-0", 0), observed_s=now - ago).json()["is_taken"]
    assert periods(ledger, origin_s=now) == [(-86_400, None)]


@pytest.mark.parametrize(
    "change",
    [
        {"index": 1},
        {"vram_reserved_bytes": 600 * MIB},
        {"vram_total_bytes": 24_000 * MIB},
        {"model": "NVIDIA GeForce RTX 4090 D"},
        {"mig_enabled": True, "sm_count": 132},
    ],
)
def test_a_change_ends_a_period_and_begins_the_next_end_to_start(
    service: "Service", ledger: "Ledger", hardware: "Hardware", change: dict[str, Any]
) -> None:
    now = ledger.now_s()
    card = hardware.rtx4090("GPU-0", 0)
    service.report("n1", card, observed_s=now - 60)
    assert service.report("n1", replace(card, **change), observed_s=now - 30).status_code == 200
    assert periods(ledger, origin_s=now) == [(-60, -30), (-30, None)]


def test_the_instant_of_a_change_is_kept_with_the_rows_it_changes(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    """Of the write, by the database's clock, and not of the observation: a report may come late."""
    second = ledger.now_s()
    card = hardware.rtx4090("GPU-0", 0)
    service.report("n1", card, observed_s=second - 3_600)
    (begun,) = ledger.rows(device_periods)
    assert second * MICROSECONDS <= begun.changed_us <= (ledger.now_s() + 1) * MICROSECONDS
    service.report("n1", card, observed_s=second - 3_000)
    assert ledger.rows(device_periods) == [begun]
    time.sleep(0.002)  # a tick of SQLite's clock
    service.report("n1", replace(card, index=1), observed_s=second - 2_000)
    ended, following = ledger.rows(device_periods)
    assert begun.changed_us < ended.changed_us <= following.changed_us


def test_a_card_that_is_lost_keeps_its_capacity_on_the_books_but_takes_nothing_new(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    """HAMi #2592: a UUID that was gone was skipped, and its capacity looked free. A grant on it goes on."""
    now = service.furnish("n1", hardware.rtx4090("GPU-0", 0), hardware.rtx4090("GPU-1", 1))
    held = service.grant("acme", kind="whole")
    assert held["grants"][0]["gpu_uuid"] == "GPU-0"
    service.report("n1", observed_s=now - 20)
    assert periods(ledger, origin_s=now) == [(-60, None), (-60, None)]
    assert states(ledger) == [("failed", "absent from the inventory", True)] * 2
    assert [(row.kind, row.gpu_uuid) for row in ledger.rows(events)] == [("absent", "GPU-0"), ("absent", "GPU-1")]
    refused = service.ask("operator", tenant="acme", kind="whole")
    assert refused.json()["reasons"] == {"n1": "needs 1, has 0: 2 × failed (absent from the inventory)"}
    assert service.call("GET", f"/v1/allocations/{held['allocation']}", "acme").json()["is_open"]


def test_a_card_that_comes_back_is_in_service_again(service: "Service", ledger: "Ledger", hardware: "Hardware") -> None:
    """k8s-device-plugin #234: one fault was for ever."""
    card = hardware.rtx4090("GPU-0", 0)
    now = service.furnish("n1", card)
    service.report("n1", observed_s=now - 20)
    service.report("n1", observed_s=now - 19)
    service.report("n1", card, observed_s=now - 10)
    assert periods(ledger, origin_s=now) == [(-60, None)]
    assert periods(ledger, device_states, now) == [(-20, -10)]
    assert [row.kind for row in ledger.rows(events)] == ["absent", "returned"]
    service.grant("acme", kind="whole")


def test_a_draining_card_that_was_away_is_still_draining(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    """Also where the report that misses it waited in the node's queue, and speaks of a time before the operator did."""
    card = hardware.rtx4090("GPU-0", 0)
    service.furnish("n1", card)
    service.call("POST", "/v1/devices/GPU-0/state", "operator", json={"state": "draining", "reason": "fan"})
    service.report("n1", observed_s=ledger.now_s() - 20)
    assert states(ledger)[-1] == ("failed", "absent from the inventory", True)
    service.report("n1", card, observed_s=ledger.now_s() - 10)
    assert states(ledger)[-1] == ("draining", "fan", True)
    assert service.ask("acme", kind="whole").json()["reasons"] == {"n1": "needs 1, has 0: 1 × draining"}


def test_a_mig_instance_that_is_gone_ends_and_a_uuid_that_comes_back_is_a_new_row(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    now = ledger.now_s()
    for ago, starts in ((60, (0, 1)), (40, (1,)), (20, (0, 1))):
        service.report("n1", hardware.h100_mig("GPU-9", 0, *starts), observed_s=now - ago)
    assert periods(ledger, mig_periods, now, mig_uuid="MIG-GPU-9-0") == [(-60, -40), (-20, None)]
    assert periods(ledger, mig_periods, now, mig_uuid="MIG-GPU-9-1") == [(-60, None)]
    assert periods(ledger, origin_s=now) == [(-60, None)]


def test_a_foreign_instance_is_granted_only_after_it_was_adopted(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    service.furnish("n1", hardware.h100_mig("GPU-9", 0, 0))
    order = {"kind": "mig", "mig_profile": "1g.10gb"}
    assert "adopt it first" in service.ask("acme", **order).json()["reasons"]["n1"]
    for _ in range(2):
        assert service.call("POST", "/v1/mig-instances/MIG-GPU-9-0/adopt", "operator").status_code == 204
    first, second = sorted(ledger.rows(mig_periods), key=lambda row: row.start_us)
    assert (first.origin, second.origin, first.end_us, second.end_us) == ("foreign", "adopted", second.start_us, None)
    (grant,) = service.grant("acme", **order)["grants"]
    assert (grant["mig_uuid"], grant["compute_units"], grant["compute_units_total"]) == ("MIG-GPU-9-0", 16, 132)
    assert (grant["sku"], grant["vram_bytes"]) == ("h100-80g/1g.10gb", 9_984 * MIB)
    assert service.ask("beta", **order).json()["reasons"] == {"n1": "needs 1, has 0: 1 × every such instance is in use"}


def test_an_adopted_instance_stays_ours_while_only_its_reported_size_changes(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    card = hardware.h100_mig("GPU-9", 0, 0)
    service.furnish("n1", card)
    service.call("POST", "/v1/mig-instances/MIG-GPU-9-0/adopt", "operator")
    (instance,) = card.instances
    ledger_now = ledger.now_s()
    resized = replace(card, instances=(replace(instance, vram_bytes=9_900 * MIB),))
    service.report("n1", resized, observed_s=ledger_now + 1)
    assert ledger.rows(mig_periods)[-1].origin == "adopted"
    recut = replace(card, instances=(replace(instance, profile="1g.20gb", slices=2),))
    service.report("n1", recut, observed_s=ledger_now + 2)
    assert ledger.rows(mig_periods)[-1].origin == "foreign"


def test_a_card_moves_only_when_its_node_has_given_it_up(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    """A node that says it has another's card must not get it: reports come from machines that are rented out."""
    card = hardware.rtx4090("GPU-0", 0)
    now = service.furnish("n1", card)
    before = ledger.everything(*TABLES)
    stolen = service.report("n2", card, hardware.rtx4090("GPU-2", 1), observed_s=now - 30)
    assert stolen.status_code == 409
    assert "'GPU-0' is on 'n1'" in stolen.json()["detail"]
    assert ledger.everything(*TABLES) == before
    service.report("n1", observed_s=now - 20)
    assert service.report("n2", card, observed_s=now - 10).status_code == 200
    assert [(row.node, row.end_us is None) for row in ledger.rows(device_periods)] == [("n1", False), ("n2", True)]
    assert states(ledger) == [("failed", "absent from the inventory", False)]


def test_a_card_moves_from_a_node_that_is_silent(service: "Service", ledger: "Ledger", hardware: "Hardware") -> None:
    card = hardware.rtx4090("GPU-0", 0)
    service.furnish("n1", card)
    ledger.silence("n1", 11)
    assert service.report("n2", card, observed_s=ledger.now_s()).status_code == 200
