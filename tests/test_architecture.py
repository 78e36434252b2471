"""The table of imports in ARCHITECTURE.md is what the sources import, no more and no less."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = sorted(init.parent.name for init in ROOT.glob("[!.]*/__init__.py"))
_ROW = re.compile(r"^\| `(\w+)/` \|[^|]*\| ([^|]*) \|$", re.MULTILINE)


def written(folder: str, imports: str) -> set[str]:
    """The folders that a cell of the table names; what stands in brackets says how far."""
    if imports == "all":
        return {*FOLDERS} - {folder}
    if imports == "the standard library":
        return set()
    return {re.sub(r" \(.*\)$", "", each) for each in imports.split(", ")}


def imported(source: str) -> set[str]:
    """The folders that a source imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            found.add(node.module.partition(".")[0])
    return found & {*FOLDERS}


TABLE = {row[1]: row[2] for row in _ROW.finditer((ROOT / "ARCHITECTURE.md").read_text("utf-8"))}


def test_every_folder_has_its_row() -> None:
    assert sorted(TABLE) == FOLDERS


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_imports_what_the_table_says(folder: str) -> None:
    sources = [file.read_text("utf-8") for file in (ROOT / folder).rglob("*.py")]
    assert written(folder, TABLE[folder]) == set().union(*map(imported, sources)) - {folder}


def test_what_is_written_and_what_is_imported_are_both_seen() -> None:
    assert written("meter", "store (reading only), domain") == {"store", "domain"}
    assert written("gputab", "all") == {*FOLDERS} - {"gputab"}
    assert imported("import os\nimport store.database\ndef f():\n    from domain.money import Quote\n") == {
        "store",
        "domain",
    }
