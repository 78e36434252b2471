"""Whole numbers of a book are plain digits: YAML's other notations look like them and are other numbers."""

from pathlib import Path

import pytest

from domain.errors import InputError
from domain.prices import PriceBook
from domain.skus import load_skus
from meter.prices.price_book import read_price_book

BOOK = """
book: retail
currency: CNY
gaps: {bridge_seconds: NUMBER}
rates:
  - {dimension: gpu, sku: "*", price: "2.20", unit: GPU-hour, from: 2026-01-01T00:00:00Z}
"""


def _read(folder: Path, number: str) -> PriceBook:
    file = folder / "book.yaml"
    file.write_text(BOOK.replace("NUMBER", number), "utf-8")
    return read_price_book(file, load_skus())


@pytest.mark.parametrize("name", ["010", "2026_01", "0x10"])
def test_a_name_that_looks_like_them_is_the_name_that_is_written(tmp_path: Path, name: str) -> None:
    """YAML would call the book 8, 202601 and 16."""
    (tmp_path / "book.yaml").write_text(BOOK.replace("retail", name).replace("NUMBER", "3"), "utf-8")
    assert read_price_book(tmp_path / "book.yaml", load_skus()).book == name


@pytest.mark.parametrize("number", ["0", "10", "30"])
def test_plain_digits_are_the_number_they_show(tmp_path: Path, number: str) -> None:
    assert _read(tmp_path, number).gaps.bridge_seconds == int(number)


@pytest.mark.parametrize(
    "number", ["010", "1_0", "0x10", "0b11", "0:10", "+10", "1e1", '"10"', "9" * 5_000, "-1", "-0x1"]
)
def test_other_notations_are_refused_with_what_was_written(tmp_path: Path, number: str) -> None:
    """010 is 8 to YAML, and 1_0 is 10."""
    with pytest.raises(InputError, match=r"gaps\.bridge_seconds: cannot use .*; write 0 to 30$"):
        _read(tmp_path, number)
