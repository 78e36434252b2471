"""The table of faults names tests that exist; that its files do is a matter of all documents."""

import re
from pathlib import Path

FOLDER = Path(__file__).parent


def unknown_tests(text: str) -> set[str]:
    """What the text calls a test of the collector and is none."""
    sources = [path.read_text("utf-8") for path in FOLDER.parent.rglob("test_*.py")]
    known = {name for source in sources for name in re.findall(r"^def (test_\w+)", source, re.MULTILINE)}
    return set(re.findall(r"`(test_\w+)`", text)) - known


def test_the_table_of_faults_names_tests_that_exist() -> None:
    assert unknown_tests((FOLDER / "README.md").read_text("utf-8")) == set()
    assert unknown_tests("`test_nothing` and `test_random_faults.py`") == {"test_nothing"}
