"""Printed rows: what is in the data is what is on the screen, and JSON is whole."""

import json
from typing import Any

import pytest

from gputab.output import OutputFormat, print_rows, say

COLUMNS = {"name": "NAME", "seconds": "SECONDS", "note": "NOTE"}


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Any:
    """What print_rows leaves on stdout."""

    def shown(rows: list[dict[str, Any]], output: OutputFormat = OutputFormat.TABLE, **options: Any) -> str:
        print_rows(rows, COLUMNS, output, **options)
        return capsys.readouterr().out

    return shown


@pytest.mark.parametrize("text", ["[red]vision[/red]", "[/]", "[bold", "a[1]", ":smile:", "[link=http://x]y[/link]"])
def test_a_name_is_printed_as_it_is_and_not_as_markup(printed: Any, text: str) -> None:
    """A label of a tenant can neither colour a screen nor break a command."""
    out = printed([{"name": text, "seconds": 1, "note": "n"}], title=f"of {text}")
    assert f"of {text}" in out
    assert out.count(text) == 2


def test_numbers_are_grouped_and_what_is_missing_is_a_dash(printed: Any) -> None:
    """Missing is not zero; a column that no row fills is left out."""
    lines = printed([{"name": "a", "seconds": 1_234_567}, {"name": "", "seconds": None}, {"seconds": 0}]).splitlines()
    assert "NOTE" not in lines[0]
    cells = [line.split() for line in lines if "1,234,567" in line or "-  " in line or line.endswith(" 0")]
    assert ["a", "1,234,567"] in cells
    assert ["-", "-"] in cells
    assert ["-", "0"] in cells


def test_json_has_every_key_and_integers_of_any_size(printed: Any) -> None:
    row = {"name": "[/]", "seconds": 2**80, "note": None, "more": 1}
    assert json.loads(printed([row], OutputFormat.JSON, extra={"total": "1"})) == {"rows": [row], "total": "1"}
    assert json.loads(printed([], OutputFormat.JSON)) == {"rows": []}


def test_what_is_said_goes_to_stderr_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    say("cannot find '[red]x[/]' on :bomb:" + " wide" * 60)
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "cannot find '[red]x[/]' on :bomb:" + " wide" * 60 + "\n")
