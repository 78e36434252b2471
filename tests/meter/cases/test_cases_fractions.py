"""Parts of cards, MIG and what is idle: public bugs with a right answer, each through the real way to the ledger."""

import io
from fractions import Fraction
from typing import Any

import pytest

from allocator.records.csv_rows import Problems, read_rows
from domain.errors import ConflictError, InputError
from domain.grants import GrantKind
from domain.money import NANO
from domain.prices import VramBasis
from domain.units import GIB, MIB
from meter.bills.invoice_store import load_draft
from meter.windows.record_store import read_record
from meter.windows.windows import Outcome, WindowResult
from store.access import Principal
from store.database import Database
from tests.meter.capacity import make_card, make_fleet, make_h100, make_instance, residuals_of, sums_of
from tests.meter.cases.booking import FREE_MEMORY, add_customer, add_rates, csv_of
from tests.meter.charges import gpu_charges, vram_charges
from tests.meter.closed_hour import close_hour
from tests.meter.facts import make_grant, make_rate, observe, use_of
from tests.meter.fixture_types import At, Bill, PassAt, PutGrants, Recorded
from tests.meter.hour import DONE, stretch
from tests.meter.ledgers import add_card, add_heartbeats, add_node, charges_of, remove_card

HOUR = 3_600
A100 = {"model": "NVIDIA A100-SXM4-80GB", "sku": "a100-80g", "compute_units": 98, "vram_total_bytes": 81_920 * MIB}


def _left(result: WindowResult) -> tuple[int | None, int | None]:
    assert result.window is not None
    return result.window.residual_compute, result.window.residual_vram


def test_four_replicas_of_a_card_are_one_card(
    ledger: Database,
    pass_at: PassAt,
    put_grants: PutGrants,
    recorded: Recorded,
) -> None:
    """metering A1, metering A2, cases 16: time slicing shows one card as four (OpenCost 2901 and 3828, HAMi 3073).

    Each quarter is a quarter of a GPU-hour at 0.48, all four are one, and nothing of the card is left or missing.
    """
    add_customer(ledger, make_rate("gpu", "0.48"), FREE_MEMORY)
    quarter: dict[str, Any] = {"tenant": "beta", "kind": GrantKind.SHARE, "compute_units": 250, "vram_bytes": 6 * GIB}
    quarters = [make_grant(allocation=f"pod-{n}", **quarter) for n in range(4)]
    put_grants(*quarters)
    result = pass_at(recorded(use_of(range(HOUR)), DONE), 3_700)
    bill = gpu_charges(result.charges)
    assert [(each.quantity, each.quantity_whole, each.amount_nano) for each in bill] == [
        (250 * HOUR, 1_000, 120_000_000)
    ] * 4
    assert sum(each.amount_nano for each in bill) == 480_000_000
    assert _left(result) == (0, 0)
    card = make_card(vram_total_bytes=25 * GIB, share_min_milli=100, share_min_vram_bytes=GIB)
    assert sums_of(make_fleet(card), quarters, observe()) == {
        "granted": (1_000 * HOUR, 24 * GIB * HOUR),
        "reserved": (0, GIB * HOUR),
    }


@pytest.mark.parametrize("milli", ["", "0", "1000", "one of ten"])
def test_a_fraction_that_is_not_known_is_refused_and_not_guessed(milli: str) -> None:
    """metering A3: a number of virtual cards that could not be read became a tenth (OpenCost 892)."""
    problems = Problems()
    read_rows(io.StringIO(csv_of({"kind": "share", "milli_gpu": milli})), problems)
    with pytest.raises(InputError, match=r"line 2: .*write 1 to 999"):
        problems.raise_any()


@pytest.mark.usefixtures("granted")
def test_capacity_that_is_not_known_blocks_the_close(
    ledger: Database, operator: Principal, pass_at: PassAt, recorded: Recorded, at: At
) -> None:
    """metering A4, cases 32: a card vanishes from what the cluster counts, and idle was -1 (kubecost 1978).

    prometheus-slurm-exporter 38 had -21 of none. Nothing is negative: there is no figure, and no close without it.
    """
    everything_seen = recorded(use_of(range(HOUR)), DONE)
    remove_card(ledger, "GPU-1")
    at(3_700)
    assert _left(pass_at(everything_seen, 3_700)) == (None, None)
    with pytest.raises(ConflictError, match="its capacity is not known"):
        close_hour(ledger, operator)
    add_card(ledger, "GPU-1")
    at(3_800)
    assert _left(pass_at(everything_seen, 3_800)) == (0, 0)
    close_hour(ledger, operator)


