"""The price book a person writes: what is read, and every mistake in one message with its place."""

import re
from decimal import Decimal
from pathlib import Path

import pytest

from domain.errors import InputError
from domain.money import Quote
from domain.period import parse_instant
from domain.prices import GapPolicy, GapRules, PriceBook, VramBasis
from domain.skus import load_skus
from meter.prices.price_book import read_price_book

BOOK = """
book: retail
currency: CNY
gaps: {bridge_seconds: 3, host_unreachable: free, collector_down: on_record, never_ready: free}
rates:
  - {dimension: gpu,  sku: rtx4090-24g, price: "2.20", unit: GPU-hour, from: 2026-01-01T00:00:00+08:00}
  - {dimension: vram, sku: "*", price: "0.03", unit: GiB-hour, basis: max, from: 2026-01-01T00:00:00+08:00}
"""
SINCE = "2026-01-01T00:00:00Z"
HEAD = "book: retail\ncurrency: CNY\n"
RATE = '{dimension: gpu, sku: "*", price: "1", unit: GPU-hour, from: 2026-01-01T00:00:00Z}'


def _read(tmp_path: Path, text: str, known: frozenset[str] = frozenset()) -> PriceBook:
    file = tmp_path / "book.yaml"
    file.write_text(text, "utf-8")
    return read_price_book(file, load_skus(), known)


def _rates(*rows: str) -> str:
    return f"{HEAD}rates:\n" + "".join(f"  - {row}\n" for row in rows)


