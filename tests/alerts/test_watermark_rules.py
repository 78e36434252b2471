"""The rule file: what is committed is what is rendered, and says what domain/watermarks.py says."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from alerts.routes import render_routes
from alerts.watermark_rules import SHIPPED_RULES, UNKNOWN_ALERT, Patience, alert_name, render_rules
from domain.series import DEVICE
from domain.watermarks import WATERMARKS
from tests.alerts.shipped import noticed, problems

ROUTES = SHIPPED_RULES.parent.parent / "alertmanager.yaml"


def rules_of(text: str) -> dict[str, dict[str, Any]]:
    """The rules of a file with one group, by name, in their order."""
    (group,) = yaml.safe_load(text)["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def test_the_committed_files_are_what_is_rendered_byte_for_byte() -> None:
    assert SHIPPED_RULES.read_bytes() == render_rules().encode()
    assert ROUTES.read_bytes() == render_routes().encode()


def test_each_watermark_has_its_rule_with_its_own_number_the_highest_first() -> None:
    rules = rules_of(render_rules())
    by_height = sorted(WATERMARKS, key=lambda mark: -mark.used_ratio)
    assert list(rules) == [*map(alert_name, by_height), UNKNOWN_ALERT]
    for mark in WATERMARKS:
        rule = rules[alert_name(mark)]
        assert f">= {mark.used_ratio}\n" in rule["expr"]
        assert rule["labels"]["level"] == mark.level
        assert f"{mark.used_ratio:.0%}" in rule["annotations"]["summary"]


def test_a_shorter_patience_changes_the_times_and_nothing_else() -> None:
    short, shipped = render_rules(Patience(7, 90)), render_rules()
    assert "for: 7s" in short
    assert "keep_firing_for: 90s" in short
    for told, usual in ((" 7s", " 2m"), (" 12s", " 125s"), (" 17s", " 130s"), (" 90s", " 5m")):
        short = short.replace(f"{told}\n", f"{usual}\n")
    assert short == shipped


def test_a_level_waits_for_one_evaluation_longer_than_the_one_above_it() -> None:
    """Or a reading that comes to be seen between two rules would be a page for the lower mark, and then another."""
    rules = rules_of(render_rules(Patience(60, evaluation_s=15)))
    by_height = sorted(WATERMARKS, key=lambda mark: -mark.used_ratio)
    assert [rules[alert_name(mark)]["for"] for mark in by_height] == ["1m", "75s", "90s"]


def test_no_label_can_change_while_an_alert_fires() -> None:
    """A label with a value or a tenant in it would make another alert of each change."""
    for rule in rules_of(render_rules()).values():
        assert set(rule["labels"]) == {"severity", "level"}
        assert not any("{{" in value for value in rule["labels"].values())
        assert f"max by ({', '.join(DEVICE)}) (" in rule["expr"]


def test_the_texts_of_a_full_card_take_few_queries() -> None:
    """vmalert asks them anew for every alert at each evaluation: with ten, 500 full cards took it 4.6 s of its 5."""
    of_others = re.compile(r"{{ if (?:not \$value|\$labels\.mig_uuid) }}.*?{{ end -}}\n")
    for rule in rules_of(render_rules()).values():
        texts = [of_others.sub("", rule["annotations"][name]) for name in ("summary", "description")]
        counts = [text.count("query (") for text in texts]
        assert counts[0] == 1
        assert counts[1] <= 5


def test_the_shipped_rules_stand_every_check_and_their_unit_tests(
    vmalert_binary: Path, vmalert_tool_binary: Path
) -> None:
    assert problems(SHIPPED_RULES, vmalert=vmalert_binary, vmalert_tool=vmalert_tool_binary) == []


@pytest.mark.parametrize(
    ("before", "after", "test"),
    [
        (">= 0.98", ">= 0.99", "vram-watermarks.test.yaml"),
        ("keep_firing_for: 5m", "keep_firing_for: 1m", "vram-watermarks.test.yaml"),
        ("unless on (node, gpu_uuid, mig_uuid)", "and on (node, gpu_uuid, mig_uuid)", "vram-watermarks.test.yaml"),
        (" or last_over_time(gpu_memory_total_bytes[10s]) * 0", "", "vram-watermarks.test.yaml"),
        ("[24h]", "[48h]", "vram-silence.test.yaml"),
    ],
    ids=["mark", "keep firing", "silence", "reserved", "too long a memory"],
)
def test_the_unit_tests_notice_a_rule_that_is_another(
    vmalert_tool_binary: Path, tmp_path: Path, before: str, after: str, test: str
) -> None:
    problem = noticed(SHIPPED_RULES, before, after, test, vmalert_tool=vmalert_tool_binary, folder=tmp_path)
    assert problem.startswith("fails:")


@pytest.mark.parametrize("document", ["docs/alerts.md", "docs/runbooks/vram-watermark.md"])
def test_the_documents_name_the_marks_that_are(document: str) -> None:
    named = set(re.findall(r"\b([0-9]+) %", (SHIPPED_RULES.parents[2] / document).read_text("utf-8")))
    assert named == {f"{mark.used_ratio * 100:.0f}" for mark in WATERMARKS}
