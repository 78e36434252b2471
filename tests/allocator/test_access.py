"""Every door x every token: nobody passes a door that is not his, and a tenant learns of no other."""

import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import allocator
from allocator.gate import OPEN_DOORS
from store.tables.access import tokens
from store.tables.capacity import allocations, device_states, grants, mig_periods, node_contacts, nodes

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Ledger, Service

FOLDER = Path(allocator.__file__).parent
PEOPLE = ("acme", "beta", "billing", "operator", "n1", "n2")
INVENTORY = {"observed_s": 1, "devices": []}
ORDER = {"project": "lab", "kind": "whole"}

# Door -> who may pass, with a request that is sound. acme's allocation is {allocation}.
DOORS: dict[tuple[str, str], tuple[set[str], dict[str, Any]]] = {
    ("POST", "/v1/allocations"): ({"acme", "operator"}, {"json": {**ORDER, "tenant": "acme"}}),
    ("GET", "/v1/allocations"): ({"acme", "beta", "billing", "operator"}, {}),
    ("GET", "/v1/allocations/{allocation}"): ({"acme", "billing", "operator"}, {}),
    ("POST", "/v1/allocations/{allocation}/release"): ({"acme", "operator"}, {}),
    ("PUT", "/v1/nodes/{node}/inventory"): ({"n1"}, {"json": INVENTORY}),
    ("PUT", "/v1/nodes/{node}/heartbeat"): ({"n1"}, {}),
    ("GET", "/v1/devices"): ({"operator"}, {}),
    ("POST", "/v1/devices/{gpu_uuid}/state"): ({"operator"}, {"json": {"state": "ok", "reason": "x"}}),
    ("POST", "/v1/mig-instances/{mig_uuid}/adopt"): ({"operator"}, {}),
    ("GET", "/metrics"): ({"operator"}, {}),
    ("GET", "/healthz"): ({*PEOPLE}, {}),
}


@pytest.fixture
def names(service: "Service", hardware: "Hardware") -> dict[str, str]:
    """What stands for the names in a path."""
    service.furnish(
        "n1", *(hardware.rtx4090(f"GPU-{index}", index) for index in range(4)), hardware.h100_mig("GPU-9", 9, 0)
    )
    made = service.grant("acme", kind="whole")
    return {"allocation": made["allocation"], "node": "n1", "gpu_uuid": "GPU-0", "mig_uuid": "MIG-GPU-9-0"}


def doors(service: "Service") -> Iterator[tuple[str, str]]:
    for path, operations in service.call("GET", "/openapi.json", None).json()["paths"].items():
        for method in operations:
            yield method.upper(), path


def test_every_door_of_the_service_is_in_the_table(service: "Service") -> None:
    assert set(doors(service)) == set(DOORS)


def test_every_query_of_a_store_is_asked_by_somebody() -> None:
    """A function without a `Principal` could be put behind a new door and tell everything to everybody."""
    mechanics = {"serialize_capacity", "replace_open", "end_open"}
    found = 0
    for path in sorted(FOLDER.rglob("*store.py")):
        name = ".".join(("allocator", *path.relative_to(FOLDER).with_suffix("").parts))
        for function in vars(importlib.import_module(name)).values():
            if not inspect.isfunction(function) or function.__module__ != name or function.__name__.startswith("_"):
                continue
            asked_of = list(inspect.signature(function).parameters)
            if asked_of[0] in ("connection", "database") and function.__name__ not in mechanics:
                assert asked_of[1] == "principal", f"{name}.{function.__name__}"
                found += 1
    assert found > 12


def test_every_door_opens_to_its_own_and_to_nobody_else(service: "Service", names: dict[str, str]) -> None:
    for (method, path), (allowed, request) in DOORS.items():
        for who in PEOPLE:
            answer = service.call(method, path.format(**names), who, **request)
            assert (answer.status_code < 400) == (who in allowed), (who, method, path, answer.text)
            if who not in allowed:
                assert answer.status_code in (403, 404)
                assert answer.headers["content-type"] == "application/problem+json"