def test_what_two_slices_strand_is_no_tenants_and_no_ones_to_sell(bill: Bill) -> None:
    """metering A5: two 3g.40gb leave 14 of 98 SMs and no memory (Koku's formula, dra-driver-nvidia-gpu 361).

    Each dimension comes to the price of the whole card: of its SMs with what is stranded, of its memory without.
    """
    uuids = ["MIG-1", "MIG-2"]
    slices = [
        make_grant(
            allocation=uuid,
            mig_uuid=uuid,
            kind=GrantKind.MIG,
            compute_units=42,
            compute_units_total=98,
            vram_bytes=40_192 * MIB,
            model=A100["model"],
            sku="a100-80g/3g.40gb",
        )
        for uuid in uuids
    ]
    rows = [row for uuid in uuids for row in use_of(range(HOUR), mig=uuid)]
    rates = (make_rate("gpu", "3.00"), make_rate("vram", "0.04", "GiB-hour", basis=VramBasis.GRANTED))
    charges = bill(observe(rows), *slices, rates=rates)
    card = make_h100(**A100, vram_reserved_bytes=1_536 * MIB)
    instances = [make_instance(number, "3g.40gb", 4 * number - 4, 4, 42, 40_192) for number in (1, 2)]
    fleet = make_fleet(card, instances=instances)
    sums = sums_of(fleet, slices, observe(rows))

    assert sums["stranded"] == (14 * HOUR, 0)
    assert "idle" not in sums
    left = residuals_of(fleet, slices, observe(rows))
    assert (left.compute_unit_seconds, left.vram_byte_seconds) == (0, 0)
    stranded = Fraction(3 * sums["stranded"][0], 98 * HOUR)
    exact = [Fraction(3 * each.quantity, each.quantity_whole * HOUR) for each in gpu_charges(charges)]
    assert (exact, stranded, sum(exact) + stranded) == ([Fraction(9, 7)] * 2, Fraction(3, 7), Fraction(3))
    assert [each.amount_nano for each in gpu_charges(charges)] == [1_285_714_286] * 2
    # 2 x 39.25 GiB are all that can be sold of it.
    assert [each.amount_nano for each in vram_charges(charges)] == [1_570_000_000] * 2


def test_capacity_is_of_the_inventory_and_not_of_what_was_seen() -> None:
    """metering A7: of two cards one has samples over 24 h, so 24 GPU-hours are idle and not 0 (Koku COST-6625)."""
    day = 24 * HOUR
    fleet = make_fleet(make_card(), make_card(gpu_uuid="GPU-2"))
    sums = sums_of(fleet, [make_grant(0, day, vram_bytes=23 * GIB)], observe(use_of(range(0, day, 600)), end=day))
    assert {state: compute // 1_000 for state, (compute, _) in sums.items()} == {
        "granted": day,
        "idle": day,
        "reserved": 0,
    }


@pytest.mark.usefixtures("granted")
def test_prices_say_nothing_of_capacity(
    ledger: Database, operator: Principal, pass_at: PassAt, recorded: Recorded
) -> None:
    """metering A8: a row with a price on it was counted as more of the node (Koku COST-6630)."""
    seen = recorded(use_of(range(HOUR)), DONE)
    before = pass_at(seen, 3_700)
    with ledger.read() as connection:
        fleet = read_record(connection, operator, "n1", stretch(0, HOUR)).fleet
    add_rates(ledger, make_rate("gpu", "9.99", tenant="acme"), book="retail")
    after = pass_at(seen, 3_800)
    with ledger.read() as connection:
        assert read_record(connection, operator, "n1", stretch(0, HOUR)).fleet == fleet
    assert after.charges != before.charges
    assert _left(after) == _left(before) == (0, 0)


