"""`gputab prices`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Gputab = Callable[..., Any]


def test_a_loaded_book_is_shown_as_it_was_written(gputab: Gputab, ledger: str) -> None:
    shown = gputab("prices", "show", "retail", "--format", "json")
    assert (shown.code, shown.err) == (0, "")
    data = shown.data
    assert {key: value for key, value in data.items() if key != "rows"} == {
        "book": "retail",
        "currency": "CNY",
        "gaps": {
            "bridge_seconds": 3,
            "host_unreachable": "free",
            "collector_down": "on_record",
            "never_ready": "free",
        },
    }
    rows = sorted(data["rows"], key=lambda row: row["dimension"])
    assert all(row.pop("rate_id").startswith("rate_") for row in rows)
    every = {"tenant": None, "project": None, "from": "2025-12-31T16:00:00Z", "to": None}
    assert rows == [
        {**every, "dimension": "gpu", "sku": "rtx4090-24g", "price": "2.20", "unit": "GPU-hour", "basis": None},
        {**every, "dimension": "vram", "sku": "*", "price": "0.03", "unit": "GiB-hour", "basis": "max"},
    ]


def test_checking_needs_no_database_and_prints_what_was_understood(
    gputab: Gputab, place: Path, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = gputab("prices", "show", "retail", "--format", "json").data
    monkeypatch.setenv("GPUTAB_DATABASE_URL", f"sqlite:///{place}/none/x.db")
    checked = gputab("prices", "check", "retail.yaml", "--format", "json")
    assert checked.code == 0
    assert not (place / "none").exists()

    def by_id(data: Any) -> Any:
        return {**data, "rows": sorted(data["rows"], key=lambda row: row["rate_id"])}

    assert by_id(checked.data) == by_id(loaded)


def test_loading_twice_adds_nothing(gputab: Gputab, ledger: str) -> None:
    again = gputab("prices", "load", "retail.yaml")
    assert (again.code, again.out, again.line) == (0, "", "loaded the book 'retail': 0 rates added, 0 ended")


def test_a_new_price_ends_the_old_one(gputab: Gputab, place: Path, ledger: str) -> None:
    text = (place / "retail.yaml").read_text("utf-8")
    ended = text.replace(
        "+08:00}\n  - {dimension: vram", "+08:00, to: 2026-05-01T00:00:00+08:00}\n  - {dimension: vram"
    )
    new = '  - {dimension: gpu, sku: rtx4090-24g, price: "1.98", unit: GPU-hour, from: 2026-05-01T00:00:00+08:00}\n'
    (place / "retail.yaml").write_text(ended + new, "utf-8")
    assert gputab("prices", "load", "retail.yaml").line == "loaded the book 'retail': 1 rates added, 1 ended"


@pytest.mark.parametrize(
    ("change", "code", "problem"),
    [
        (("2.20", "2.30"), 2, "cannot use two rates for 'gpu' of 'rtx4090-24g'"),
        (("currency: CNY", "currency: USD"), 2, "cannot change the book 'retail', currency from 'CNY' to 'USD'"),
        (("rtx4090-24g", "rtx4909"), 2, "cannot use the price book 'retail.yaml': rate 1: cannot find the SKU"),
        (('"2.20"', "2.20"), 2, "cannot use the price book 'retail.yaml': rate 1: cannot use the price 2.2"),
        (('"2.20"', '"-2.20"'), 2, "cannot use the price book 'retail.yaml': rate 1: cannot read the price '-2.20'"),
        ((", unit: GPU-hour", ""), 2, "cannot use the price book 'retail.yaml': rate 1: unit is missing"),
        (("+08:00", ""), 2, "cannot use the price book 'retail.yaml': rate 1, from: cannot use the naive time"),
        (("sku: rtx4090-24g,", "sku: rtx4090-24g, tenant: nobody,"), 2, "cannot price for the tenant 'nobody'"),
        (
            ("sku: rtx4090-24g,", "sku: rtx4090-24g, tenant: acme, project: vission,"),
            2,
            "cannot price for the project 'vission' of 'acme'",
        ),
        (
            ("2026-01-01T00:00:00+08:00", "2026"),
            2,
            "cannot use the price book 'retail.yaml': rate 1, from: cannot read",
        ),
        (("rates:", "rates: ["), 2, "cannot read the price book 'retail.yaml'"),
    ],
)
def test_a_book_that_cannot_be_used_changes_nothing(
    gputab: Gputab, place: Path, ledger: str, change: tuple[str, str], code: int, problem: str
) -> None:
    before = gputab("prices", "show", "retail", "--format", "json").out
    text = (place / "retail.yaml").read_text("utf-8")
    assert change[0] in text
    (place / "retail.yaml").write_text(text.replace(*change), "utf-8")
    refused = gputab("prices", "load", "retail.yaml")
    assert (refused.code, refused.out) == (code, "")
    assert refused.line.startswith(f"gputab: {problem}")
    assert gputab("prices", "show", "retail", "--format", "json").out == before


def test_what_is_not_there_is_one_line(gputab: Gputab, ledger: str) -> None:
    for words, code in (("load nowhere.yaml", 2), ("check nowhere.yaml", 2), ("show nothing", 2)):
        refused = gputab("prices", *words.split())
        assert refused.code == code
        assert refused.line.startswith("gputab: cannot ")


def test_an_operators_own_table_says_which_skus_there_are(
    gputab: Gputab, place: Path, ledger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (place / "skus.toml").write_text('[[sku]]\nname = "gamer"\nmodel = "NVIDIA L4"\nvram_gib = 22\n', "utf-8")
    monkeypatch.setenv("GPUTAB_SKU_TABLE", "skus.toml")
    assert "cannot find the SKU 'rtx4090-24g'" in gputab("prices", "check", "retail.yaml").line
    (place / "skus.toml").write_text("[[sku]]\nname = 5\n", "utf-8")
    assert gputab("prices", "check", "retail.yaml").code == 2
