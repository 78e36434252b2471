"""Cards for operators: what is free, and taking them out of service and back."""

from typing import TYPE_CHECKING

from allocator.device_store import ABSENT
from store.tables.access import audit
from store.tables.capacity import device_states, events

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Ledger, Service


def put(service: "Service", state: str, reason: str, gpu_uuid: str = "GPU-0") -> int:
    body = {"state": state, "reason": reason}
    return service.call("POST", f"/v1/devices/{gpu_uuid}/state", "operator", json=body).status_code


def test_a_card_shows_what_is_free_of_it(service: "Service", hardware: "Hardware") -> None:
    service.furnish("n1", hardware.rtx4090("GPU-0", 0), hardware.h100_mig("GPU-9", 1, 0, 1))
    service.call("POST", "/v1/mig-instances/MIG-GPU-9-1/adopt", "operator")
    granted = service.grant("acme", kind="share", milli_gpu=300)["grants"][0]
    first, second = service.call("GET", "/v1/devices", "operator").json()["devices"]
    assert (first["gpu_uuid"], first["compute_units_free"], first["grants"]) == ("GPU-0", 700, 1)
    assert first["vram_usable_bytes"] - first["vram_free_bytes"] == granted["vram_bytes"]
    assert (second["compute_units_free"], second["free_profiles"], second["mig_enabled"]) == (132, ["1g.10gb"], True)


def test_a_card_out_of_service_keeps_its_grants_and_takes_no_new_ones_until_it_is_ok(
    service: "Service", ledger: "Ledger", hardware: "Hardware"
) -> None:
    """States with an explicit way back (HAMi #2200, NVIDIA DRA #1455)."""
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    held = service.grant("acme", kind="share", milli_gpu=100)
    for state in ("draining", "failed"):
        assert put(service, state, "fan") == 204
        refused = service.ask("operator", tenant="acme", kind="share", milli_gpu=100)
        assert refused.json()["reasons"] == {"n1": f"needs 1, has 0: 1 × {state} (fan)"}
    assert service.call("GET", f"/v1/allocations/{held['allocation']}", "acme").json()["is_open"]
    assert put(service, "ok", "fan replaced") == 204
    service.grant("acme", kind="share", milli_gpu=100)
    rows = ledger.rows(device_states)
    assert [(row.state, row.end_us) for row in rows] == [
        ("draining", rows[1].start_us),
        ("failed", rows[2].start_us),
        ("ok", None),
    ]
    assert [row.kind for row in ledger.rows(events)] == ["state"] * 3


def test_a_tenant_that_is_refused_reads_nothing_that_an_operator_wrote(
    service: "Service", hardware: "Hardware"
) -> None:
    """The reason may name another customer, or a ticket."""
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    assert put(service, "failed", "ECC since globex mined on it") == 204
    refused = service.ask("acme", kind="whole")
    assert refused.json()["reasons"] == {"n1": "needs 1, has 0: 1 × failed"}
    assert "globex" not in refused.text


def test_the_same_state_again_changes_nothing(service: "Service", ledger: "Ledger", hardware: "Hardware") -> None:
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    put(service, "draining", "fan")
    before = ledger.everything(device_states, events, audit)
    assert put(service, "draining", "fan") == 204
    assert ledger.everything(device_states, events, audit) == before


def test_a_card_that_is_absent_cannot_be_called_ok(service: "Service", ledger: "Ledger", hardware: "Hardware") -> None:
    """k8s-device-plugin PR #1641: cards advertised that could not be reached."""
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    service.report("n1", observed_s=ledger.now_s())
    assert put(service, "ok", "I say so") == 409
    assert ledger.rows(device_states)[-1].state == "failed"


def test_the_words_of_the_service_are_no_operators(service: "Service", ledger: "Ledger", hardware: "Hardware") -> None:
    """They would let another node have the card, and end with the next report."""
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    assert put(service, "failed", ABSENT) == 422
    assert ledger.rows(device_states) == []
    assert put(service, "failed", f"{ABSENT}, it seems") == 204
    service.report("n1", hardware.rtx4090("GPU-0", 0), observed_s=ledger.now_s())
    assert [row.end_us for row in ledger.rows(device_states)] == [None]
    assert service.report("n2", hardware.rtx4090("GPU-0", 0), observed_s=ledger.now_s()).status_code == 409


def test_an_unknown_card_or_state_is_refused(service: "Service", ledger: "Ledger", hardware: "Hardware") -> None:
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    assert put(service, "draining", "x", "GPU-none") == 404
    assert put(service, "broken", "x") == 422
    assert put(service, "suspect", "x") == 422
    assert put(service, "draining", "") == 422
    assert put(service, "draining", "two\nlines") == 422
    assert service.call("POST", "/v1/mig-instances/MIG-none/adopt", "operator").status_code == 404
    assert ledger.rows(device_states) == []