def test_what_no_rate_covers_stays_and_blocks_the_close(
    ledger: Database, operator: Principal, pass_at: PassAt, put_grants: PutGrants, recorded: Recorded, at: At
) -> None:
    """metering A9: the list has an A100, an H100 runs for an hour (Koku COST-7243, OpenCost 3444)."""
    add_customer(ledger, make_rate("gpu", "2.00", sku="a100-80g"), FREE_MEMORY)
    put_grants(make_grant(tenant="beta", sku="h100-80g"))
    seen = recorded(use_of(range(HOUR)), DONE)
    at(3_700)
    result = pass_at(seen, 3_700)
    (charge,) = gpu_charges(charges_of(ledger))
    assert (charge.rate_id, charge.granted_seconds, charge.quantity, charge.amount_nano) == (None, HOUR, 3_600_000, 0)
    assert result.window is not None
    assert (result.outcome, result.window.unpriced_seconds) == (Outcome.SETTLED, HOUR)
    with pytest.raises(ConflictError, match="3600 seconds of use have no price"):
        close_hour(ledger, operator)
    # With a price it can be closed, at that price.
    add_rates(ledger, make_rate("gpu", "2.52", sku="h100-80g"))
    at(3_800)
    priced = pass_at(seen, 3_800)
    assert [each.amount_nano for each in gpu_charges(priced.charges)] == [2_520_000_000]
    close_hour(ledger, operator)


def test_what_was_not_sampled_is_neither_idle_nor_less_of_the_card(
    ledger: Database,
    pass_at: PassAt,
    put_grants: PutGrants,
    recorded: Recorded,
) -> None:
    """metering A10: 50 min granted, 40 of 60 min sampled: idle was -10 min (OpenCost 3387, kubecost 1965).

    It is 10 min. The 10 min of the grant without a sample are billed on record, and say so.
    """
    add_heartbeats(ledger, 0, HOUR)
    grant, rows = make_grant(0, 3_000, vram_bytes=23 * GIB), use_of(range(2_400))
    put_grants(grant)
    result = pass_at(recorded(rows, DONE), 3_700)
    (charge,) = gpu_charges(result.charges)
    assert (charge.granted_seconds, charge.measured_seconds, charge.on_record_seconds) == (3_000, 2_400, 600)
    assert charge.covered_seconds == 2_400
    assert _left(result) == (0, 0)
    sums = sums_of(make_fleet(make_card()), [grant], observe(rows, heard=[(0, HOUR)]))
    assert (sums["granted"][0], sums["idle"][0]) == (3_000_000, 600_000)


def test_idle_capacity_stays_the_operators_however_it_might_be_shared(
    ledger: Database, operator: Principal, pass_at: PassAt, recorded: Recorded
) -> None:
    """metering A11: nobody has a weight, so the idle pool went to nobody (OpenCost 883); without cards there is none.

    It is a state of the card and no charge (OpenCost 1193, kubecost 1389).
    """
    result = pass_at(recorded(use_of(range(HOUR)), DONE), 3_700)
    assert result.charges == ()
    assert _left(result) == (0, 0)
    with ledger.read() as connection:
        fleet = read_record(connection, operator, "n1", stretch(0, HOUR)).fleet
    assert sums_of(fleet, [], observe())["idle"] == (2 * 1_000 * HOUR, 2 * 24 * GIB * HOUR)
    add_node(ledger, "n2", reported=36_000)
    with ledger.read() as connection:
        cpu_only = read_record(connection, operator, "n2", stretch(0, HOUR)).fleet
    assert sums_of(cpu_only, [], observe(node="n2")) == {}


def test_idle_cards_are_on_no_tenants_bill(
    ledger: Database,
    operator: Principal,
    pass_at: PassAt,
    put_grants: PutGrants,
    recorded: Recorded,
) -> None:
    """metering A12: a tenant that used 0.93 was shown 49.77 (StatCan aaw 1412). 0.93 it is, beside 22 idle cards."""
    add_customer(ledger, make_rate("gpu", "2.40"), FREE_MEMORY)
    for index in range(2, 23):
        add_card(ledger, f"GPU-{index + 1}", index=index)
    put_grants(make_grant(0, 1_395, tenant="beta"))
    pass_at(recorded(use_of(range(HOUR)), DONE), 3_700)
    with ledger.read() as connection:
        draft = load_draft(connection, operator, "beta", "2026-03-01", "2026-03-01")
        nothing = load_draft(connection, operator, "acme", "2026-03-01", "2026-03-01")
    assert (draft.total_nano, nothing.total_nano, nothing.lines) == (93 * NANO // 100, 0, ())
    assert [line.payable_nano for line in draft.lines] == [930_000_000, 0]
