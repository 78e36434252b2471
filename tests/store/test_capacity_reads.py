"""Facts of grants and devices: which rows meet a period, and how an open one is read."""

from typing import Any

import pytest
from sqlalchemy import Connection

from domain.capacity import ShareGrain
from domain.grants import OPEN_END_US
from domain.period import Period
from store.access import Principal
from store.capacity import (
    DevicePeriod,
    known_skus,
    load_contacts,
    load_device_periods,
    load_device_states,
    load_grants,
    load_holds,
    load_mig_periods,
)
from store.database import Database
from store.tables.capacity import grants
from tests.store.legal_rows import put

SHARE = {"allocation": "a-acme", "gpu_uuid": "GPU-7", "kind": "share", "compute_units": 250}
# What meets [100, 200): by its start, by its end, by both, by neither.
EDGES = [(0, 100, False), (0, 101, True), (199, 300, True), (200, 300, False), (0, None, True), (200, None, False)]


@pytest.fixture
def ledger(two_tenants: Database) -> Database:
    with two_tenants.write() as connection:
        connection.execute(grants.delete())
    return two_tenants


def _grant(connection: Connection, ordinal: int, **changes: Any) -> None:
    put(connection, "grants", **{**SHARE, "ordinal": ordinal, **changes})


@pytest.mark.parametrize(("start_us", "end_us", "meets"), EDGES)
def test_a_grant_is_found_where_it_meets_the_period(
    ledger: Database, operator: Principal, start_us: int, end_us: int | None, meets: bool
) -> None:
    with ledger.write() as connection:
        _grant(connection, 0, start_us=start_us, end_us=end_us)
        found = load_grants(connection, operator, Period(100, 200))
    assert [(each.start_us, each.end_us) for each in found] == ([(start_us, end_us)] if meets else [])
    assert all(each.period == Period(start_us, OPEN_END_US if end_us is None else end_us) for each in found)


def test_grants_come_by_node_and_those_without_a_device_apart(ledger: Database, operator: Principal) -> None:
    """The node '' is the grants without a device, whatever node their record names."""
    with ledger.write() as connection:
        _grant(connection, 0, start_us=0)
        _grant(connection, 1, start_us=0, node="n2", gpu_uuid="GPU-8")
        _grant(connection, 2, start_us=0, node="n1", gpu_uuid=None)
        _grant(connection, 3, start_us=0, node="", gpu_uuid=None)
        by_node = {
            node: [each.ordinal for each in load_grants(connection, operator, Period(0, 9), node=node)]
            for node in ("n1", "n2", "n3", "", None)
        }
    assert by_node == {"n1": [0], "n2": [1], "n3": [], "": [2, 3], None: [0, 1, 2, 3]}


def test_grants_come_by_tenant_and_by_card(ledger: Database, operator: Principal) -> None:
    """Whatever node their record names; of no card and of no tenant there are none."""
    with ledger.write() as connection:
        _grant(connection, 0, start_us=0)
        _grant(connection, 1, start_us=0, node="n2", gpu_uuid="GPU-8")
        _grant(connection, 2, start_us=0, gpu_uuid=None)
        _grant(connection, 3, start_us=0, allocation="a-globex", node="n2")

        def found(**asked: Any) -> list[int]:
            return [each.ordinal for each in load_grants(connection, operator, Period(0, 9), **asked)]

        assert found(gpu_uuids={"GPU-7"}) == [0, 3]
        assert found(gpu_uuids=["GPU-8", "GPU-7"]) == [0, 1, 3]
        assert found(gpu_uuids=()) == []
        assert found(tenant="acme") == [0, 1, 2]
        assert found(tenant="globex", gpu_uuids={"GPU-7"}) == [3]
        assert found(tenant="nobody") == []
        assert found(node="n2", gpu_uuids={"GPU-7"}) == [3]


def test_the_periods_of_a_card_are_found_wherever_it_stood(ledger: Database, operator: Principal) -> None:
    with ledger.write() as connection:
        put(connection, "nodes", node="n2")
        for uuid, node, start_us, end_us in [
            ("GPU-1", "n1", 0, 50),
            ("GPU-1", "n2", 50, None),
            ("GPU-2", "n1", 0, None),
            ("GPU-1", "n1", -50, 0),
        ]:
            put(connection, "device_periods", gpu_uuid=uuid, node=node, start_us=start_us, end_us=end_us)

        def found(**asked: Any) -> list[tuple[str, str]]:
            rows = load_device_periods(connection, operator, Period(0, 99), **asked)
            return [(each.gpu_uuid, each.node) for each in rows]

        assert found(gpu_uuids={"GPU-1"}) == [("GPU-1", "n1"), ("GPU-1", "n2")]
        assert found(gpu_uuids={"GPU-1", "GPU-2"}, node="n1") == [("GPU-1", "n1"), ("GPU-2", "n1")]
        assert found(gpu_uuids=set()) == []


