"""Which series an expression names: all of them, or it is refused."""

import pytest

from domain.errors import InputError
from domain.series import GPU_MEMORY_RESERVED, GPU_MEMORY_TOTAL, GPU_MEMORY_USED
from domain.watermarks import used_ratio
from victoriametrics.expressions import series_names


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("a", {"a"}),
        ("1 + vector(time())", set()),
        ('sum by (node) (rate(a{node="b"}[5m] offset 1m)) / on(node) group_left(model) c', {"a", "c"}),
        ("a unless on(node) (b and -c)", {"a", "b", "c"}),
        ("max_over_time((a / b)[1h:15s] @ 5)", {"a", "b"}),
        ("quantile(scalar(a), b)", {"a", "b"}),
        ("topk(3, a:b)", {"a:b"}),
        ('{__name__="a"}', {"a"}),
        ('{__name__=~"a|b",node="c"}', {"a", "b"}),
        ('{__name__="a" or __name__="b",node="c"}', {"a", "b"}),
        ('a{tenant="b + c(d)"}', {"a"}),
    ],
)
def test_every_series_of_an_expression_is_named(expression: str, names: set[str]) -> None:
    assert series_names(expression) == names


def test_the_series_of_the_watermarks_are_found() -> None:
    expected = {series.name for series in (GPU_MEMORY_USED, GPU_MEMORY_TOTAL, GPU_MEMORY_RESERVED)}
    assert series_names(used_ratio()) == expected
    assert series_names(used_ratio('node="a"', "10s")) == expected


@pytest.mark.parametrize("expression", ["tlast_over_time(a[1h])", "a default 0", "sum(a", "rate(a)", "", "a b"])
def test_what_is_no_promql_is_refused_with_what_to_do(expression: str) -> None:
    with pytest.raises(InputError, match=r"cannot read the expression .*; write it in PromQL, without .* MetricsQL"):
        series_names(expression)


@pytest.mark.parametrize(
    "expression", ['{node="a"}', '{__name__=~"a.*"}', '{__name__=~"a|",node="b"}', '{__name__="a" or node="b"}']
)
def test_series_that_are_not_named_are_refused(expression: str) -> None:
    """They might exist or not: a check that could not tell would pass for one that found nothing."""
    with pytest.raises(InputError, match="it selects series without naming them; write their names"):
        series_names(expression)


@pytest.mark.parametrize("expression", ["(" * 20_000 + "a" + ")" * 20_000, " + ".join("a" * 20_000)])
def test_an_expression_without_end_is_refused_unread(expression: str) -> None:
    with pytest.raises(InputError, match="more than 200 operators and brackets; split it"):
        series_names(expression)
