"""What the checks say of a rule file, as it is shipped and when it is another."""

from pathlib import Path

from alerts.rule_check import read_rules, rule_problems
from alerts.rule_trial import load_problems, unit_test_problems


def problems(rules: Path, *, vmalert: Path, vmalert_tool: Path) -> list[str]:
    """Everything that is wrong with it."""
    return [
        *rule_problems({rules: read_rules(rules)}),
        *load_problems(vmalert, rules),
        *unit_test_problems(vmalert_tool, [rules], print),
    ]


def noticed(rules: Path, before: str, after: str, test: str, *, vmalert_tool: Path, folder: Path) -> str:
    """What a unit test says in `folder` where every `before` in the rules, of which there must be one, is `after`."""
    text = rules.read_text("utf-8")
    assert before in text
    copy = folder / rules.name
    copy.write_text(text.replace(before, after), "utf-8")
    (folder / test).write_text((rules.parent / test).read_text("utf-8"), "utf-8")
    (problem,) = unit_test_problems(vmalert_tool, [copy], print)
    return problem.removeprefix(f"{folder / test}: ")