@pytest.mark.parametrize(
    ("changes", "usable", "grain"),
    [
        ({}, 99, None),
        ({"share_min_milli": 100, "share_min_vram_bytes": 10}, 99, ShareGrain(100, 10)),
        # The reserve of a card in MIG mode is in the sizes of its instances.
        ({"mig_enabled": True}, 100, None),
    ],
)
def test_a_card_says_what_of_it_can_be_had(changes: dict[str, Any], usable: int, grain: ShareGrain | None) -> None:
    values: dict[str, Any] = {
        "gpu_uuid": "GPU-1",
        "node": "n1",
        "device_index": 0,
        "model": "NVIDIA L4",
        "sku": "l4-24g",
        "compute_units": 1_000,
        "vram_total_bytes": 100,
        "vram_reserved_bytes": 1,
        "mig_enabled": False,
        "offered_profiles": (),
        "share_min_milli": None,
        "share_min_vram_bytes": None,
        "period": Period(0, 9),
    }
    device = DevicePeriod(**{**values, **changes})
    assert (device.usable_vram_bytes, device.share_grain) == (usable, grain)


def test_devices_and_what_lies_on_them_are_read_as_they_were(ledger: Database, operator: Principal) -> None:
    with ledger.write() as connection:
        sliced = {
            "sku": "a100-80g",
            "mig_enabled": True,
            "offered_profiles": "1g.10gb,2g.20gb",
            "share_min_milli": None,
            "share_min_vram_bytes": None,
        }
        put(connection, "device_periods", gpu_uuid="GPU-2", start_us=150, **sliced)
        put(connection, "device_periods", gpu_uuid="GPU-2", end_us=150, sku="a100-80g")
        put(connection, "device_periods", gpu_uuid="GPU-1", start_us=200, **sliced)
        put(connection, "mig_periods", gpu_uuid="GPU-2", origin="foreign", start_us=150)
        for gpu_uuid in ("GPU-1", "GPU-2"):
            put(connection, "holds", gpu_uuid=gpu_uuid, allocation=None, compute_units=1, end_us=120)
            put(connection, "device_states", gpu_uuid=gpu_uuid, state="draining", reason="fan", end_us=120)
        period, uuids = Period(100, 200), {"GPU-2"}
        devices = load_device_periods(connection, operator, period, node="n1")
        (instance,) = load_mig_periods(connection, operator, period, uuids)
        (hold,) = load_holds(connection, operator, period, uuids)
        (state_found,) = load_device_states(connection, operator, period, uuids)
        assert load_device_periods(connection, operator, period, node="n2") == []
        assert load_mig_periods(connection, operator, Period(0, 150), uuids) == []
        assert known_skus(connection, operator) == {"a100-80g"}
    assert [(each.gpu_uuid, each.offered_profiles, each.share_min_milli, each.period) for each in devices] == [
        ("GPU-2", (), 100, Period(0, 150)),
        ("GPU-2", ("1g.10gb", "2g.20gb"), None, Period(150, OPEN_END_US)),
    ]
    assert (instance.mig_uuid, instance.origin, instance.period) == ("MIG-1", "foreign", Period(150, OPEN_END_US))
    assert (hold.gpu_uuid, hold.compute_units, hold.period) == ("GPU-2", 1, Period(0, 120))
    assert (state_found.gpu_uuid, state_found.state, state_found.period) == ("GPU-2", "draining", Period(0, 120))


@pytest.mark.parametrize(
    ("start_us", "end_us", "meets"),
    [(0, 99, False), (0, 100, True), (150, 150, True), (199, 300, True), (200, 300, False)],
)
def test_a_stretch_of_contact_includes_its_last_heartbeat(
    ledger: Database, operator: Principal, start_us: int, end_us: int, meets: bool
) -> None:
    with ledger.write() as connection:
        put(connection, "node_contacts", start_us=start_us, end_us=end_us)
        found = load_contacts(connection, operator, Period(100, 200), node="n1")
        assert load_contacts(connection, operator, Period(100, 200), node="n2") == []
    assert found == ([Period(start_us, end_us)] if meets else [])
