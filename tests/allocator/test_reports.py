"""Which reports of a node are believed, and for how long a node counts as there."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from domain.inventory import Device
from domain.units import MIB
from store.tables.capacity import device_periods, device_states, events, mig_periods, node_contacts, nodes

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Ledger, Service

TABLES = (nodes, device_periods, mig_periods, device_states, events)


def changed(card: Device, **values: Any) -> Device:
    """The card with values of any type, as a stranger may send them."""
    return replace(card, **values)


def bad_reports(hardware: "Hardware") -> dict[str, tuple[Any, ...]]:
    card = hardware.rtx4090("GPU-1", 1)
    mig = hardware.h100_mig("GPU-9", 2, 0)
    (instance,) = mig.instances
    return {
        "reserved": (replace(card, vram_reserved_bytes=card.vram_total_bytes),),
        "no VRAM": (replace(card, vram_total_bytes=0, vram_reserved_bytes=0),),
        "more VRAM than any card": (replace(card, vram_total_bytes=2**43 + 1),),
        "more SMs than any card": (replace(mig, sm_count=10_001),),
        "an instance of more VRAM than any card": (replace(mig, instances=(replace(instance, vram_bytes=2**53),)),),
        "a UUID twice": (card, replace(card, index=2)),
        "an index twice": (card, replace(card, uuid="GPU-2")),
        "a negative size": (replace(card, vram_reserved_bytes=-1),),
        "a fraction": (changed(card, vram_total_bytes=1.5e9),),
        "not a number": (changed(card, index=None),),
        "a UUID that is no name": (replace(card, uuid="GPU 1"),),
        "an endless model": (replace(card, model="x" * 200),),
        "a model that is not printable": (replace(card, model="a\nb"),),
        "MIG without SMs": (replace(mig, sm_count=None),),
        "instances with MIG off": (replace(mig, mig_enabled=False),),
        "an instance twice": (replace(mig, instances=(instance, replace(instance, start=1))),),
        "instances that overlap": (replace(mig, instances=(instance, replace(instance, uuid="MIG-x"))),),
        "more SMs than the card": (replace(mig, sm_count=15),),
        "more VRAM than the card": (replace(mig, vram_total_bytes=9_983 * MIB, vram_reserved_bytes=0),),
    }


def test_a_report_that_cannot_be_true_is_refused_whole(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    before = ledger.everything(*TABLES)
    for name, devices in bad_reports(hardware).items():
        answer = service.report("n1", hardware.rtx4090("GPU-3", 7), *devices)
        assert answer.status_code == 422, name
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["detail"].startswith("cannot "), name
        assert ledger.everything(*TABLES) == before, name


def test_a_report_from_the_future_is_refused_beyond_the_skew_that_settles(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    ahead = service.report("n1", hardware.rtx4090("GPU-0", 0), observed_s=ledger.now_s() + 60)
    assert ahead.status_code == 422
    assert "set the node's clock" in ahead.json()["detail"]
    assert ledger.rows(device_periods) == []
    assert service.report("n1", hardware.rtx4090("GPU-0", 0), observed_s=ledger.now_s() + 1).status_code == 200


def test_heartbeats_make_one_stretch_until_there_are_none_for_ten_seconds(service: "Service", ledger: "Ledger") -> None:
    first = service.call("PUT", "/v1/nodes/n1/heartbeat", "n1").json()["now_us"]
    second = service.call("PUT", "/v1/nodes/n1/heartbeat", "n1").json()["now_us"]
    assert [(row.start_us, row.end_us) for row in ledger.rows(node_contacts)] == [(first, second)]
    ledger.silence("n1", 9)
    service.beat("n1")
    assert len(ledger.rows(node_contacts)) == 1
    ledger.silence("n1", 11)
    service.beat("n1")
    assert len(ledger.rows(node_contacts)) == 2


def test_nothing_is_granted_on_a_node_that_is_silent(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    ledger.silence("n1", 11)
    assert service.ask("acme", kind="whole").json()["reasons"] == {"n1": "needs 1, has 0: 1 × no heartbeat of the node"}
    service.beat("n1")
    service.grant("acme", kind="whole")
