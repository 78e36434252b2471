"""Cards whose MIG mode is switched under a grant, and reports from a clock that is ahead: nothing is granted twice."""

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sqlalchemy import update

from domain.clock import MICROSECONDS
from store.database import now_us
from store.tables.capacity import device_periods, grants

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Ledger, Service


@pytest.mark.parametrize("milli_gpu", [100, 900])
def test_no_share_is_granted_of_a_card_while_an_instance_of_it_is_held(
    service: "Service", hardware: "Hardware", milli_gpu: int
) -> None:
    """The instance is gone, but the grant of it has not ended."""
    card = hardware.h100_mig("GPU-0", 0, 0)
    service.furnish("n1", card)
    service.client("operator").adopt("MIG-GPU-0-0")
    held = service.grant("beta", kind="mig", mig_profile="1g.10gb")
    assert service.report("n1", replace(card, mig_enabled=False, sm_count=None, instances=())).json()["is_taken"]
    refused = service.ask("acme", kind="share", milli_gpu=milli_gpu)
    assert refused.status_code == 409
    assert refused.json()["reasons"]["n1"].endswith("1 × a MIG instance of it is still held")
    service.client("beta").release(held["allocation"])
    assert service.ask("acme", kind="share", milli_gpu=milli_gpu).status_code == 201


def test_a_card_that_is_held_as_a_whole_stays_so_in_another_mode(service: "Service", hardware: "Hardware") -> None:
    """A grant of 1,000 of 1,000 units of a card that has 132 by now, and the other way round."""
    card = replace(hardware.h100_mig("GPU-0", 0), mig_enabled=False, sm_count=None)
    service.furnish("n1", card)
    service.grant("beta", kind="whole")
    assert service.report("n1", hardware.h100_mig("GPU-0", 0, 0)).json()["is_taken"]
    service.client("operator").adopt("MIG-GPU-0-0")
    refused = service.ask("acme", kind="mig", mig_profile="1g.10gb")
    assert refused.json()["reasons"]["n1"].endswith("1 × every such instance is in use")
    (shown,) = service.client("operator").cards()
    assert (shown.compute_units, shown.compute_units_free, shown.free_profiles) == (132, 0, [])


def test_a_card_is_not_granted_before_its_period_begins(
    service: "Service", hardware: "Hardware", ledger: "Ledger"
) -> None:
    """A node's clock may be ahead; a grant that began before the card would be accounted for by none."""
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    with ledger.database.write() as connection:
        connection.execute(update(device_periods).values(start_us=now_us(connection) + 3_600 * MICROSECONDS))
    refused = service.ask("acme", kind="whole")
    assert refused.status_code == 409
    assert ledger.rows(grants) == []
