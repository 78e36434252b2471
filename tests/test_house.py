"""House rules that no off-the-shelf linter knows, each a small scan of the sources.

Every scan is tried on the checkout and on a snippet that breaks it. Rules that ruff can hold are in pyproject.toml;
the last tests show that those are alive too.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.house_patches import ALLOWED, patches
from tests.house_scans import (
    CATALOGUE_FOLDER,
    FORBIDDEN_TEXT,
    FUNCTION_LINES_MAX,
    LINES_MAX,
    MONEY_PATH,
    ROOT,
    SCANS,
    SOURCES,
    Scan,
    Source,
    fixed_examples,
    floats,
    long_files,
    long_functions,
    machine_paths_and_mirrors,
    missing_docstrings,
    missing_documents,
    series_literals,
    shared_words,
    vague_names,
)


@pytest.mark.parametrize("scan", [*SCANS, patches])
def test_the_checkout_keeps_the_rule(scan: Scan) -> None:
    assert [f"{source.path}:{finding}" for source in SOURCES for finding in scan(source)] == []


def test_the_scans_look_at_files_that_are_there() -> None:
    """A file that was renamed would else be let pass for ever."""
    paths = {source.path for source in SOURCES}
    assert paths >= set(MONEY_PATH)
    assert paths >= {path for path, _ in ALLOWED}
    assert any(path.startswith(CATALOGUE_FOLDER) for path in paths)


@pytest.mark.parametrize(("path", "target"), ALLOWED)
def test_what_may_be_patched_is_patched(path: str, target: str) -> None:
    """An exception that nobody needs any more is none."""
    (source,) = [source for source in SOURCES if source.path == path]
    assert list(patches(source)) == []
    assert len(list(patches(Source("tests/x.py", source.text)))) == 1


TEST = "tests/meter/test_x.py"
BREAKS = {
    "a long file": (long_files, "meter/x.py", "x = 1\n" * (LINES_MAX + 1), 1),
    "a long function": (long_functions, "meter/x.py", "def f():\n" + "    x = 1\n" * FUNCTION_LINES_MAX, 1),
    "a series name": (series_literals, "meter/x.py", 'NAME = "gpu_up"\n', 1),
    "series in a query": (series_literals, "meter/x.py", 'q = f"max(gpu_up{{node={n}}}) + gpu_power_watts"\n', 2),
    "a float": (floats, "meter/rating/rating.py", "amount = 0.5\n", 1),
    "a call of float": (floats, "domain/money.py", "amount = float('0.5')\n", 1),
    "a column of floats": (floats, "meter/rating/measuring.py", "cast(pl.Float64)\n", 1),
    "a quotient": (floats, "domain/money.py", "amount = quantity / whole\n", 1),
    "a vague module": (vague_names, "meter/utils.py", "", 1),
    "a vague folder": (vague_names, "tests/common/test_x.py", "", 1),
    "a bare module, class, method": (missing_docstrings, "meter/x.py", "class Charge:\n  def rate(self): pass\n", 3),
    "a bare function": (missing_docstrings, "meter/x.py", '"""X."""\ndef rate(): pass\n', 1),
    "a path of one machine": (machine_paths_and_mirrors, "docs/x.md", f"see {FORBIDDEN_TEXT[0]}x", 1),
    "a mirror": (machine_paths_and_mirrors, "Makefile", f"URL = https://{FORBIDDEN_TEXT[1]}/simple", 1),
    "a fixed number of examples": (
        fixed_examples,
        "tests/meter/test_x.py",
        "@settings(max_examples=60)\ndef f(): 1\n",
        1,
    ),
    "a document elsewhere": (missing_documents, "tests/x.py", '"""notes.md A1: so it is."""\n# notes.md B2\n', 2),
    "a patched name by path": (patches, TEST, "monkeypatch.setattr('meter.rating.rating._SECONDS', 1)\n", 1),
    "a patched module": (patches, TEST, "from meter import rating\nmonkeypatch.setattr(rating, '_SECONDS', 1)\n", 1),
    "a patched class": (patches, TEST, "from meter.x import Book\nmonkeypatch.delattr(Book, 'price')\n", 1),
    "a patched object": (patches, TEST, "def f(book): monkeypatch.setattr(book.source, 'read', fail)\n", 1),
    "a patched table": (patches, TEST, "from meter.x import PRICES\nmonkeypatch.setitem(PRICES, 'a', 1)\n", 1),
    "a patch by the library": (patches, TEST, "import unittest.mock\nfrom unittest import TestCase, mock\n", 2),
    "a private of an object": (patches, TEST, "sender._bytes = 1\nsender._bytes += 1\ndel book.store._rows\n", 3),
    "one of many": (patches, TEST, "a, book._b = 1, 2\nbook._rows['a'] = 1\nfor book._c in 'ab': pass\n", 3),
    "a private by name": (patches, TEST, "setattr(book, '_rows', 1)\n", 1),
    "a name of a module": (patches, TEST, "from meter import rating\nrating.LIMIT = 1\n", 1),
    "a name of a module by path": (patches, TEST, "import meter.rating\nmeter.rating.LIMIT = 1\n", 1),
    "a name of a class": (patches, TEST, "from meter.x import Book as B\nB.price = None\n", 1),
    "a word of domain/": (shared_words, "store/x.py", "class DeviceState:\n  pass\n", 1),
}


@pytest.mark.parametrize("case", BREAKS)
def test_a_break_of_the_rule_is_seen(case: str) -> None:
    scan, path, text, findings = BREAKS[case]
    assert len(list(scan(Source(path, text)))) == findings


KEEPS = {
    "a scaled number of examples": (
        fixed_examples,
        "tests/meter/test_x.py",
        "@settings(max_examples=settings().max_examples // 2)\ndef f(): 1\n",
    ),
    "a long test": (long_files, "tests/meter/test_x.py", "x = 1\n" * (LINES_MAX + 1)),
    "a full function": (long_functions, "meter/x.py", "def f():\n" + "    x = 1\n" * (FUNCTION_LINES_MAX - 1)),
    "a series in a docstring": (series_literals, "meter/x.py", '"""While `gpu_up` is 1."""\n'),
    "a longer word": (series_literals, "meter/x.py", 'NAME = "my_gpu_up_to_date"\n'),
    "a quotient of a fraction": (floats, "domain/money.py", "amount = Fraction(price) * quantity / whole\n"),
    "a float outside money": (floats, "collector/x.py", "ratio = 0.5\n"),
    "a private function": (missing_docstrings, "meter/x.py", '"""X."""\ndef _rate(): pass\n'),
    "a document that is here": (missing_documents, "tests/x.py", '"""See docs/settings.md."""\nX = "none.md"\n'),
    "a patched library": (patches, TEST, "import pynvml\nmonkeypatch.setattr(pynvml, 'nvmlLib', 1)\n"),
    "a patched interpreter": (patches, TEST, "from pathlib import Path\nmonkeypatch.setattr(Path, 'open', f)\n"),
    "the environment": (patches, TEST, "import os\nmonkeypatch.setenv('A', '1')\nos.environ['B'] = '1'\n"),
    "a private of one's own": (patches, TEST, "class C:\n  def __init__(self): self._a = 1\n"),
    "a look at a private": (patches, TEST, "assert book._rows == {}\nassert book._rows['a'] == 1\n"),
    "a public name of an object": (patches, TEST, "door.answers = hang\nsetattr(process, name, 0)\n"),
    "a private in the product": (patches, "meter/x.py", "other._rows = {}\n"),
    "a word of one's own": (shared_words, "store/x.py", "class DeviceStatePeriod:\n  pass\n"),
    "a method of a Protocol": (
        missing_docstrings,
        "meter/x.py",
        '"""X."""\nclass C:\n  """C."""\n  def now_us(self): pass\n',
    ),
}


@pytest.mark.parametrize("case", KEEPS)
def test_what_looks_like_a_break_is_let_pass(case: str) -> None:
    scan, path, text = KEEPS[case]
    assert list(scan(Source(path, text))) == []


def refusals(path: str, text: str) -> list[str]:
    """The codes of the ruff rules that the text breaks as a file of that path."""
    ruff = Path(sys.executable).parent / "ruff"
    command: list[str | Path] = [ruff, "check", "--no-cache", "--output-format=concise", "--stdin-filename", path, "-"]
    done = subprocess.run(command, input=text, cwd=ROOT, capture_output=True, text=True, check=False)
    return re.findall(r":\d+:\d+: ([A-Z]+\d+)", done.stdout)


@pytest.mark.parametrize(
    ("path", "text", "code"),
    [
        ("meter/x.py", "from . import rating\n\nrating.rate()\n", "TID252"),
        ("meter/x.py", "import time\n\ntime.time()\n", "TID251"),
        ("meter/x.py", "import os\n\nos.environ.copy()\n", "TID251"),
        ("meter/x.py", "import sqlalchemy\n\nsqlalchemy.select()\n", "TID251"),
        ("allocator/x.py", "import pynvml\n\npynvml.nvmlInit()\n", "TID251"),
    ],
)
def test_ruff_holds_the_borders(path: str, text: str, code: str) -> None:
    """Relative imports, the clock, the environment, the database and NVML each have one home."""
    assert refusals(path, text) == [code]


def test_ruff_lets_the_homes_be() -> None:
    assert refusals("domain/clock.py", "import time\n\ntime.time()\n") == []
    assert refusals("meter/ledger/ledger_store.py", "import sqlalchemy\n\nsqlalchemy.select()\n") == []
