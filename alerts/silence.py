"""What keeps an alert firing while nothing is heard of what it is about: absence is not recovery."""

from collections.abc import Sequence
from textwrap import indent

from alerts.card_templates import REMEMBERED


def while_silent(series: str, firing: str, by: Sequence[str], *known: str) -> str:
    """PromQL, in parentheses: 0 for each of these alerts of which none of `known` says how it is now.

    `firing` selects them among `ALERTS`, `series` is what is remembered of them for a day, and all are joined by the
    labels `by`. The store looks first for the alerts, of which there are few, then reads a day of the silent ones.
    """
    on = f"on ({', '.join(by)})"
    unheard = f"\nunless {on}\n".join((firing, *known))
    last = f"max by ({', '.join(by)}) (last_over_time({series}[{REMEMBERED}])) * 0"
    return f"(\n{_indented(last)}\n  and {on} (\n{_indented(_indented(unheard))}\n  )\n)"


def _indented(text: str) -> str:
    return indent(text, "  ")
