"""What is wrong with rules is said before they are relied on: everything, with its place, at once."""

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from alerts.card_rules import SHIPPED_CARD_RULES
from alerts.rule_check import read_rules, rule_problems
from alerts.rule_trial import load_problems, unit_test_problems
from alerts.watermark_rules import SHIPPED_RULES
from domain.errors import InputError
from gputab.cli import run

GOOD = """groups:
  - name: cards
    rules:
      - alert: CardLost
        expr: gpu_up == 0
        for: 1m
        labels: {severity: critical}
        annotations:
          summary: a card is lost
          description: '{{ $labels.node }}: {{ query "gpu_info" }}'
          runbook_url: docs/runbooks/vram-watermark.md
"""
GOOD_TEST = """rule_files: [rules.yaml]
evaluation_interval: 1m
tests:
  - interval: 1m
    input_series: [{series: 'gpu_up{node="a"}', values: '0x5'}]
    metricsql_expr_test: [{expr: 'count(ALERTS{alertstate="firing"})', eval_time: 3m, exp_samples: [{value: 1}]}]
"""


def write(folder: Path, text: str) -> Path:
    """A file of rules."""
    path = folder / "rules.yaml"
    path.write_text(text, "utf-8")
    return path


def problems(path: Path) -> list[str]:
    """What is wrong with the file by itself, without its name."""
    return [line.removeprefix(f"{path}: ") for line in rule_problems({path: read_rules(path)})]


def test_good_rules_are_let_pass(tmp_path: Path) -> None:
    assert problems(write(tmp_path, GOOD)) == []


def test_a_series_that_does_not_exist_is_named_with_what_may_be_meant(tmp_path: Path) -> None:
    path = write(tmp_path, GOOD.replace("gpu_up == 0", "gpu_upp == 0 and xyzzy > 1"))
    assert problems(path) == [
        "CardLost: there is no series 'gpu_upp'; write 'gpu_up'",
        "CardLost: there is no series 'xyzzy'; see domain/series/ for all",
    ]


def test_a_series_of_an_annotation_is_looked_at_too(tmp_path: Path) -> None:
    """A page with a hole in it comes too late to be noticed."""
    path = write(tmp_path, GOOD.replace('query "gpu_info"', 'query "gpu_inf{gpu_uuid=1}"'))
    assert problems(path) == ["CardLost: there is no series 'gpu_inf'; write 'gpu_info'"]


def test_a_word_of_an_annotation_that_asks_for_nothing_is_no_series(tmp_path: Path) -> None:
    url = "https://example.com/gpu_lost"
    path = write(tmp_path, GOOD.replace("docs/runbooks/vram-watermark.md", url).replace("is lost", "is gpu_lost"))
    assert problems(path) == []


def test_what_vmalert_reads_as_text_or_as_nothing_is_read_so(tmp_path: Path, vmalert_binary: Path) -> None:
    """Numbers, dates and switches among labels, and keys with nothing behind them."""
    text = GOOD.replace("{severity: critical}", "{severity: 1, on: true, day: 2026-13-45}").replace("gpu_up == 0", "1")
    text += "  - name: later\n    rules:\n"
    text += "  - name: bare\n    rules:\n      - record: a:b\n        expr: 1\n        labels:\n"
    path = write(tmp_path, text)
    assert list(load_problems(vmalert_binary, path)) == []
    assert problems(path) == []


def test_a_series_that_another_rule_records_exists(tmp_path: Path) -> None:
    rule = "      - {record: 'fleet:lost', expr: count(gpu_up == 0)}\n"
    assert problems(write(tmp_path, GOOD.replace("gpu_up == 0", "fleet:lost > 0") + rule)) == []


def test_an_expression_that_is_none_and_one_that_only_metricsql_has_are_told_apart_from_good_ones(
    tmp_path: Path,
) -> None:
    for expression in ("sum(gpu_up", "gpu_up default 0"):
        (problem,) = problems(write(tmp_path, GOOD.replace("gpu_up == 0", expression)))
        assert problem.startswith(f"CardLost: cannot read the expression '{expression}': ")


def test_every_word_that_a_page_needs_is_asked_for_at_once(tmp_path: Path) -> None:
    path = write(tmp_path, "groups: [{name: a, rules: [{alert: Bare, expr: gpu_up, labels: {severity: ''}}]}]\n")
    assert problems(path) == [
        "Bare: it has no label 'severity'; write one",
        "Bare: it has no annotation 'summary'; write one",
        "Bare: it has no annotation 'description'; write one",
        "Bare: it has no annotation 'runbook_url'; write one",
    ]


def test_a_runbook_has_to_be_there_and_a_url_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runbook = "docs/runbooks/vram-watermark.md"
    missing = write(tmp_path, GOOD.replace(runbook, "books/lost.md"))
    assert problems(missing) == ["CardLost: there is no runbook 'books/lost.md'; write it, or its URL"]
    (tmp_path / "books").mkdir()
    (tmp_path / "books" / "lost.md").touch()
    monkeypatch.chdir(tmp_path)
    assert problems(missing) == []
    assert problems(write(tmp_path, GOOD.replace(runbook, "https://example.com/lost"))) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("groups: [", "it is no YAML"),
        ("[" * 5_000, "it is no YAML"),
        ("groups: 1\n", "groups: Input should be a valid list"),
        ("groups: !!int x\n", "it is no YAML"),
        ("groups:\n", "groups: Input should be a valid list"),
        ("a\n", "the file: "),
        ("", "the file: "),
        ("groups: [{rules: [{alert: A}]}]\n", "groups.0.rules.0.expr: Field required"),
    ],
)
def test_a_file_that_is_no_rule_file_is_refused_with_the_place(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_rules(path)
    assert str(path) in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="none': No such file or directory; check the path"):
        read_rules(tmp_path / "none")


