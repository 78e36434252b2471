"""What can never be had is told apart from what is only taken now."""

from typing import TYPE_CHECKING, Any

import pytest

from allocator.service import create_app
from domain.skus import load_skus
from domain.units import GIB, MIB
from store.tables.capacity import allocations

if TYPE_CHECKING:
    from tests.allocator.conftest import Hardware, Ledger, Service


@pytest.fixture
def furnished(service: "Service", hardware: "Hardware") -> "Service":
    """n1 with two RTX 4090 and n2 with one and an H100 in MIG mode, every card but the H100 taken."""
    service.furnish("n1", hardware.rtx4090("GPU-0", 0), hardware.rtx4090("GPU-1", 1))
    service.furnish("n2", hardware.rtx4090("GPU-2", 0), hardware.h100_mig("GPU-9", 1, 0))
    service.grant("beta", kind="whole", count=2)
    service.grant("beta", kind="whole")
    return service


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ({"kind": "whole", "sku": "b200-180g"}, "the SKU 'b200-180g' as whole: no card has had it; the SKUs here are "),
        ({"kind": "whole", "sku": "h100-80g/1g.10gb"}, "h100-80g, rtx4090-24g"),
        ({"kind": "whole", "model": "B200"}, "the models here are NVIDIA GeForce RTX 4090, NVIDIA H100 80GB HBM3"),
        ({"kind": "whole", "model": "NVIDIA GeForce RTX 4090", "sku": "h100-80g"}, "no card has been both"),
        ({"kind": "whole", "count": 3}, "3 whole cards of one node: no node has more than 2 such"),
        ({"kind": "whole", "count": 2, "sku": "h100-80g"}, "no node has more than 1 such"),
        (
            {"kind": "mig", "mig_profile": "banana"},
            "'banana': no such card is known to have it; the profiles here are 1g.10gb",
        ),
        ({"kind": "mig", "mig_profile": "1g.10gb", "sku": "rtx4090-24g"}, "none can be cut into MIG instances"),
        ({"kind": "share", "milli_gpu": 99}, "a share of 99 milli-GPU: the smallest one sold is 100"),
        ({"kind": "share", "milli_gpu": 100, "vram_mib": 1_023}, "with 1023 MiB: it is sold with 1024 to 24052 MiB"),
        ({"kind": "share", "milli_gpu": 100, "vram_mib": 24_053}, "with 24053 MiB: it is sold with 1024 to 24052 MiB"),
    ],
)
def test_what_no_card_could_take_is_refused_for_good(
    furnished: "Service", ledger: "Ledger", order: dict[str, Any], said: str
) -> None:
    before = ledger.everything(allocations)
    refused = furnished.ask("acme", **order)
    assert refused.status_code == 422
    assert refused.json()["type"] == "urn:gputab:problem:input"
    assert refused.json()["detail"].startswith("cannot ever grant ")
    assert said in refused.json()["detail"]
    assert ledger.everything(allocations) == before


@pytest.mark.parametrize(
    "order",
    [
        {"kind": "whole", "sku": "rtx4090-24g"},
        {"kind": "whole", "count": 2},
        {"kind": "share", "milli_gpu": 100, "vram_mib": 24_052},
        {"kind": "share", "milli_gpu": 100, "sku": "h100-80g"},
        {"kind": "mig", "mig_profile": "1g.10gb", "sku": "h100-80g/1g.10gb"},
        {"kind": "mig", "mig_profile": "2g.20gb"},
    ],
)
def test_what_is_only_in_the_way_now_is_refused_for_now(furnished: "Service", order: dict[str, Any]) -> None:
    """A MIG instance may be made or adopted, and a card taken out of MIG mode."""
    refused = furnished.ask("acme", **order)
    assert refused.status_code == 409
    assert set(refused.json()["reasons"]) == {"n1", "n2"}


def test_a_share_is_refused_for_good_where_every_card_is_sold_whole(
    service: "Service", server: tuple[Any, str], ledger: "Ledger", hardware: "Hardware"
) -> None:
    server[0].app = create_app(ledger.database, skus=load_skus(), share_grain=None, sink=None)
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    refused = service.ask("acme", kind="share", milli_gpu=100)
    assert refused.status_code == 422
    assert "no such card is sold in shares; ask for a whole one" in refused.json()["detail"]


def test_a_model_that_a_card_once_was_may_come_back(service: "Service", hardware: "Hardware") -> None:
    service.furnish("n1", hardware.rtx4090("GPU-0", 0))
    other = hardware.rtx4090("GPU-0", 0, model="NVIDIA L4", vram_total_bytes=24 * GIB, vram_reserved_bytes=512 * MIB)
    assert service.report("n1", other).json()["is_taken"]
    assert service.ask("acme", kind="whole", model="nvidia geforce rtx 4090").status_code == 409


def test_nothing_is_impossible_while_no_card_is_known(service: "Service") -> None:
    refused = service.ask("acme", kind="whole", sku="b200-180g")
    assert refused.status_code == 409
    assert "no card is known" in refused.json()["detail"]
