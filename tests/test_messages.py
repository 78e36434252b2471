"""What is raised for a person ends with what to do about it, wherever in the checkout it is raised."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from domain import errors

ROOT = Path(__file__).resolve().parent.parent
ERRORS = {name for name, each in vars(errors).items() if isinstance(each, type) and issubclass(each, Exception)}
FILES = [
    file
    for init in sorted(ROOT.glob("[!.]*/__init__.py"))
    for file in sorted(init.parent.rglob("*.py"))
    if "versions" not in file.parts
]
# These end with words of somebody else that hold a remedy of their own: lists of problems, a server, a child; or are
# themselves a part of a message that has one.
PASSED_ON = {
    "cannot find {} in the package '{}' of {}",
    "cannot import the records, nothing was written: {}",
    "cannot take a Debian package on '{}'",
    "cannot use '{}': {}",
    "cannot use the allocator's answer {}: {}",
    "cannot use the price book {}: {}",
    "cannot write the past: {}",
}


def messages(source: str) -> Iterator[tuple[int, str]]:
    """(line, text with {} for every value) of each error made in the source with a message that is written there."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ERRORS and node.args:
            match node.args[0]:
                case ast.Constant(value=str(text)):
                    yield node.lineno, text
                case ast.JoinedStr(values=parts):
                    yield node.lineno, "".join(str(p.value) if isinstance(p, ast.Constant) else "{}" for p in parts)


def lacks_remedy(text: str) -> bool:
    """Whether it ends with its cause: nothing stands behind the last colon or semicolon, or there is none.

    A value after a semicolon is a remedy that was handed in.
    """
    *before, last = re.split(r"(?<=[:;.]) ", text)
    return not before or (not re.search("[a-z0-9]", last) and not before[-1].endswith(";"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(ROOT).as_posix())
def test_every_message_ends_with_a_remedy(file: Path) -> None:
    found = [(line, text) for line, text in messages(file.read_text("utf-8")) if text not in PASSED_ON]
    assert [(line, text) for line, text in found if lacks_remedy(text)] == []


def test_what_is_passed_on_is_still_there() -> None:
    assert {text for file in FILES for _, text in messages(file.read_text("utf-8"))} >= PASSED_ON


@pytest.mark.parametrize(
    ("raised", "lacks"),
    [
        ("InputError(f'cannot read {path!r}: {error.strerror}')", True),
        ("InputError(f'cannot read {path!r}')", True),
        ("ConflictError('cannot go on')", True),
        ("InputError(f'cannot read {path!r}: {error}; check the path')", False),
        ("UnavailableError(f'cannot read {path!r}: {error}; {remedy}')", False),
        ("InputError(f'cannot use {name!r}: use {names}')", False),
    ],
)
def test_a_message_that_ends_with_its_cause_is_seen(raised: str, lacks: bool) -> None:
    ((line, text),) = messages(f"raise {raised}")
    assert (line, lacks_remedy(text)) == (1, lacks)
