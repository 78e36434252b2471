"""What the cards of a log cost."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.logs.log import LogCard
from domain.errors import InputError
from domain.period import Period, parse_instant
from domain.skus import load_skus
from domain.units import GIB
from gputab.bill import LogPrices, book_prices, flat_prices
from gputab.log_usage import CardUsage, Held
from meter.prices.price_book import read_price_book

HOUR_US = 3_600 * 10**6
NOON_US = parse_instant("2026-01-01T12:00:00Z")


def used(
    hours: Fraction | int = 1,
    vram_gib: int | None = 10,
    *,
    model: str | None = "NVIDIA GeForce RTX 4090",
    total_gib: int | None = 24,
    mig_uuid: str | None = None,
) -> CardUsage:
    end_us = NOON_US + int(hours * HOUR_US)
    return CardUsage(
        name="0",
        card=LogCard("0", model=model, mig_uuid=mig_uuid),
        span=Period(NOON_US, end_us),
        held=(Held(NOON_US, end_us, 1, None if vram_gib is None else vram_gib * GIB),),
        gaps=(),
        readings=2,
        equal_times=0,
        out_of_order=0,
        has_busy=True,
        has_vram=vram_gib is not None,
        vram_peak_bytes=None,
        vram_total_bytes=None if total_gib is None else total_gib * GIB,
    )


def flat(gpu: str | None = None, vram: str | None = None) -> LogPrices:
    prices = flat_prices(gpu, vram, "CNY")
    assert prices is not None
    return prices


def from_book(folder: Path, *rates: str, sku: str | None = None) -> LogPrices:
    file = folder / "book.yaml"
    file.write_text("book: retail\ncurrency: CNY\nrates:\n" + "".join(f"  - {{{rate}}}\n" for rate in rates), "utf-8")
    skus = load_skus()
    return book_prices(read_price_book(file, skus), skus, sku)


GPU_RATE = 'dimension: gpu, sku: rtx4090-24g, price: "2.20", unit: GPU-hour, from: 2026-01-01T00:00:00Z'
VRAM_RATE = 'dimension: vram, sku: "*", price: "0.03", unit: GiB-hour, from: 2026-01-01T00:00:00Z'


def test_an_hour_costs_its_price_and_its_memory() -> None:
    assert flat("2.20", "0.03").amount(used()).nano == 2_500_000_000
    assert flat("2.20").amount(used()).nano == 2_200_000_000
    assert flat(None, "0.03").amount(used()).nano == 300_000_000


@given(st.integers(0, 10**12), st.decimals(0, 1_000, places=6), st.integers(0, 80))
def test_the_amount_is_exact_to_half_a_nano_unit_for_each_price(time_us: int, price: Decimal, gib: int) -> None:
    found = flat(f"{price:f}", "0.031").amount(used(Fraction(time_us, HOUR_US), gib)).nano
    exact = Fraction(time_us, HOUR_US) * (Fraction(price) + gib * Fraction("0.031")) * 10**9
    assert found is not None
    assert abs(found - exact) <= 1


def test_memory_that_is_not_known_is_not_billed_as_nothing() -> None:
    amount = flat("2.20", "0.03").amount(used(vram_gib=None))
    assert (amount.nano, amount.reason) == (
        None,
        "VRAM is priced, and the log does not say how much of it was in use",
    )
    assert flat("2.20").amount(used(vram_gib=None)).nano == 2_200_000_000


def test_memory_that_is_not_known_for_a_while_is_not_billed_short() -> None:
    usage = used()
    ((start_us, end_us, _, vram_bytes),) = usage.held
    middle_us = (start_us + end_us) // 2
    halves = (Held(start_us, middle_us, 1, vram_bytes), Held(middle_us, end_us, 1, None))
    amount = flat("2.20", "0.03").amount(replace(usage, held=halves))
    assert amount.nano is None
    assert amount.reason == "VRAM is priced, and the log does not say for 1,800.000 s how much was in use"


def test_the_sku_is_found_by_model_and_memory(tmp_path: Path) -> None:
    prices = from_book(tmp_path, GPU_RATE, VRAM_RATE)
    assert prices.amount(used()).nano == 2_500_000_000
    amount = prices.amount(used(model="NVIDIA L4", total_gib=22))
    assert (amount.nano, amount.reason) == (None, "gpu has no rate for l4-24g at 2026-01-01T12:00:00Z in the book")


@pytest.mark.parametrize("usage", [used(model=None), used(total_gib=None)])
def test_a_sku_that_the_log_does_not_tell_is_asked_for(tmp_path: Path, usage: CardUsage) -> None:
    amount = from_book(tmp_path, GPU_RATE).amount(usage)
    assert amount.nano is None
    assert (amount.reason or "").endswith("say it with --sku")
    assert from_book(tmp_path, GPU_RATE, sku="rtx4090-24g").amount(usage).nano == 2_200_000_000
    # Where every card has one price nobody needs to ask.
    assert from_book(tmp_path, VRAM_RATE).amount(usage).nano == 300_000_000


def test_an_unknown_sku_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot find the SKU 'rtx4091': give one of a100-40g, "):
        from_book(tmp_path, GPU_RATE, sku="rtx4091")


def test_a_rate_that_changes_in_the_middle_of_a_log_counts_from_there(tmp_path: Path) -> None:
    prices = from_book(
        tmp_path,
        'dimension: gpu, sku: "*", price: "2", unit: GPU-hour, from: 2026-01-01T00:00:00Z, to: 2026-01-01T12:15:00Z',
        'dimension: gpu, sku: "*", price: "4", unit: GPU-hour, from: 2026-01-01T12:15:00Z',
    )
    assert prices.amount(used()).nano == 500_000_000 + 3_000_000_000


def test_a_time_without_a_rate_is_told(tmp_path: Path) -> None:
    prices = from_book(tmp_path, 'dimension: gpu, sku: "*", price: "2", unit: GPU-hour, from: 2026-01-01T12:30:00Z')
    amount = prices.amount(used())
    assert (amount.nano, amount.reason) == (
        None,
        "gpu has no rate for rtx4090-24g at 2026-01-01T12:00:00Z in the book",
    )


def test_rates_of_one_tenant_are_nobodys(tmp_path: Path) -> None:
    amount = from_book(tmp_path, GPU_RATE + ", tenant: acme").amount(used())
    assert amount.nano is None


def test_a_mig_instance_has_no_price_of_a_card() -> None:
    amount = flat("2.20").amount(used(mig_uuid="MIG-a"))
    assert amount.nano is None
    assert "MIG instance" in (amount.reason or "")


def test_what_the_prices_leave_out_is_known(tmp_path: Path) -> None:
    assert flat("1").unpriced == ("vram",)
    assert flat("1", "1").unpriced == ()
    assert from_book(tmp_path, VRAM_RATE).unpriced == ("gpu",)


@pytest.mark.parametrize(
    ("gpu", "vram", "currency", "message"),
    [
        ("1", None, None, "cannot use a price without its currency: add --currency"),
        (None, None, "CNY", "cannot use --currency without a price: add --gpu-hour or --vram-gib-hour"),
        ("1", None, "yuan", "cannot use 'yuan' as a currency"),
        ("1e3", None, "CNY", "cannot read the price '1e3'"),
        ("-1", None, "CNY", "cannot read the price '-1'"),
        (None, "0,03", "CNY", "cannot read the price '0,03'"),
    ],
)
def test_prices_that_are_half_given_or_none_are_refused(
    gpu: str | None, vram: str | None, currency: str | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        flat_prices(gpu, vram, currency)


def test_without_prices_there_are_none() -> None:
    assert flat_prices(None, None, None) is None
