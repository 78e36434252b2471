"""However much is wrong, a person reads one line."""

from domain.problems import listed


def test_the_first_twenty_are_shown_and_the_others_counted() -> None:
    problems = [f"line {number}: no" for number in range(1, 31)]
    assert listed(problems) == "; ".join(problems[:20]) + "; and 10 more"
    assert listed(problems[:20], 25) == "; ".join(problems[:20]) + "; and 5 more"
    assert listed(problems[:20]) == "; ".join(problems[:20])
    assert listed([]) == ""


def test_a_long_problem_keeps_its_beginning_and_its_remedy() -> None:
    long = f"line 1: cannot use {'x' * 100_000!r}; write less"
    assert len(listed([long])) < 310
    assert listed([long]).startswith("line 1: cannot use 'xxx")
    assert listed([long]).endswith("xxx'; write less")
    assert listed(["x" * 300]) == "x" * 300
