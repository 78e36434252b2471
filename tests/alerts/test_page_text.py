"""A page on the terminal: everything that on-call needs, and nothing that a stranger could make the terminal do."""

import pytest
from rich.console import Console

from alerts.page_text import draw, title
from alerts.pager import Page
from alerts.verdicts import Standing, Verdict

FIRING, UNKNOWN, RESOLVED = (Standing(verdict, "critical") for verdict in Verdict)
HIGH = Standing(Verdict.FIRING, "high")
WORDS = {
    "summary": "VRAM of gpu-7/3 has reached 98%",
    "description": "card: gpu-7/3, NVIDIA H200, GPU-1\ntenant: acme, globex\nused: 138.2GiB of 139.8GiB (98.9%)\n"
    "since: 2026-11-30 03:12:40 UTC\n",
    "runbook_url": "docs/runbooks/vram-watermark.md",
}


def printed(page: Page) -> str:
    """What a terminal of 100 columns is sent, colours left out."""
    console = Console(width=100, color_system=None, force_terminal=True)
    with console.capture() as capture:
        console.print(draw(page))
    return capture.get()


def test_a_page_says_what_where_who_how_much_since_when_and_what_to_do() -> None:
    text = printed(Page(FIRING, None, WORDS, ""))
    for words in (
        "CRITICAL",
        "VRAM of gpu-7/3 has reached 98%",
        "card    gpu-7/3, NVIDIA H200, GPU-1",
        "tenant  acme, globex",
        "used    138.2GiB of 139.8GiB (98.9%)",
        "since   2026-11-30 03:12:40 UTC",
        "do      docs/runbooks/vram-watermark.md",
    ):
        assert words in text


def test_a_recovery_does_not_show_the_old_number_as_the_present_one() -> None:
    text = printed(Page(RESOLVED, FIRING, WORDS, "41.2% of the VRAM is used now"))
    assert "RESOLVED (was critical)" in text
    assert "gpu-7/3" in text
    assert "41.2% of the VRAM is used now" in text
    assert "98.9%" not in text
    assert "has reached" not in text


def test_a_lost_card_that_is_back_says_what_is_over() -> None:
    lost = Standing(Verdict.FIRING, "card lost")
    words = {**WORDS, "summary": "gpu-7/3 is lost", "description": "card: gpu-7/3\nheard: nothing now\n"}
    assert "heard  nothing now" in printed(Page(lost, None, words, ""))
    text = printed(Page(lost._replace(verdict=Verdict.RESOLVED), lost, words, "it is heard of, and that is over"))
    assert "RESOLVED (was card lost)" in text
    assert "heard  nothing now" not in text


@pytest.mark.parametrize(
    ("now", "before", "expected"),
    [
        (FIRING, None, "CRITICAL"),
        (FIRING, FIRING, "STILL CRITICAL"),
        (FIRING, HIGH, "CRITICAL (was high)"),
        (FIRING, UNKNOWN, "CRITICAL (was state unknown)"),
        (FIRING, RESOLVED, "CRITICAL"),
        (UNKNOWN, FIRING, "STATE UNKNOWN (last known: critical)"),
        (UNKNOWN, UNKNOWN, "STILL STATE UNKNOWN (last known: critical)"),
        (Standing(Verdict.UNKNOWN, ""), None, "STATE UNKNOWN"),
        (RESOLVED, FIRING, "RESOLVED (was critical)"),
        (RESOLVED, RESOLVED, "STILL RESOLVED (was critical)"),
        (Standing(Verdict.FIRING, ""), None, "ALERT"),
    ],
)
def test_the_title_says_what_is_new(now: Standing, before: Standing | None, expected: str) -> None:
    assert title(Page(now, before, WORDS, "")) == expected


def test_what_a_stranger_sends_is_text_and_nothing_else() -> None:
    """Anyone on this machine may call the webhook: no escape sequence, markup or emoji of theirs is obeyed."""
    evil = "\x1b]0;owned\x07\x1b[2J\r\u202e[red]x[/red] :skull:\x9b31m"
    words = {"summary": evil, "description": f"{evil}: {evil}\n{evil}\n", "runbook_url": evil}
    text = printed(Page(Standing(Verdict.FIRING, evil), Standing(Verdict.FIRING, evil[::-1]), words, evil))
    assert not set(text) & {"\x1b", "\x07", "\r", "\x9b", "\u202e"}
    assert "[red]x[/red] :skull:" in text


def test_lines_without_end_are_cut_and_that_is_shown() -> None:
    lines = printed(Page(FIRING, None, {"description": "disk: full\n" * 100_000}, "")).splitlines()
    assert len(lines) < 60
    assert "..." in lines[-2]


def test_words_without_end_are_cut_and_missing_ones_are_left_out() -> None:
    text = printed(Page(FIRING, None, {"description": "x" * 100_000}, ""))
    assert 400 < text.count("x") < 1_000
    assert "CRITICAL" in printed(Page(FIRING, None, {}, ""))
