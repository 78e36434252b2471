"""Asking for capacity over HTTP, seeing it, and giving it back."""

from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import insert, update

from domain.units import MIB
from store.tables.access import audit
from store.tables.capacity import allocations, grants, holds

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Ledger, Service


@pytest.fixture
def furnished(service: "Service", hardware: "Hardware") -> "Service":
    """n1 with four RTX 4090."""
    service.furnish("n1", *(hardware.rtx4090(f"GPU-{index}", index) for index in range(4)))
    return service


def test_whole_cards_of_one_node_are_granted_together(furnished: "Service", ledger: "Ledger") -> None:
    made = furnished.grant("acme", kind="whole", count=3, labels={"job": "42"})
    assert (made["tenant"], made["project"], made["source"], made["is_open"]) == ("acme", "lab", "service", True)
    assert made["labels"] == {"job": "42"}
    assert [(each["ordinal"], each["gpu_uuid"]) for each in made["grants"]] == [
        (0, "GPU-0"),
        (1, "GPU-1"),
        (2, "GPU-2"),
    ]
    assert {each["vram_bytes"] for each in made["grants"]} == {24_052 * MIB}
    assert {(each["milli_gpu"], each["sku"], each["end_us"]) for each in made["grants"]} == {
        (1_000, "rtx4090-24g", None)
    }
    assert len({each["start_us"] for each in made["grants"]}) == 1
    assert [row.action for row in ledger.rows(audit)][-1] == "create allocation"


def test_each_holder_of_a_card_has_a_row_of_its_own(furnished: "Service", ledger: "Ledger") -> None:
    """HAMi #2622: two containers on one card were counted as one."""
    for _ in range(2):
        furnished.grant("acme", kind="share", milli_gpu=400, vram_mib=4_096)
    rows = ledger.rows(grants)
    assert [(row.gpu_uuid, row.compute_units, row.vram_bytes) for row in rows] == [("GPU-0", 400, 4_096 * MIB)] * 2
    assert len({row.allocation for row in rows}) == 2
    third = furnished.grant("acme", kind="share", milli_gpu=400)
    assert third["grants"][0]["gpu_uuid"] == "GPU-1"


def test_all_of_a_request_is_granted_or_nothing(furnished: "Service", ledger: "Ledger") -> None:
    furnished.grant("acme", kind="whole", count=2)
    refused = furnished.ask("acme", kind="whole", count=3)
    assert refused.status_code == 409
    assert refused.json()["type"] == "urn:gputab:problem:capacity"
    assert refused.json()["reasons"] == {"n1": "needs 3, has 2: 2 × in use"}
    assert len(ledger.rows(allocations)) == 1


def test_what_is_released_is_free_at_once_and_releasing_it_again_changes_nothing(
    furnished: "Service", ledger: "Ledger"
) -> None:
    """dstack #3956: two stops at once left a block busy for ever, by a counter that lost an update."""
    made = furnished.grant("acme", kind="whole", count=4)
    path = f"/v1/allocations/{made['allocation']}/release"
    first = furnished.call("POST", path, "acme").json()
    assert not first["is_open"]
    assert all(each["end_us"] >= each["start_us"] for each in first["grants"])
    before = ledger.everything(grants, audit)
    assert furnished.call("POST", path, "acme").json() == first
    assert ledger.everything(grants, audit) == before
    assert furnished.grant("beta", kind="whole", count=4)["grants"][0]["start_us"] >= first["grants"][0]["end_us"]


def test_granting_and_releasing_are_changes_of_the_instant_they_happen_at(
    furnished: "Service", ledger: "Ledger"
) -> None:
    made = furnished.grant("acme", kind="whole")
    (granted,) = ledger.rows(grants)
    assert granted.changed_us == granted.start_us
    path = f"/v1/allocations/{made['allocation']}/release"
    furnished.call("POST", path, "acme")
    (released,) = ledger.rows(grants)
    assert released.changed_us == released.end_us
    furnished.call("POST", path, "acme")
    assert ledger.rows(grants) == [released]


def test_a_clock_that_was_set_back_does_not_end_a_grant_before_it_began(furnished: "Service", ledger: "Ledger") -> None:
    made = furnished.grant("acme", kind="whole")
    later_us = made["created_us"] + 3_600 * 10**6
    with ledger.database.write() as connection:
        connection.execute(update(grants).values(start_us=later_us))
    released = furnished.call("POST", f"/v1/allocations/{made['allocation']}/release", "acme").json()
    assert released["grants"][0]["end_us"] == later_us


def test_the_same_key_with_the_same_request_gives_the_same_allocation(furnished: "Service", ledger: "Ledger") -> None:
    first = furnished.ask("acme", key="k1", kind="whole")
    again = furnished.ask("acme", key="k1", kind="whole")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert len(ledger.rows(grants)) == 1
    named = furnished.ask("acme", key="k1", kind="whole", tenant="acme")
    assert named.status_code == 200


