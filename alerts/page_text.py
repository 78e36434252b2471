"""A page as it looks on a terminal: what, of which card, since when, and what to do."""

from rich import box
from rich.console import Group
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from alerts.card_rules import CARD_RULES
from alerts.pager import Page
from alerts.verdicts import Verdict

_COLOURS = {"critical": "red", "high": "dark_orange3", "warning": "yellow", "info": "yellow"}
_COLOURS |= {rule.level: _COLOURS[rule.severity] for rule in CARD_RULES.values()}
# What was so when the alert fired; of what has ended the note says how it is now.
_PASSING = ("used", "answered", "heard")
_LINE_MAX = 500
_LINES_MAX = 40


def draw(page: Page) -> Panel:
    """The page as a box. What came over the network is shown as text: no markup, no control character of it counts."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _rows(page):
        table.add_row(name, plain(value))
    summary = page.annotations.get("summary", "")
    # Of what has ended it says what was.
    shown = [Text(plain(summary), style="bold")] if summary and page.now.verdict is not Verdict.RESOLVED else []
    return Panel(
        Group(*shown, table),
        title=Text(title(page), style="bold"),
        title_align="left",
        border_style=_colour(page),
        box=box.HEAVY,
    )


def title(page: Page) -> str:
    """The first line of a page, such as `STILL CRITICAL` or `STATE UNKNOWN (last known: high)`."""
    now, before = page.now, page.before
    level = plain(now.level)
    if now.verdict is Verdict.FIRING:
        words = level.upper() or "ALERT"
        if before is not None and not page.is_repeat and before.verdict is not Verdict.RESOLVED:
            words += f" (was {plain(before.level) if before.verdict is Verdict.FIRING else before.verdict.value})"
    elif now.verdict is Verdict.UNKNOWN:
        words = "STATE UNKNOWN" + (f" (last known: {level})" if level else "")
    else:
        words = "RESOLVED" + (f" (was {level})" if level else "")
    return f"STILL {words}" if page.is_repeat else words


def plain(text: str) -> str:
    """The text on one line, without what a terminal would obey, and no longer than 500 characters."""
    return "".join(sign if sign.isprintable() else " " for sign in text)[:_LINE_MAX]


def _rows(page: Page) -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    lines = page.annotations.get("description", "").splitlines()
    for line in [*lines[:_LINES_MAX], "..."] if len(lines) > _LINES_MAX else lines:
        name, mark, value = line.partition(": ")
        if page.now.verdict is Verdict.RESOLVED and name in _PASSING:
            continue
        rows.append((plain(name), value) if mark else ("", line))
    if page.note:
        rows.append(("note", page.note))
    if page.now.verdict is not Verdict.RESOLVED and "runbook_url" in page.annotations:
        rows.append(("do", page.annotations["runbook_url"]))
    return rows


def _colour(page: Page) -> str:
    match page.now.verdict:
        case Verdict.RESOLVED:
            return "green"
        case Verdict.UNKNOWN:
            return "magenta"
        case _:
            return _COLOURS.get(page.now.level, "red")
