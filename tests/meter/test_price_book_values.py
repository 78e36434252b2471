"""Values that YAML cannot make, or would make something else of: refused in one line, never taken for another."""

from pathlib import Path

import pytest

from domain.errors import InputError
from domain.prices import VramBasis
from domain.skus import load_skus
from meter.prices.price_book import read_price_book

VRAM = 'dimension: vram, sku: "*", price: "1", unit: GiB-hour, from: 2026-01-01T00:00:00Z'


def _book(rate: str) -> str:
    return f"book: retail\ncurrency: CNY\nrates:\n  - {{{rate}}}\n"


def _refusal(tmp_path: Path, text: str) -> str:
    (tmp_path / "book.yaml").write_text(text, "utf-8")
    with pytest.raises(InputError) as refused:
        read_price_book(tmp_path / "book.yaml", load_skus())
    message = str(refused.value)
    assert "\n" not in message
    assert len(message) < 7_000
    return message


@pytest.mark.parametrize("tag", ["int", "float", "bool", "timestamp"])
@pytest.mark.parametrize("value", ["x", '""', "2026-13-01", "9" * 5_000 + "x", "+"])
def test_a_value_that_is_not_what_it_is_tagged_as_is_named_with_its_place(tmp_path: Path, tag: str, value: str) -> None:
    message = _refusal(tmp_path, f"book: !!{tag} {value}\n")
    assert f"is no {tag} in " in message
    assert "line 1, column 7: " in message


@pytest.mark.parametrize("value", ["x", "[a, b]", "[[a, b], [c]]", "[{a: b}]"])
@pytest.mark.parametrize("tag", ["map", "set"])
def test_a_value_that_is_tagged_as_pairs_and_has_none_is_refused(tmp_path: Path, tag: str, value: str) -> None:
    assert "expected a mapping node" in _refusal(tmp_path, f"book: !!{tag} {value}\n")


def test_a_book_nested_without_end_is_refused(tmp_path: Path) -> None:
    """Written so, or by naming what stands above, which any text can do; some Pythons follow that to its end."""
    assert "nested too deeply; write " in _refusal(tmp_path, f"book: {'[' * 20_000}")
    links = "".join(f"k{i}: &k{i} [*k{i - 1}]\n" for i in range(1, 3_000))
    assert _refusal(tmp_path, f"k0: &k0 []\n{links}currency: *k2999\n")


def test_links_that_make_a_value_endless_are_said_in_short(tmp_path: Path) -> None:
    """Nine lines of links are 9^9 words where they are written out: each place of one value, and a name."""
    links = "k0: &k0 [x]\n" + "".join(f"k{i}: &k{i} [{', '.join([f'*k{i - 1}'] * 9)}]\n" for i in range(1, 10))
    places = ("dimension", "sku", "price", "unit", "basis", "from", "to", "tenant", "project")
    message = _refusal(
        tmp_path,
        f"{links}book: *k9\ncurrency: *k9\ngaps: {{bridge_seconds: *k9, never_ready: *k9}}\nrates:\n"
        f"  - {{{', '.join(f'{place}: *k9' for place in places)}}}\n",
    )
    for place in ("book: cannot use [[[", "currency: cannot use [[[", "gaps.bridge_seconds: cannot use [[[", "rate 1"):
        assert place in message


def test_a_file_that_no_person_wrote_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A hundred megabytes of YAML take an hour and all memory."""
    with (tmp_path / "book.yaml").open("wb") as file:
        file.truncate(100_000_000)
    with pytest.raises(InputError, match=r"it has more than 4194304 bytes; load its rates in several files that name"):
        read_price_book(tmp_path / "book.yaml", load_skus())


@pytest.mark.parametrize("sku", ["a100-80g/", "a100-80g//1g.10gb", "a100-80g/1g.10gb/x", "/1g.10gb"])
def test_half_a_sku_is_none(tmp_path: Path, sku: str) -> None:
    rate = f'dimension: gpu, sku: "{sku}", price: "1", unit: GPU-hour, from: 2026-01-01T00:00:00Z'
    assert f"rate 1: cannot find the SKU '{sku}'" in _refusal(tmp_path, _book(rate))


@pytest.mark.parametrize("basis", ["false", '""', "0", "[]", "{}"])
def test_a_wrong_basis_is_not_taken_for_a_missing_one(tmp_path: Path, basis: str) -> None:
    message = _refusal(tmp_path, _book(f"{VRAM}, basis: {basis}"))
    assert "rate 1: cannot use the basis " in message
    assert message.endswith("; write granted, used or max")


def test_a_missing_basis_is_max(tmp_path: Path) -> None:
    for rate in (VRAM, f"{VRAM}, basis: null"):
        (tmp_path / "book.yaml").write_text(_book(rate), "utf-8")
        assert read_price_book(tmp_path / "book.yaml", load_skus()).rates[0].basis is VramBasis.MAX


@pytest.mark.parametrize("who", ['tenant: ""', 'tenant: acme, project: ""'])
def test_an_empty_name_is_not_taken_for_everybody(tmp_path: Path, who: str) -> None:
    assert "rate 1: cannot use '' as a " in _refusal(tmp_path, _book(f"{VRAM}, {who}"))


def test_a_number_is_not_made_the_name_of_a_book(tmp_path: Path) -> None:
    message = _refusal(tmp_path, _book(VRAM).replace("retail", "5"))
    assert "as a price book; write its name, in quotes" in message


@pytest.mark.parametrize("missing", ["dimension", "sku", "price", "unit", "from"])
def test_what_is_missing_is_said_once(tmp_path: Path, missing: str) -> None:
    """A unit is never guessed, and a key that is not there is no wrong value beside it."""
    rate = {
        "dimension": "gpu",
        "sku": "rtx4090-24g",
        "price": '"2.20"',
        "unit": "GPU-hour",
        "from": "2026-01-01T00:00Z",
    }
    pairs = ", ".join(f"{key}: {value}" for key, value in rate.items() if key != missing)
    message = _refusal(tmp_path, _book(pairs))
    assert message.partition("': ")[2] == f"rate 1: {missing} is missing; write it"


def test_what_the_book_itself_lacks_is_said_once(tmp_path: Path) -> None:
    message = _refusal(tmp_path, "book: retail\n")
    said = "the book: currency is missing; write it; the book: rates is missing; write it"
    assert message.partition("': ")[2] == said