def _problems(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(InputError) as refused:
        _read(tmp_path, text)
    message = str(refused.value)
    assert "\n" not in message
    head, _, problems = message.partition(f"{str(tmp_path / 'book.yaml')!r}: ")
    assert head in ("cannot use the price book ", "cannot read the price book ")
    return problems.split("; ")


def test_a_whole_book_is_read(tmp_path: Path) -> None:
    book = _read(tmp_path, BOOK)
    start_us = parse_instant("2025-12-31T16:00:00Z")
    assert (book.book, book.currency) == ("retail", "CNY")
    assert book.gaps == GapRules(3, GapPolicy.FREE, GapPolicy.ON_RECORD, GapPolicy.FREE)
    found = [(each.dimension, each.sku, each.quote, each.basis, each.start_us, each.end_us) for each in book.rates]
    assert found == [
        ("gpu", "rtx4090-24g", Quote(Decimal("2.20"), "GPU-hour"), None, start_us, None),
        ("vram", "*", Quote(Decimal("0.03"), "GiB-hour"), VramBasis.MAX, start_us, None),
    ]


def test_what_is_left_out_has_a_default(tmp_path: Path) -> None:
    book = _read(
        tmp_path,
        _rates(
            RATE,
            '{dimension: vram, sku: "*", price: "1", unit: GiB-hour, from: 1970-01-01T00:00:00Z, '
            "to: 1970-01-01T01:00:00Z, tenant: acme}",
        ),
    )
    assert book.gaps == GapRules()
    (vram,) = [each for each in book.rates if each.dimension == "vram"]
    assert (vram.basis, vram.tenant, vram.project, vram.start_us, vram.end_us) == (
        VramBasis.MAX,
        "acme",
        None,
        0,
        3_600_000_000,
    )


def test_a_rate_is_named_by_what_it_says_but_its_end(tmp_path: Path) -> None:
    """So an end can be added later, and nothing else can be changed under the same name."""
    first = _read(tmp_path, _rates(RATE)).rates[0].rate_id
    ended = RATE.replace("}", ", to: 2027-01-01T00:00:00Z}")
    assert _read(tmp_path, _rates(ended)).rates[0].rate_id == first
    others = [
        _rates(RATE).replace("retail", "partner"),
        _rates(RATE.replace('"1"', '"2"')),
        _rates(RATE.replace("GPU-hour", "GPU-second")),
        _rates(RATE.replace('"*"', "h100-80g")),
        _rates(RATE.replace("}", ", tenant: acme}")),
        _rates(RATE.replace("}", ", tenant: acme, project: p}")),
        _rates(RATE.replace("2026", "2025")),
    ]
    assert len({first, *(_read(tmp_path, text).rates[0].rate_id for text in others)}) == 8


@pytest.mark.parametrize("sku", ["h100-80g", "h100-80g/1g.10gb", "mycard-7g", '"*"'])
def test_a_sku_is_of_the_table_or_one_that_a_card_reports(tmp_path: Path, sku: str) -> None:
    book = _read(tmp_path, _rates(RATE.replace('"*"', sku)), known=frozenset({"mycard-7g"}))
    assert book.rates[0].sku == sku.strip('"')


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        # Not YAML, or not a book.
        ("book: [retail\n", "while parsing"),
        ("", "the file holds no book; begin with `book: NAME`"),
        ("- retail\n", "the file holds no book"),
        ("retail\n", "the file holds no book"),
        ("book: retail\n---\nbook: partner\n", "expected a single document"),
        ("book: !!python/object/apply:os.system [id]\n", "could not determine a constructor"),
        # The head.
        (f"currency: CNY\nrates: [{RATE}]\n", "the book: book is missing"),
        (f"book: Retail!\ncurrency: CNY\nrates: [{RATE}]\n", "book: cannot use 'Retail!' as a price book"),
        (f"book: retail\nrates: [{RATE}]\n", "the book: currency is missing"),
        (f"book: retail\ncurrency: yuan\nrates: [{RATE}]\n", "currency: cannot use 'yuan' as a currency"),
        (f"book: retail\ncurrency: 156\nrates: [{RATE}]\n", "currency: cannot use 156 as a currency"),
        (HEAD, "the book: rates is missing; write it"),
        (f"{HEAD}rates: []\n", "rates: cannot use a book without rates"),
        (f"{HEAD}rates: {RATE}\n", "rates: cannot use a book without rates"),
        (f"{HEAD}colour: red\nrates: [{RATE}]\n", "the book: unknown key 'colour'"),
        (f"{HEAD}5: red\nrates: [{RATE}]\n", "the book: unknown key 5"),
        # A key twice: YAML would take the last one and drop the other without a word.
        (f"{HEAD}rates: [{RATE}]\nrates: [{RATE}]\n", "'rates' is written twice"),
        (_rates(RATE.replace("}", ', price: "2"}')), "'price' is written twice"),
        # Gaps.
        (f"{HEAD}gaps: 3\nrates: [{RATE}]\n", "gaps: write `key: value` pairs"),
        (f"{HEAD}gaps: {{bridge: 3}}\nrates: [{RATE}]\n", "gaps: unknown key 'bridge'"),
        (f"{HEAD}gaps: {{bridge_seconds: -1}}\nrates: [{RATE}]\n", "gaps.bridge_seconds: cannot use -1; write 0 to 30"),
        (f"{HEAD}gaps: {{bridge_seconds: 31}}\nrates: [{RATE}]\n", "gaps.bridge_seconds: cannot use 31"),
        (f"{HEAD}gaps: {{bridge_seconds: 2.5}}\nrates: [{RATE}]\n", "gaps.bridge_seconds: cannot use 2.5"),
        (f"{HEAD}gaps: {{bridge_seconds: true}}\nrates: [{RATE}]\n", "gaps.bridge_seconds: cannot use True"),
        (f"{HEAD}gaps: {{never_ready: maybe}}\nrates: [{RATE}]\n", "gaps.never_ready: cannot use 'maybe'"),
        (f"{HEAD}gaps: {{host_unreachable: [free]}}\nrates: [{RATE}]\n", "gaps.host_unreachable: cannot use ['free']"),
        # A rate.
        (_rates("gpu"), "rate 1: write `key: value` pairs"),
        (_rates(RATE.replace("}", ", discount: 5}")), "rate 1: unknown key 'discount'"),
        (_rates(RATE.replace("dimension: gpu, ", "")), "rate 1: dimension is missing"),
        (_rates(RATE.replace("gpu,", "energy,")), "rate 1: cannot price the dimension 'energy'; write gpu, vram"),
        (_rates(RATE.replace("gpu,", "[gpu],")), "rate 1: cannot price the dimension ['gpu']"),
        (_rates(RATE.replace('sku: "*", ', "")), "rate 1: sku is missing"),
        (_rates(RATE.replace('"*"', "rtx4909")), "rate 1: cannot find the SKU 'rtx4909'"),
        (_rates(RATE.replace('price: "1", ', "")), "rate 1: price is missing"),
        (_rates(RATE.replace('"1"', "2.20")), "rate 1: cannot use the price 2.2: write it in quotes"),
        (_rates(RATE.replace('"1"', '"-2"')), "rate 1: cannot read the price '-2': write a decimal number, zero"),
        (_rates(RATE.replace('"1"', '"2,20"')), "rate 1: cannot read the price '2,20'"),
        (_rates(RATE.replace("unit: GPU-hour, ", "")), "rate 1: unit is missing"),
        (_rates(RATE.replace("GPU-hour", "hour")), "rate 1: cannot use the unit 'hour': write one of GPU-hour"),
        (_rates(RATE.replace("GPU-hour", "[GPU-hour]")), "rate 1: cannot use the unit ['GPU-hour']"),
        (_rates(RATE.replace("GPU-hour", "GiB-hour")), "rate 1: cannot price 'gpu' per GiB-hour"),
        (_rates(RATE.replace("gpu,", "vram,")), "rate 1: cannot price 'vram' per GPU-hour"),
        (_rates(RATE.replace("}", ", basis: max}")), "rate 1: cannot use a basis for 'gpu'; it goes with vram"),
        (
            _rates(RATE.replace("gpu,", "vram,").replace("GPU-hour", "GiB-hour").replace("}", ", basis: all}")),
            "rate 1: cannot use the basis 'all'; write granted, used or max",
        ),
        (_rates(RATE.replace(", from: 2026-01-01T00:00:00Z", "")), "rate 1: from is missing"),
        (_rates(RATE.replace("00Z", "00")), "rate 1, from: cannot use the naive time '2026-01-01T00:00:00'"),
        (_rates(RATE.replace("T00:00:00Z", "")), "rate 1, from: cannot use the naive time '2026-01-01'"),
        (_rates(RATE.replace("}", ", to: soon}")), "rate 1, to: cannot read 'soon' as a time"),
        # A number is a year to some and an epoch second to others.
        (_rates(RATE.replace("2026-01-01T00:00:00Z", "2026")), "rate 1, from: cannot read '2026' as a time"),
        (_rates(RATE.replace("2026-01-01T00:00:00Z", "0")), "rate 1, from: cannot read '0' as a time"),
        (_rates(RATE.replace("2026-01-01T00:00:00Z", "20260101")), "rate 1, from: cannot read '20260101' as a time"),
        (_rates(RATE.replace("}", ", to: 1767196800}")), "rate 1, to: cannot read '1767196800' as a time"),
        (_rates(RATE.replace("}", ", to: 2025-01-01T00:00:00Z}")), "rate 1: cannot use a period that ends at"),
        (_rates(RATE.replace("}", ", project: p}")), "rate 1: cannot use the project 'p' without its tenant"),
        (_rates(RATE.replace("}", ", tenant: [acme]}")), "rate 1: cannot use ['acme'] as a tenant"),
        (_rates(RATE.replace("}", ", tenant: Acme}")), "rate 1: cannot use 'Acme' as a tenant"),
        (_rates(RATE.replace("}", ", tenant: 5}")), "rate 1: cannot use 5 as a tenant"),
        (_rates(RATE.replace("}", ", tenant: acme, project: [p]}")), "rate 1: cannot use ['p'] as a project"),
        # Rates together.
        (_rates(RATE, RATE.replace('"1"', '"2"')), "rates: cannot use two rates for 'gpu' of '*'"),
        (_rates(RATE, RATE), "rates: cannot use two rates for 'gpu' of '*'"),
        (
            _rates(RATE.replace("}", ", to: 2026-01-01T00:00:00Z}"), RATE),
            "rates: cannot use 2 rates of 'gpu' from 2026-01-01T00:00:00Z that differ in nothing but their end",
        ),
        *(
            (
                _rates(
                    f'{{dimension: vram, sku: "*", price: "1", unit: GiB-hour, basis: {basis}, from: {SINCE}}}',
                    f'{{dimension: {dimension}, sku: h100-80g, price: "1", unit: GiB-hour, from: {SINCE}}}',
                ),
                f"rates: cannot price {dimension} beside vram with basis max or used, which hold it already",
            )
            for basis in ("max", "used")
            for dimension in ("vram_overuse", "vram_burst")
        ),
        (
            _rates(
                f'{{dimension: vram_burst, sku: "*", price: "1", unit: GiB-hour, from: {SINCE}}}',
                f'{{dimension: vram_overuse, sku: "*", price: "1", unit: GiB-hour, from: {SINCE}}}',
            ),
            "rates: cannot price vram_overuse beside vram_burst, which holds it already; keep one of them",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place_and_its_remedy(tmp_path: Path, text: str, problem: str) -> None:
    """Malformed or overlapping prices, unit missing, negative price, unknown SKU, naive time, and all the rest."""
    found = _problems(tmp_path, text)
    assert any(each.startswith(problem) for each in found) or problem in "; ".join(found), found


@pytest.mark.parametrize("dimension", ["vram_overuse", "vram_burst"])
def test_use_has_its_own_price_beside_what_was_granted(tmp_path: Path, dimension: str) -> None:
    text = _rates(
        '{dimension: vram, sku: "*", price: "1", unit: GiB-hour, basis: granted, from: 2026-01-01T00:00:00Z}',
        f'{{dimension: {dimension}, sku: "*", price: "1", unit: GiB-hour, from: 2026-01-01T00:00:00Z}}',
    )
    assert len(_read(tmp_path, text).rates) == 2


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    text = (
        "book: Retail\ncurrency: yuan\ngaps: {bridge_seconds: 99}\nrates:\n"
        f"  - {RATE.replace('gpu,', 'energy,')}\n"
        f"  - {RATE}\n"
        f"  - {RATE.replace(chr(34) + '1' + chr(34), '-1').replace('00Z', '00')}\n"
        "  - nothing\n"
    )
    message = "; ".join(_problems(tmp_path, text))
    for problem in (
        "book: cannot use 'Retail'",
        "currency: ",
        "gaps.bridge_seconds: ",
        "rate 1: cannot price the dimension",
        "rate 3: cannot use the price -1",
        "rate 3, from: cannot use the naive time",
        "rate 4: write `key: value` pairs",
    ):
        assert problem in message
    assert "rate 2" not in message


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^cannot read the price book '.*nowhere.yaml': No such file"):
        read_price_book(tmp_path / "nowhere.yaml", load_skus())
    with pytest.raises(InputError, match=r"^cannot read the price book .*Is a directory"):
        read_price_book(tmp_path, load_skus())
    (tmp_path / "latin.yaml").write_bytes(b"book: \xe9\n")
    with pytest.raises(InputError, match=r"^cannot read the price book ") as refused:
        read_price_book(tmp_path / "latin.yaml", load_skus())
    assert "\n" not in str(refused.value)


def test_times_keep_the_offset_they_were_written_with(tmp_path: Path) -> None:
    """YAML would make a time of its own of 2026-01-01T00:00:00+08:00 and forget the offset."""
    for written, epoch_s in (
        ("2026-01-01T00:00:00+08:00", 1_767_196_800),
        ('"2026-01-01T00:00:00+08:00"', 1_767_196_800),
        ("2026-01-01 00:00:00+08:00", 1_767_196_800),
        ("1970-01-01T00:00:00Z", 0),
    ):
        rate = _read(tmp_path, _rates(re.sub(r"from: .*}", f"from: {written}}}", RATE))).rates[0]
        assert rate.start_us == epoch_s * 1_000_000
