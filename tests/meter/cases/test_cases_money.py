"""Prices, sums and what is counted: public bugs with a right answer, out of a ledger or as pure as rating is."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from domain.errors import InputError
from domain.grants import GrantKind
from domain.money import NANO, Quote
from domain.period import HOUR_US
from domain.prices import PriceBook, Rate, VramBasis
from domain.skus import load_skus
from domain.tenants import Tenant
from domain.units import GIB
from meter.bills.invoices import draft_invoice
from meter.ledger.ledger_store import Window
from meter.prices.price_book import read_price_book
from meter.rating.charges import Charge
from meter.rating.rating import rate
from store.database import Database
from tests.meter.cases.booking import add_customer, billed_seconds, take_in
from tests.meter.charges import gpu_charges, make_charge, vram_charges
from tests.meter.facts import make_grant, make_rate, observe, use_of
from tests.meter.fixture_types import Bill, MakeBook, PassAt, PutGrants, Recorded
from tests.meter.hour import DONE, START_US

HOUR = 3_600
CENT = NANO // 100
ACME = Tenant("acme", ZoneInfo("UTC"), "CNY", ((0, "retail"),))


def _payable(charges: list[Charge], rates: dict[str, Rate]) -> tuple[int, list[int]]:
    """The total of a draft invoice in cents, and its lines."""
    settled = Window("n1", START_US, "settled", START_US + HOUR_US, 1, "d", 0, 0, 0, 1)
    known = {(each.node, each.window_start_us): replace(settled, node=each.node) for each in charges}
    draft = draft_invoice(ACME, "2026-03-01", "2026-03-31", charges, rates, known)
    return draft.total_nano // CENT, [line.payable_nano // CENT for line in draft.lines]


def test_the_parts_of_a_card_in_cents_are_the_card_in_cents(make_book: MakeBook) -> None:
    """metering A6: 72 a day, 2 h of 4/7, 6 h of 1/7, 2 h of 2/7, and the rest (Koku's own example is a cent off).

    Exactly 3.428571..., 2.571428..., 1.714285..., 64.285714...; in cents 3.43, 2.57, 1.71 and 64.29, which are 72.00.
    """
    books = make_book(make_rate("gpu", "3.00"))
    sevenths = [(0, 2, 4), (2, 8, 1), (8, 10, 2), (0, 2, 3), (2, 8, 6), (8, 10, 5), (10, 24, 7)]
    grants = [
        make_grant(
            first * HOUR,
            last * HOUR,
            allocation=f"a{number}",
            project="house" if number > 2 else f"a{number}",
            gpu_uuid=None,
            node="",
            kind=GrantKind.SHARE,
            compute_units=parts,
            compute_units_total=7,
        )
        for number, (first, last, parts) in enumerate(sevenths)
    ]
    charges: list[Charge] = []
    for hour in range(24):
        evidence = observe(node="", start=hour * HOUR, end=(hour + 1) * HOUR)
        charges += gpu_charges(rate(evidence, grants, {"acme": ACME}, books))
    quantities = dict.fromkeys(("a0", "a1", "a2", "house"), 0)
    for each in charges:
        quantities[each.project] += each.quantity
    exact = [Fraction(3 * quantity, 7 * HOUR) for quantity in quantities.values()]
    assert exact == [Fraction(24, 7), Fraction(18, 7), Fraction(12, 7), Fraction(450, 7)]
    total, lines = _payable(charges, {each.rate_id: each for each in books["retail"].rates})
    assert (total, lines) == (7_200, [343, 257, 171, 6_429])


def test_lines_of_a_large_bill_are_its_total_to_the_cent() -> None:
    """metering D45: 23,072.5296 over 81 lines, each rounded by itself, was 23,072.51 (useautumn 3407, Lago 5121)."""
    exact = 23_072_529_600_000
    parts = [exact // 81 + (number < exact % 81) for number in range(81)]
    charges = [make_charge(project=f"p{n}", rate_id="r", amount_nano=part) for n, part in enumerate(parts)]
    of_rate = {"r": Rate("r", "gpu", "*", None, None, Quote(Decimal(1), "GPU-hour"), None, 0, None)}
    total, lines = _payable(charges, of_rate)
    assert (total, sum(lines), len(lines)) == (2_307_253, 2_307_253, 81)
    assert sum(round(Fraction(part, CENT)) for part in parts) != total


def _read(tmp_path: Path, price: str) -> PriceBook:
    path = tmp_path / "book.yaml"
    row = f'{{dimension: gpu, sku: "*", price: {price}, unit: GPU-hour, from: 1970-01-01T00:00:00Z}}'
    path.write_text(f"book: retail\ncurrency: CNY\nrates:\n  - {row}\n", "utf-8")
    return read_price_book(path, load_skus())


def test_a_quantity_keeps_all_its_digits_and_a_price_may_be_large(bill: Bill, tmp_path: Path) -> None:
    """metering D47: 1,234,567,891 bytes became ...890, and prices of 100 and more were refused (CloudKitty)."""
    used = 1_234_567_891
    rates = (*_read(tmp_path, '"250.00"').rates, make_rate("vram", "1", "GiB-hour", basis=VramBasis.USED))
    gpu, vram = bill(observe(use_of(range(HOUR), used)), make_grant(), rates=rates)
    assert (gpu.amount_nano, vram.quantity) == (250 * NANO, used * HOUR)


@pytest.mark.parametrize("price", ["-1", '"-1"', '"-0.01"', "4", "0.95"])
def test_a_price_is_a_text_that_is_not_below_nothing(tmp_path: Path, price: str) -> None:
    """metering D48, metering D47: -1 was a price and made a refund (elizaOS 22681); "4" and 4 were not the same price.

    A number that is not in quotes is refused as well: 0.95 is then no longer what was written.
    """
    with pytest.raises(InputError, match=r"rate 1: cannot (use|read) the price"):
        _read(tmp_path, price)


def test_a_rental_is_its_cards_by_its_time_and_nothing_else(
    ledger: Database, pass_at: PassAt, put_grants: PutGrants, recorded: Recorded
) -> None:
    """cases 19: memory without time in it, half an hour as one, the first card's count, a price per rental times cards.

    Basilica 194, 223 and 241. Two cards of 24 GiB for 30 min, per card and per GiB: 2 x 0.5 x 2.00 + 48 x 0.5 x 0.10.
    """
    add_customer(ledger, make_rate("gpu", "2.00"), make_rate("vram", "0.10", "GiB-hour", basis=VramBasis.GRANTED))
    put_grants(*(make_grant(0, HOUR // 2, tenant="beta", ordinal=n, gpu_uuid=f"GPU-{n + 1}") for n in range(2)))
    rows = [row for gpu in ("GPU-1", "GPU-2") for row in use_of(range(HOUR), gpu=gpu)]
    charges = pass_at(recorded(rows, DONE), 3_700).charges
    assert [each.amount_nano for each in gpu_charges(charges)] == [NANO] * 2
    assert [each.amount_nano for each in vram_charges(charges)] == [1_200_000_000] * 2
    assert [each.quantity for each in vram_charges(charges)] == [24 * GIB * HOUR // 2] * 2


def test_gpu_seconds_are_of_the_cards_a_job_had(ledger: Database, pass_at: PassAt, recorded: Recorded) -> None:
    """cases 37: eight GPUs and one CPU for as long had 0 GPU-seconds both (spur 805). It is eight times the time.

    A job without a card has no row of a grant, and is no part of the bill.
    """
    cards = [{"gpu_uuid": "", "node": "", "vram_mib": "24576", "end": "2026-03-01T10:15:00Z"} for _ in range(8)]
    assert take_in(ledger, *cards).grants == 8
    pass_at(recorded(), 3_700, node="")
    assert sum(billed_seconds(ledger).values()) == 8 * 900
    assert {allocation for allocation, _ in billed_seconds(ledger)} == {"job-1"}