def test_without_a_good_token_every_door_but_the_open_ones_is_shut(
    service: "Service", ledger: "Ledger", names: dict[str, str]
) -> None:
    """The body is not read and the database not written; paths that do not exist are shut as well."""
    tables = (allocations, grants, nodes, node_contacts, device_states, mig_periods, tokens)
    before = ledger.everything(*tables)
    strangers = [None, "not-a-token", "expired", "revoked"]
    for method, path in [*DOORS, ("GET", "/v1/none"), ("DELETE", "/v1/allocations"), ("GET", "/v1/docs")]:
        for who in strangers:
            answer = service.call(method, path.format(**names), who, content=b"{")
            if path in OPEN_DOORS:
                assert answer.status_code == 200
                continue
            assert answer.status_code == 401, (method, path)
            assert answer.headers["content-type"] == "application/problem+json"
            assert answer.headers["www-authenticate"] == 'Bearer realm="gputab"'
    assert ledger.everything(*tables) == before


@pytest.mark.parametrize("header", ["Basic YTpi", "Bearer", "Token {secret}", "{secret}", "Bearer {secret}x"])
def test_a_token_counts_as_a_bearer_token_only(service: "Service", ledger: "Ledger", header: str) -> None:
    headers = {"Authorization": header.format(secret=ledger.tokens["operator"])}
    assert service.call("GET", "/v1/devices", None, headers=headers).status_code == 401
    assert service.call("GET", f"/v1/devices?token={ledger.tokens['operator']}", None).status_code == 401


def test_the_scheme_is_read_in_any_case(service: "Service", ledger: "Ledger") -> None:
    headers = {"Authorization": f"bearer {ledger.tokens['operator']}"}
    assert service.call("GET", "/v1/devices", None, headers=headers).status_code == 200


def test_another_tenants_allocation_looks_like_none(service: "Service", names: dict[str, str]) -> None:
    """Neither the status nor a word tells the two apart."""
    theirs, absent = names["allocation"], "al_0000000000000000"
    for method, path in (("GET", "/v1/allocations/{id}"), ("POST", "/v1/allocations/{id}/release")):
        one, other = (service.call(method, path.format(id=name), "beta") for name in (theirs, absent))
        assert one.status_code == other.status_code == 404
        assert one.text.replace(theirs, "ID") == other.text.replace(absent, "ID")
    assert service.call("GET", f"/v1/allocations/{theirs}", "acme").json()["is_open"]


def test_another_tenant_looks_like_none_to_a_request(service: "Service", names: dict[str, str]) -> None:
    one, other = (service.ask("beta", kind="whole", tenant=tenant) for tenant in ("acme", "nobody"))
    assert one.status_code == other.status_code == 404
    assert one.text.replace("acme", "T") == other.text.replace("nobody", "T")


def test_a_list_and_a_cursor_show_a_tenant_its_own_only(service: "Service", names: dict[str, str]) -> None:
    mine = service.grant("beta", kind="whole")["allocation"]
    for asked in ({}, {"state": "all"}, {"cursor": f"9999999999999999:{names['allocation']}"}):
        page = service.call("GET", "/v1/allocations", "beta", params=asked).json()
        assert [each["allocation"] for each in page["allocations"]] == [mine]
    everybody = service.call("GET", "/v1/allocations", "operator").json()["allocations"]
    assert {each["tenant"] for each in everybody} == {"acme", "beta"}


def test_a_key_of_one_tenant_says_nothing_to_another(service: "Service", names: dict[str, str]) -> None:
    service.grant("acme", kind="share", milli_gpu=100)
    assert service.ask("acme", key="k", kind="share", milli_gpu=100).status_code == 201
    assert service.ask("beta", key="k", kind="share", milli_gpu=100).status_code == 201


def test_a_refusal_names_no_card_and_no_tenant(service: "Service", names: dict[str, str]) -> None:
    refused = service.ask("beta", kind="whole", count=4).text
    assert "acme" not in refused
    assert "GPU-" not in refused
