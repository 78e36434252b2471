"""What a command line may hold: text that can be encoded, and numbers that are written as numbers."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gputab.cli import app

Gputab = Callable[..., Any]

_NO_UTF_8 = "a\udcff"


@pytest.mark.parametrize(
    "words",
    [
        ["token", "revoke", _NO_UTF_8],
        ["tenant", "create", _NO_UTF_8, "--currency", "CNY"],
        ["tenant", "project", "acme", _NO_UTF_8],
        ["tenant", "assign", "acme", _NO_UTF_8],
        ["prices", "show", _NO_UTF_8],
        ["invoice", _NO_UTF_8, "--month", "2026-03"],
        ["allocations", "import", "records.csv", "--source", _NO_UTF_8],
        ["alloc", "show", _NO_UTF_8],
        ["alloc", "request", "--project", "p", "--gpus", "1", "--idempotency-key", _NO_UTF_8],
        ["alloc", "list", "--cursor", _NO_UTF_8],
        [_NO_UTF_8],
    ],
)
def test_an_argument_that_is_no_utf_8_is_one_line(
    gputab: Gputab, ledger: str, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Its bytes come in as halves of surrogate pairs, which neither SQL, a URL nor a header can hold."""
    monkeypatch.setenv("GPUTAB_TOKEN", "x")
    refused = gputab(*words)
    assert (refused.code, refused.out) == (2, "")
    assert refused.line == (
        r"gputab: cannot read the argument 'a\udcff': it is no UTF-8; write it in UTF-8, or rename the file"
    )


@pytest.mark.parametrize("key", ["ключ", "a\nb", "a\x7f"])
def test_an_idempotency_key_that_no_header_can_hold_is_one_line(
    gputab: Gputab, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("GPUTAB_TOKEN", "x")
    refused = gputab("alloc", "request", "--project", "p", "--gpus", "1", "--idempotency-key", key)
    assert refused.code == 2
    assert refused.line.startswith(f"gputab: cannot use the idempotency key {key!r}")


def _whole_options(group: Any = None, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    group = group or app
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        if hasattr(command, "commands"):
            yield from _whole_options(command, (*words, name))
        else:
            yield from (
                ((*words, name), option.opts[0])
                for option in command.params
                if option.metavar == "NUMBER" or "int" in str(command.callback.__annotations__.get(option.name))
            )


WHOLE_OPTIONS = sorted(_whole_options())


def test_the_options_that_count_are_found() -> None:
    assert {option for _, option in WHOLE_OPTIONS} >= {"--days", "--hold", "--gpus", "--milli", "--limit", "--port"}


@pytest.mark.parametrize(("words", "option"), WHOLE_OPTIONS)
@pytest.mark.parametrize("text", ["1_0", "٣", " 5 ", "+5", "5.0", "0x5", "1e1", "1e99999999", "9" * 5_000, ""])
def test_a_count_is_plain_digits(gputab: Gputab, words: tuple[str, ...], option: str, text: str) -> None:
    refused = gputab(*words, f"{option}={text}")
    assert refused.code == 2
    said = " ".join(refused.err.split())
    assert f"Invalid value for '{option}': cannot read {text[:40]!r} as a whole number: write at most 18" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("token create operator --days 0", "'--days': cannot use 0: write 1 or more"),
        ("alloc list --limit 501", "'--limit': cannot use 501: write 1 to 500"),
        ("alloc request --project p --milli -1", "'--milli': cannot use -1: write 1 to 999"),
        ("allocator --port 65536", "'--port': cannot use 65536: write 0 to 65535"),
    ],
)
def test_a_count_out_of_its_bounds_is_told_them(gputab: Gputab, words: str, said: str) -> None:
    refused = gputab(*words.split())
    assert refused.code == 2
    assert said in " ".join(refused.err.split())
