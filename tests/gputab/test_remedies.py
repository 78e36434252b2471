"""The last words of a message are what to do about it, and doing so helps."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Gputab = Callable[..., Any]


@pytest.mark.parametrize("day", ["2026-03-30", "2026-03-30+08:00", "20260330T00", "2026-03-30 00:00"])
def test_the_times_that_are_suggested_for_a_naive_one_are_taken(gputab: Gputab, ledger: str, day: str) -> None:
    refused = gputab("usage", "--from", day, "--to", "2026-03-31T00:00:00Z")
    assert refused.code == 2
    suggested = re.findall(r"[0-9T:-]{19}(?:Z|\+08:00)", refused.line)
    assert suggested == ["2026-03-30T00:00:00Z", "2026-03-30T00:00:00+08:00"]
    for start in suggested:
        assert gputab("usage", "--from", start, "--to", "2026-03-31T00:00:00Z").code == 0


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (
            "tenant create acme --currency CNY",
            "there is one of that name; choose another, or add to it by `gputab tenant project`",
        ),
        ("prices load nowhere.yaml", "'nowhere.yaml': No such file or directory; check the path"),
        ("prices load .", "'.': Is a directory; check the path"),
        ("allocations export --out nowhere/x.csv", "No such file or directory; choose another --out"),
    ],
)
def test_what_cannot_be_done_says_what_can(gputab: Gputab, ledger: str, words: str, remedy: str) -> None:
    refused = gputab(*words.split())
    assert refused.code != 0
    assert refused.line.endswith(remedy)


@pytest.mark.parametrize(
    ("change", "remedy"),
    [
        (("GPU-hour", "GiB-hour"), "rate 1: cannot price 'gpu' per GiB-hour; write GPU-hour or GPU-second"),
        (("GiB-hour", "GPU-second"), "rate 2: cannot price 'vram' per GPU-second; write GiB-hour or GiB-second"),
        (
            ("currency: CNY", "colour: red\ncurrency: CNY"),
            "unknown key 'colour'; the keys are book, currency, gaps, rates",
        ),
        (("currency: CNY\n", ""), "the book: currency is missing; write it"),
        (("unit: GPU-hour", "unit: GPU-hour, project: vision"), "without its tenant; write `tenant` too"),
        (("rates:", "rates: ["), "; write YAML in UTF-8"),
    ],
)
def test_what_is_wrong_with_a_book_says_what_is_right(
    gputab: Gputab, place: Path, ledger: str, change: tuple[str, str], remedy: str
) -> None:
    text = (place / "retail.yaml").read_text("utf-8")
    assert change[0] in text
    (place / "retail.yaml").write_text(text.replace(*change, 1), "utf-8")
    refused = gputab("prices", "check", "retail.yaml")
    assert refused.code == 2
    assert remedy in refused.line
