"""docs/promises.md: each promise is a test, and the page says which."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PROMISES = 12


def false_tests(page: str, root: Path) -> list[str]:
    """The tests that the page names and that are not there; a file is a test if it has one."""
    return [named for named in re.findall(r"`(tests/[^`]+)`", page) if not _is_there(named, root)]


def _is_there(named: str, root: Path) -> bool:
    path, _, test = named.partition("::")
    if not (root / path).is_file():
        return False
    names = {
        node.name
        for node in ast.walk(ast.parse((root / path).read_text("utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }
    return test in names if test else bool(names)


def unproved(page: str) -> list[int]:
    """The numbers of promises of which the page names no test, and of those that it has not."""
    rows = dict(re.findall(r"^\| (\d+) \| .* \| (.*) \|$", page, re.MULTILINE))
    return [number for number in range(1, PROMISES + 1) if "`tests/" not in rows.get(str(number), "")]


def test_every_promise_has_a_test_that_is_there() -> None:
    page = (ROOT / "docs" / "promises.md").read_text("utf-8")
    assert unproved(page) == []
    assert false_tests(page, ROOT) == []


def test_a_test_that_is_not_there_is_found(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").write_text("def test_b() -> None: ...\n", "utf-8")
    (tmp_path / "tests" / "facts.py").write_text("A = 1\n", "utf-8")
    there = "`tests/test_a.py`, `tests/test_a.py::test_b`"
    assert false_tests(there, tmp_path) == []
    gone = ["tests/test_a.py::test_c", "tests/test_d.py", "tests/facts.py"]
    assert false_tests(there + "".join(f"`{each}`" for each in gone), tmp_path) == gone
    assert unproved("| 1 | a | `tests/test_a.py` |\n| 2 | b | |\n")[:2] == [2, 3]
