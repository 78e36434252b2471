"""What is sold: the operator's table, and names made up for what it lacks."""

from pathlib import Path

import pytest

from domain.errors import InputError
from domain.skus import SkuTable, load_skus

GIB = 2**30


def _table(tmp_path: Path, text: str) -> SkuTable:
    file = tmp_path / "skus.toml"
    file.write_text(text, "utf-8")
    return load_skus(file)


@pytest.mark.parametrize(
    ("model", "vram_total_bytes", "profile", "sku"),
    [
        ("NVIDIA GeForce RTX 4090", 24 * GIB, None, "rtx4090-24g"),
        ("NVIDIA GeForce RTX 4090", 25_757_220_864, None, "rtx4090-24g"),
        ("nvidia geforce rtx 4090", 24 * GIB, None, "rtx4090-24g"),
        ("NVIDIA A100-SXM4-80GB", 80 * GIB, "1g.10gb", "a100-80g/1g.10gb"),
        ("NVIDIA H200", 150_754_820_096, None, "h200-141g"),
    ],
)
def test_a_card_is_found_by_its_drivers_name_and_size(
    model: str, vram_total_bytes: int, profile: str | None, sku: str
) -> None:
    assert load_skus().sku_of(model, vram_total_bytes, profile) == sku


@pytest.mark.parametrize(
    ("model", "gib", "sku"),
    [
        ("NVIDIA GeForce RTX 2080 Ti", 11, "geforce-rtx-2080-ti-11g"),
        ("NVIDIA GeForce RTX 4090", 48, "geforce-rtx-4090-48g"),
        ("Tesla V100S-PCIE-32GB", 32, "tesla-v100s-pcie-32gb-32g"),
        ("", 0, "unknown"),
        ("Graphics Device / *", 16, "graphics-device-16g"),
    ],
)
def test_a_card_the_table_lacks_gets_a_name_of_its_own(model: str, gib: int, sku: str) -> None:
    """It is counted and shown as unpriced instead of dropped; the name never looks like a profile (OpenCost 3444)."""
    assert load_skus().sku_of(model, gib * GIB) == sku


def test_an_operators_table_replaces_the_built_in_one(tmp_path: Path) -> None:
    table = _table(tmp_path, '[[sku]]\nname = "gamer"\nmodel = "NVIDIA GeForce RTX 4090"\nvram_gib = 24\n')
    assert table.names == {"gamer"}
    assert table.sku_of("NVIDIA GeForce RTX 4090", 24 * GIB) == "gamer"


def test_an_empty_table_names_every_card_itself(tmp_path: Path) -> None:
    assert _table(tmp_path, "").sku_of("NVIDIA L4", 22 * GIB) == "l4-22g"


@pytest.mark.parametrize(
    "row",
    [
        'name = "a"\nmodel = "b"',
        'name = "a"\nmodel = "b"\nvram_gib = "24"',
        'name = "a"\nmodel = "b"\nvram_gib = 24.0',
        'name = "a"\nmodel = "b"\nvram_gib = true',
        'name = "a"\nmodel = "b"\nvram_gib = 24\ncolour = "red"',
        'name = "*"\nmodel = "b"\nvram_gib = 24',
        'name = "a/1g.10gb"\nmodel = "b"\nvram_gib = 24',
        'name = ""\nmodel = "b"\nvram_gib = 24',
        'name = 5\nmodel = "b"\nvram_gib = 24',
    ],
)
def test_a_row_that_cannot_be_sold_is_refused(tmp_path: Path, row: str) -> None:
    """Among them names that a price book would read as any SKU, or as a card with a MIG profile."""
    with pytest.raises(InputError, match=r"^cannot use "):
        _table(tmp_path, f"[[sku]]\n{row}\n")


@pytest.mark.parametrize("text", ["sku = 5\n", "[sku]\nname = 'a'\n", "sku = ['a']\n", "skus = []\n"])
def test_a_table_of_another_shape_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"^cannot use the SKU "):
        _table(tmp_path, text)


def test_a_model_of_two_names_is_refused(tmp_path: Path) -> None:
    row = '[[sku]]\nname = "{}"\nmodel = "NVIDIA L4"\nvram_gib = 22\n'
    with pytest.raises(InputError, match="'NVIDIA L4' is named twice; keep one row"):
        _table(tmp_path, row.format("one") + row.format("two"))


def test_a_file_that_is_not_there_or_no_toml_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read the SKU table .*nowhere.toml"):
        load_skus(tmp_path / "nowhere.toml")
    with pytest.raises(InputError, match="cannot read the SKU table"):
        _table(tmp_path, "[[sku]\n")
    (tmp_path / "latin.toml").write_bytes(b"# \xe9\n")
    with pytest.raises(InputError, match="cannot read the SKU table"):
        load_skus(tmp_path / "latin.toml")
