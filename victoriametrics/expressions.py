"""Which series an expression of a rule or a panel asks for, by parsing it."""

import re

import promql_parser

from domain.errors import InputError

_NAME = "__name__"
# A name, or names with bars between them: a pattern that can be listed.
_NAMES = re.compile(r"[A-Za-z_:][\w:]*(?:\|[A-Za-z_:][\w:]*)*")
_OPERATOR = re.compile(r"[(+\-*/%^=<>!]|\b(?:and|or|unless|atan2)\b")
# The parser copies what lies below a node each time it shows one, so its time grows with the cube of this.
_OPERATORS_MAX = 200


def series_names(expression: str) -> set[str]:
    """The names of every series that a PromQL expression selects, wherever in it.

    Raises InputError where it is no PromQL, which what only MetricsQL has is not, and where it selects series without
    naming them, so that nobody could say whether they exist.
    """
    if len(_OPERATOR.findall(expression)) > _OPERATORS_MAX:
        raise _refusal(expression, f"it has more than {_OPERATORS_MAX} operators and brackets", "split it")
    try:
        parsed = promql_parser.parse(expression)
    except ValueError as error:
        raise _refusal(
            expression, str(error), "write it in PromQL, without the functions and operators that only MetricsQL has"
        ) from error
    selectors: list[promql_parser.VectorSelector] = []

    def note(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            selectors.append(node)

    promql_parser.walk(parsed, note)
    return {name for selector in selectors for name in _names_of(selector, expression)}


def _names_of(selector: promql_parser.VectorSelector, expression: str) -> list[str]:
    if selector.name:
        return [selector.name]
    matchers = selector.matchers
    names: list[str] = []
    # `{a or b}` selects what either of them does.
    for group in matchers.or_matchers or [matchers.matchers]:
        values = [
            matcher.value
            for matcher in group
            if matcher.name == _NAME and matcher.op in (promql_parser.MatchOp.Equal, promql_parser.MatchOp.Re)
        ]
        if not values or not all(map(_NAMES.fullmatch, values)):
            raise _refusal(expression, "it selects series without naming them", "write their names")
        names += [name for value in values for name in value.split("|")]
    return names


def _refusal(expression: str, cause: str, remedy: str) -> InputError:
    shown = " ".join(expression.split())
    return InputError(f"cannot read the expression {shown[:200]!r}: {cause}; {remedy}")
