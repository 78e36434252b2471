"""The scans behind `test_house.py`: rules of the house that no off-the-shelf linter knows, one function each."""

import ast
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from domain.series import CATALOGUE

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = sorted(init.parent.name for init in ROOT.glob("[!.]*/__init__.py"))

LINES_MAX = 300
FUNCTION_LINES_MAX = 70
# Alembic writes these: one function per migration, as long as the tables are many.
MIGRATIONS = "store/migrations/versions/"
CATALOGUE_FOLDER = "domain/series/"
MONEY_PATH = (
    "domain/money.py",
    "domain/owners.py",
    "domain/prices.py",
    "gputab/bill.py",
    "gputab/log_usage.py",
    "meter/bills/invoice_store.py",
    "meter/bills/invoices.py",
    "meter/bills/spend.py",
    "meter/bills/spend_store.py",
    "meter/prices/price_book.py",
    "meter/prices/price_store.py",
    "meter/rating/charges.py",
    "meter/rating/differences.py",
    "meter/rating/explaining.py",
    "meter/rating/measuring.py",
    "meter/rating/rating.py",
    "meter/rating/usage.py",
    "meter/ledger/chain.py",
    "meter/ledger/closing_store.py",
    "meter/windows/comparing.py",
    "meter/windows/corrections.py",
    "meter/ledger/corrections_store.py",
    "meter/ledger/daily_store.py",
    "meter/ledger/ledger_store.py",
    "meter/windows/verifying.py",
)
VAGUE_NAMES = {"common", "const", "constants", "helper", "helpers", "misc", "types", "util", "utils"}
# Spelled apart, or this file would name them.
FORBIDDEN_TEXT = (
    "/".join(("", "work", "")),
    ".".join(("pypi", "org")),
    ".".join(("pythonhosted", "org")),
    ".".join(("deb", "debian", "org")),
    ".".join(("registry", "npmjs", "org")),
)
_NOT_TEXT = {".gif", ".parquet", ".png", ".pyc"}
_SERIES_NAME = re.compile(rf"(?<![A-Za-z0-9_])(?:{'|'.join(map(re.escape, CATALOGUE))})(?![A-Za-z0-9_])")


@dataclass(frozen=True)
class Source:
    """A file of the checkout; `path` is relative to its root, with slashes."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed file."""
        return ast.parse(self.text)

    @property
    def is_product(self) -> bool:
        """Whether it is Python that is shipped."""
        return self.path.endswith(".py") and self.path.partition("/")[0] in PACKAGES


def text_files(root: Path) -> Iterator[Path]:
    """Every file of the checkout but pictures, caches, environments and what runs left behind."""
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(
            name
            for name in folders
            if name == ".ci" or not (name.startswith(".") or name in {"__pycache__", "build", "dist"})
        )
        yield from (Path(folder) / name for name in sorted(names) if Path(name).suffix not in _NOT_TEXT)


def read_sources(root: Path) -> list[Source]:
    """All of them, in order of path."""
    return [Source(file.relative_to(root).as_posix(), file.read_text("utf-8")) for file in text_files(root)]


SOURCES = read_sources(ROOT)


def long_files(source: Source) -> Iterator[str]:
    """One idea per file fits in 300 lines."""
    lines = source.text.count("\n")
    if source.is_product and lines > LINES_MAX and not source.path.startswith(MIGRATIONS):
        yield f"{lines} lines"


def long_functions(source: Source) -> Iterator[str]:
    """A function fits on a screen: 70 lines."""
    if source.is_product and not source.path.startswith(MIGRATIONS):
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > FUNCTION_LINES_MAX:
                    yield f"{node.lineno}: {node.name} has {lines} lines"


