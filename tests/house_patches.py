"""The scan behind "nothing of ours is mocked or patched" in `test_house.py`."""

import ast
from collections.abc import Iterator

from tests.house_scans import PACKAGES, Source

# What is patched all the same, by file and name.
ALLOWED = (
    # SQLAlchemy's, though reached by way of ours: else the test would wait for the 30 s of its pool.
    ("tests/store/test_database.py", "database.engine.pool"),
    # A stand-in's, not ours: DCGM's bindings of version 3 lack a call that those of version 4 have.
    ("tests/collector/dcgm/test_bindings.py", "agent"),
)
_PATCHERS = {"setattr", "delattr", "setitem", "delitem"}
_MOCKS = {"mock", "unittest.mock"}


def patches(source: Source) -> Iterator[str]:
    """A test sets nothing that is ours from outside: no module's or class's name, no private of an object.

    What of the interpreter, a library or the machine it exchanges for a while is its own affair. It may look at
    privates, and set its own fakes' public names.
    """
    if not source.path.startswith("tests/") or not source.path.endswith(".py"):
        return
    ours, others = _imported_names(source.tree)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (f"{node.lineno}: {name}" for name in _modules(node) if name in _MOCKS)
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            if _is_private(node) or _root(node.value) in ours:
                yield f"{node.lineno}: {ast.unparse(node)} is set"
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            if isinstance(node.value, ast.Attribute) and _is_private(node.value):
                yield f"{node.lineno}: {ast.unparse(node.value)} is set"
        elif isinstance(node, ast.Call) and node.args:
            target = _patched_by(node, ours, others)
            if target is not None and (source.path, target) not in ALLOWED:
                yield f"{node.lineno}: {target} is patched"


def _imported_names(tree: ast.Module) -> tuple[set[str], set[str]]:
    """The names that a file imports from the checkout, and those that it imports from elsewhere."""
    ours: set[str] = set()
    others: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom | ast.Import):
            for alias in node.names:
                module = node.module if isinstance(node, ast.ImportFrom) else alias.name
                (ours if _is_ours(module or "") else others).add((alias.asname or alias.name).partition(".")[0])
    return ours, others


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    """What may be modules of what is imported."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)]


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] in {*PACKAGES, "tests"}


def _root(node: ast.expr) -> str | None:
    """The name that an expression such as `a.b[0].c()` begins with; None where it begins with none."""
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def _is_private(node: ast.Attribute) -> bool:
    """Whether it is a private of somebody else."""
    is_own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls"}
    return node.attr.startswith("_") and not node.attr.endswith("__") and not is_own


def _patched_by(call: ast.Call, ours: set[str], others: set[str]) -> str | None:
    """What a call exchanges that is ours; None where it exchanges nothing, or what is somebody else's."""
    target = call.args[0]
    if isinstance(call.func, ast.Name) and call.func.id in _PATCHERS and len(call.args) > 1:
        name = call.args[1]
        is_private = isinstance(name, ast.Constant) and str(name.value).startswith("_")
        return ast.unparse(target) if is_private or _root(target) in ours else None
    if not (isinstance(call.func, ast.Attribute) and call.func.attr in _PATCHERS):
        return None
    if isinstance(target, ast.Constant):
        return target.value if isinstance(target.value, str) and _is_ours(target.value) else None
    return None if _root(target) in others else ast.unparse(target)
