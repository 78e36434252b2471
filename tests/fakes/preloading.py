"""Small libraries in C that a program of another process loads before its own, so that it sees what a test wants."""

import shutil
import subprocess
from pathlib import Path

import pytest


def preloaded(source: Path, folder: Path) -> Path:
    """The library of that source, built in that folder, for LD_PRELOAD; skips where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip(f"needs a C compiler to build {source.name}")
    library = folder / f"{source.stem}.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
    return library
