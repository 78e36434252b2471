"""The rule file of cards and their collectors: what is committed is what is rendered, and its tests would notice."""

from pathlib import Path

import pytest
import yaml

from alerts.card_rules import CARD_RULES, SHIPPED_CARD_RULES, render_card_rules
from domain.series import DEVICE
from tests.alerts.shipped import noticed, problems

UNIT_TESTS = ("card-health.test.yaml", "card-mute.test.yaml", "card-silence.test.yaml")


def test_the_committed_file_is_what_is_rendered_byte_for_byte() -> None:
    assert SHIPPED_CARD_RULES.read_bytes() == render_card_rules().encode()


def test_no_label_can_change_while_an_alert_fires() -> None:
    """A label with a tenant or an owner in it would make another alert of each change."""
    (group,) = yaml.safe_load(render_card_rules())["groups"]
    assert [rule["alert"] for rule in group["rules"]] == list(CARD_RULES)
    for rule in group["rules"]:
        assert set(rule["labels"]) == {"severity", "level"}
        assert not any("{{" in value for value in rule["labels"].values())
        assert set(CARD_RULES[rule["alert"]].by) <= set(DEVICE)


def test_no_two_kinds_are_called_the_same_on_a_page() -> None:
    assert len({rule.level for rule in CARD_RULES.values()}) == len(CARD_RULES)


def test_the_shipped_rules_stand_every_check_and_their_unit_tests(
    vmalert_binary: Path, vmalert_tool_binary: Path
) -> None:
    assert problems(SHIPPED_CARD_RULES, vmalert=vmalert_binary, vmalert_tool=vmalert_tool_binary) == []


@pytest.mark.parametrize(
    ("before", "after", "test"),
    [
        ("for: 2m", "for: 10s", UNIT_TESTS[0]),
        ("for: 5m\n        keep", "for: 1m\n        keep", UNIT_TESTS[0]),
        ("keep_firing_for: 5m", "keep_firing_for: 1m", UNIT_TESTS[0]),
        ('ALERTS{alertname="CardLost", alertstate="firing"}', 'ALERTS{alertname="x"}', UNIT_TESTS[0]),
        ('ALERTS{alertname="OwnersUnknown", alertstate="firing"}', 'ALERTS{alertname="x"}', UNIT_TESTS[0]),
        ("state='suspect'", "state!=''", UNIT_TESTS[0]),
        ("(alloc|pod|slurm):.+", ".+", UNIT_TESTS[0]),
        ("\n          unless on (gpu_uuid) last_over_time(gpu_grant_info{mig_uuid=''}[1m]) == 1", "", UNIT_TESTS[0]),
        (" unless on () last_over_time(gpu_grant_info{gpu_uuid=''}[1m]) == 1", "", UNIT_TESTS[0]),
        (">= 270", ">= 310", UNIT_TESTS[1]),
        ("state='quiesced'", "state='open'", UNIT_TESTS[1]),
        ("< 0.9", "<= 0.9", UNIT_TESTS[1]),
        ("[24h]", "[48h]", UNIT_TESTS[2]),
    ],
    ids=[
        "a reset",
        "minutes",
        "keep firing",
        "silence",
        "silence of a node",
        "reason",
        "services",
        "whole cards",
        "unknown cards",
        "well again",
        "let go of",
        "coverage",
        "too long a memory",
    ],
)
def test_the_unit_tests_notice_a_rule_that_is_another(
    vmalert_tool_binary: Path, tmp_path: Path, before: str, after: str, test: str
) -> None:
    problem = noticed(SHIPPED_CARD_RULES, before, after, test, vmalert_tool=vmalert_tool_binary, folder=tmp_path)
    assert problem.startswith("fails:")
