"""What is wrong with one input, as one line that a person can read."""

from collections.abc import Sequence

SHOWN_PROBLEMS = 20
# Where a value is no value at all, such as half of another file, its beginning tells.
_SHOWN_CHARACTERS = 300
_KEPT_END = 120


def listed(problems: Sequence[str], count: int | None = None) -> str:
    """The first 20 problems, and how many more there are: `count` in all, where not all of them were kept.

    A long one loses its middle: what it is about comes first, and its remedy last.
    """
    shown = "; ".join(_short(each) for each in problems[:SHOWN_PROBLEMS])
    more = (len(problems) if count is None else count) - SHOWN_PROBLEMS
    return f"{shown}; and {more} more" if more > 0 else shown


def _short(problem: str) -> str:
    if len(problem) <= _SHOWN_CHARACTERS:
        return problem
    return f"{problem[: _SHOWN_CHARACTERS - _KEPT_END]} ... {problem[-_KEPT_END:]}"