def series_literals(source: Source) -> Iterator[str]:
    """A series is named in the catalogue only; docstrings may speak of it."""
    if not source.is_product or source.path.startswith(CATALOGUE_FOLDER):
        return
    prose = {id(node.value) for node in ast.walk(source.tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield from (f"{node.lineno}: {name!r}" for name in _SERIES_NAME.findall(node.value))


def floats(source: Source) -> Iterator[str]:
    """Money and the quantities it is made of are whole numbers, decimals and fractions."""
    if source.path not in MONEY_PATH:
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, float):
            yield f"{node.lineno}: {node.value!r}"
        elif isinstance(node, ast.Name) and node.id == "float":
            yield f"{node.lineno}: float"
        elif isinstance(node, ast.Attribute) and node.attr.lower().startswith("float"):
            yield f"{node.lineno}: {node.attr}"
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and not _begins_exact(node.left):
            yield f"{node.lineno}: a quotient of what may be whole numbers is a float"


def _begins_exact(dividend: ast.expr) -> bool:
    return any(isinstance(node, ast.Name) and node.id in {"Decimal", "Fraction"} for node in ast.walk(dividend))


def vague_names(source: Source) -> Iterator[str]:
    """A module is named for its idea, never for the kind of thing in it."""
    if source.path.endswith(".py"):
        yield from (part for part in source.path.removesuffix(".py").split("/") if part in VAGUE_NAMES)


def missing_docstrings(source: Source) -> Iterator[str]:
    """Whatever is public states its contract; an implementation leaves that to its Protocol."""
    if not source.is_product or source.path.startswith(MIGRATIONS):
        return
    if source.text.strip() and ast.get_docstring(source.tree) is None:
        yield "1: the module"
    owners: list[ast.Module | ast.ClassDef] = [source.tree]
    owners += [node for node in source.tree.body if isinstance(node, ast.ClassDef)]
    for owner in owners:
        if isinstance(owner, ast.ClassDef) and owner.name.startswith("_"):
            continue
        for node in owner.body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                continue
            inherits = isinstance(owner, ast.ClassDef) and node.name in PROTOCOL_METHODS
            if not node.name.startswith("_") and not inherits and ast.get_docstring(node) is None:
                yield f"{node.lineno}: {node.name}"


def missing_documents(source: Source) -> Iterator[str]:
    """A docstring or comment names a document of the checkout or none: a reader cannot look into another."""
    if not source.path.endswith(".py"):
        return
    comments = [
        line.partition("#")[2] for line in source.text.splitlines() if line.lstrip().startswith("#") or "  # " in line
    ]
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = [ast.get_docstring(node) or "" for node in ast.walk(source.tree) if isinstance(node, owners)]
    for text in (*comments, *docstrings):
        named = {Path(each).name for each in re.findall(r"[\w./-]*\w\.md\b", text)}
        yield from (f"{name} is not here" for name in sorted(named - DOCUMENTS))


DOCUMENTS = {Path(source.path).name for source in SOURCES if source.path.endswith(".md")}


def shared_words(source: Source) -> Iterator[str]:
    """A type of domain/ is a word that all folders share, so none of them calls another thing by it."""
    if source.is_product and not source.path.startswith("domain/"):
        yield from (
            f"{node.lineno}: {node.name}"
            for node in source.tree.body
            if isinstance(node, ast.ClassDef) and node.name in DOMAIN_TYPES
        )


def domain_types(sources: list[Source]) -> frozenset[str]:
    """The names of the classes in domain/."""
    return frozenset(
        node.name
        for source in sources
        if source.is_product and source.path.startswith("domain/")
        for node in source.tree.body
        if isinstance(node, ast.ClassDef)
    )


DOMAIN_TYPES = domain_types(SOURCES)


def protocol_methods(sources: list[Source]) -> frozenset[str]:
    """Methods that a Protocol of ours documents."""
    return frozenset(
        method.name
        for source in sources
        if source.is_product
        for node in ast.walk(source.tree)
        if isinstance(node, ast.ClassDef) and any(isinstance(b, ast.Name) and b.id == "Protocol" for b in node.bases)
        for method in node.body
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(method)
    )


PROTOCOL_METHODS = protocol_methods(SOURCES)


def machine_paths_and_mirrors(source: Source) -> Iterator[str]:
    """What is true of one machine or one mirror only is written nowhere."""
    for number, line in enumerate(source.text.splitlines(), start=1):
        yield from (f"{number}: {text}" for text in FORBIDDEN_TEXT if text in line)


def fixed_examples(source: Source) -> Iterator[str]:
    """A property scales the profile's `max_examples`, so that `make soak` reaches it."""
    if not source.path.startswith("tests/") or not source.path.endswith(".py") or source.path == "tests/conftest.py":
        return
    for node in ast.walk(source.tree):
        if isinstance(node, ast.keyword) and node.arg == "max_examples" and isinstance(node.value, ast.Constant):
            yield f"{node.value.lineno}: write settings().max_examples * {node.value.value!r} // 100"


Scan = Callable[[Source], Iterator[str]]
SCANS: tuple[Scan, ...] = (
    long_files,
    long_functions,
    series_literals,
    floats,
    vague_names,
    missing_docstrings,
    machine_paths_and_mirrors,
    fixed_examples,
    missing_documents,
    shared_words,
)