def test_the_same_key_with_another_request_is_a_conflict(furnished: "Service", ledger: "Ledger") -> None:
    furnished.ask("acme", key="k1", kind="whole")
    other = furnished.ask("acme", key="k1", kind="whole", count=2)
    assert other.status_code == 409
    assert other.json()["type"] == "urn:gputab:problem:conflict"
    assert len(ledger.rows(allocations)) == 1
    assert furnished.ask("beta", key="k1", kind="whole", count=2).status_code == 201


def test_a_key_gives_its_allocation_even_after_the_release(furnished: "Service") -> None:
    made = furnished.ask("acme", key="k1", kind="whole").json()
    furnished.call("POST", f"/v1/allocations/{made['allocation']}/release", "acme")
    again = furnished.ask("acme", key="k1", kind="whole")
    assert (again.status_code, again.json()["allocation"]) == (200, made["allocation"])
    assert not again.json()["is_open"]


def test_a_refused_request_does_not_use_up_its_key(furnished: "Service") -> None:
    held = furnished.grant("beta", kind="whole", count=4)
    assert furnished.ask("acme", key="k1", kind="whole").status_code == 409
    furnished.call("POST", f"/v1/allocations/{held['allocation']}/release", "beta")
    assert furnished.ask("acme", key="k1", kind="whole").status_code == 201


def test_an_operator_grants_to_a_tenant_by_name(furnished: "Service") -> None:
    assert furnished.grant("operator", kind="whole", tenant="beta")["tenant"] == "beta"
    assert furnished.ask("operator", kind="whole").status_code == 422
    assert furnished.ask("operator", kind="whole", tenant="nobody").status_code == 404
    assert furnished.ask("operator", kind="whole", tenant="beta", project="other").status_code == 404


def test_capacity_that_is_held_but_not_billed_is_not_granted(furnished: "Service", ledger: "Ledger") -> None:
    """A hold is a row like a grant: reserved, verified or released cards are in use."""
    now_us = ledger.now_s() * 10**6
    size = {"reason": "verifying", "compute_units": 1, "vram_bytes": 0}
    with ledger.database.write() as connection:
        connection.execute(insert(holds).values(gpu_uuid="GPU-0", **size, start_us=now_us, changed_us=now_us))
    assert furnished.grant("acme", kind="whole")["grants"][0]["gpu_uuid"] == "GPU-1"


def test_a_grant_that_a_record_says_ends_or_begins_later_is_in_the_way(furnished: "Service", ledger: "Ledger") -> None:
    """What is granted now has no end, so it would meet both."""
    made = furnished.grant("acme", kind="whole", count=4)
    hour_us = 3_600 * 10**6
    later_us = made["created_us"] + hour_us
    with ledger.database.write() as connection:
        connection.execute(update(grants).where(grants.c.ordinal < 2).values(end_us=later_us))
        connection.execute(update(grants).where(grants.c.ordinal >= 2).values(start_us=later_us, end_us=later_us + 1))
    assert furnished.ask("acme", kind="whole").json()["reasons"] == {"n1": "needs 1, has 0: 4 × in use"}


def test_a_page_goes_on_where_the_one_before_ended(furnished: "Service") -> None:
    made = [furnished.grant("acme", kind="share", milli_gpu=100)["allocation"] for _ in range(7)]
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = furnished.call("GET", "/v1/allocations", "acme", params={"limit": 3, **cursor}).json()
        assert len(page["allocations"]) <= 3
        seen += [each["allocation"] for each in page["allocations"]]
        if page["next_cursor"] is None:
            break
        cursor = {"cursor": page["next_cursor"]}
    assert sorted(seen) == sorted(made)
    assert seen[0] == made[-1]


def test_a_list_shows_open_or_ended_allocations_or_both(furnished: "Service") -> None:
    kept, ended = (furnished.grant("acme", kind="whole")["allocation"] for _ in range(2))
    furnished.call("POST", f"/v1/allocations/{ended}/release", "acme")

    def listed(**asked: str) -> set[str]:
        page = furnished.call("GET", "/v1/allocations", "acme", params=asked).json()
        return {each["allocation"] for each in page["allocations"]}

    assert (listed(), listed(state="ended"), listed(state="all")) == ({kept}, {ended}, {kept, ended})


def test_the_service_counts_what_it_did(furnished: "Service") -> None:
    furnished.grant("acme", kind="whole", count=2)
    furnished.ask("acme", kind="share", milli_gpu=1, count=1)
    furnished.ask("acme", kind="whole", count=3)
    furnished.call("GET", "/v1/scan/me", "acme")
    page = furnished.call("GET", "/metrics", "operator").text
    assert 'allocator_open_grants{kind="whole"} 2.0' in page
    assert 'allocator_open_grants{kind="mig"} 0.0' in page
    assert 'allocator_refusals_total{kind="whole"} 1.0' in page
    assert 'allocator_requests_total{method="POST",route="/v1/allocations",status="201"} 1.0' in page
    assert 'allocator_requests_total{method="GET",route="none",status="404"} 1.0' in page
    assert "/v1/scan" not in page