def test_what_vmalert_would_not_load_is_a_problem(tmp_path: Path, vmalert_binary: Path) -> None:
    assert list(load_problems(vmalert_binary, write(tmp_path, GOOD))) == []
    (problem,) = load_problems(vmalert_binary, write(tmp_path, GOOD.replace("for: 1m", "four: 1m")))
    assert "vmalert does not load it: " in problem
    assert "four" in problem


def test_rules_without_a_unit_test_are_a_problem(tmp_path: Path, vmalert_tool_binary: Path) -> None:
    path = write(tmp_path, GOOD)
    (problem,) = unit_test_problems(vmalert_tool_binary, [path], print)
    assert problem == f"{path}: it has no unit test; name it in 'rule_files' of a rules.test.yaml beside it"


def test_names_that_unfold_without_end_are_not_unfolded(tmp_path: Path, vmalert_tool_binary: Path) -> None:
    """Each line has the one before ten times: a text of a terabyte."""
    lines = [
        "a0: &a0 [x]",
        *(f"a{number}: &a{number} [{', '.join([f'*a{number - 1}'] * 10)}]" for number in range(1, 13)),
    ]
    (tmp_path / "rules.test.yaml").write_text("\n".join([*lines, "rule_files: [*a12]"]), "utf-8")
    path = write(tmp_path, GOOD)
    (problem,) = unit_test_problems(vmalert_tool_binary, [path], print)
    assert "it has no unit test" in problem
    with pytest.raises(InputError, match="groups"):
        read_rules(write(tmp_path, "\n".join([*lines, "groups: [*a12]"])))


def test_a_unit_test_that_fails_is_a_problem_in_its_own_words(tmp_path: Path, vmalert_tool_binary: Path) -> None:
    path, test = write(tmp_path, GOOD), tmp_path / "rules.test.yaml"
    test.write_text(GOOD_TEST, "utf-8")
    assert list(unit_test_problems(vmalert_tool_binary, [path], print)) == []
    test.write_text(GOOD_TEST.replace("value: 1", "value: 2"), "utf-8")
    (problem,) = unit_test_problems(vmalert_tool_binary, [path], print)
    assert problem.startswith(f"{test}: fails:\n")
    assert "exp:" in problem
    test.write_text("tests: [", "utf-8")
    (problem,) = unit_test_problems(vmalert_tool_binary, [path], print)
    assert problem.startswith(f"{test}: fails:\n")


@pytest.fixture
def taken_port() -> Iterator[None]:
    """Somebody has the port of vmalert-tool."""
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", 8880))
        except OSError:
            pass  # somebody else has it: as good
        else:
            listener.listen()
        yield


def test_unit_tests_that_cannot_run_are_a_problem_not_a_pass(
    tmp_path: Path, vmalert_tool_binary: Path, taken_port: None
) -> None:
    path = write(tmp_path, GOOD)
    (tmp_path / "rules.test.yaml").write_text(GOOD_TEST, "utf-8")
    (problem,) = unit_test_problems(vmalert_tool_binary, [path], print)
    assert "not run: vmalert-tool needs port 8880, which is in use; stop what has it" in problem


def test_the_command_says_everything_and_ends_with_2(
    tmp_path: Path,
    vmalert_binary: Path,
    vmalert_tool_binary: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("GPUTAB_VMALERT_BINARY", str(vmalert_binary))
    monkeypatch.setenv("GPUTAB_VMALERT_TOOL_BINARY", str(vmalert_tool_binary))
    path = write(tmp_path, GOOD.replace("gpu_up == 0", "gpu_upp == 0").replace("severity", "urgency"))
    broken = tmp_path / "broken.yaml"
    broken.write_text("groups: [", "utf-8")
    (tmp_path / "rules.test.yaml").write_text(GOOD_TEST, "utf-8")
    assert run(["alerts", "check", str(path), str(broken)]) == 2
    said = capsys.readouterr().err
    assert f"cannot read '{broken}': it is no YAML" in said
    assert f"{path}: CardLost: there is no series 'gpu_upp'; write 'gpu_up'" in said
    assert f"{path}: CardLost: it has no label 'severity'; write one" in said
    assert "rules.test.yaml: fails:" in said
    assert "cannot rely on these rules: 4 problems; mend what is named above" in said
    write(tmp_path, GOOD)
    assert run(["alerts", "check", str(path)]) == 0


def test_what_is_printed_is_what_is_committed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["alerts", "rules"]) == 0
    assert capsys.readouterr().out == SHIPPED_RULES.read_text("utf-8")
    assert run(["alerts", "card-rules"]) == 0
    assert capsys.readouterr().out == SHIPPED_CARD_RULES.read_text("utf-8")
    assert run(["alerts", "routes"]) == 0
    assert capsys.readouterr().out == (SHIPPED_RULES.parent.parent / "alertmanager.yaml").read_text("utf-8")
