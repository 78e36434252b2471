"""Evidence as files, written once: the ledger names them, so they survive whatever it survives."""

import io
import os
import secrets
from contextlib import suppress
from pathlib import Path

import polars as pl

from domain.errors import EvidenceError, UnavailableError
from domain.period import Period
from meter.evidence.evidence import Evidence


def write_evidence(evidence: Evidence, path: Path) -> int:
    """Write the runs as Parquet, whole or not at all; returns the size in bytes."""
    buffer = io.BytesIO()
    evidence.runs.write_parquet(buffer, compression="zstd")
    content = buffer.getvalue()
    # Another process may be writing the same.
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.partial")
    try:
        _make_folder(path.parent)
        with partial.open("wb") as file:
            file.write(content)
            os.fsync(file.fileno())
        partial.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            partial.unlink()
        raise UnavailableError(f"cannot write evidence to {str(path)!r}: {error.strerror}; free some space") from error
    return len(content)


def read_evidence(path: Path, node: str, period: Period, digest: str) -> Evidence:
    """The frozen runs; EvidenceError where the file is gone or is not what was frozen."""
    try:
        # Of a path with brackets or stars polars would make a pattern.
        evidence = Evidence(node, period, pl.read_parquet(path, glob=False))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise EvidenceError(f"cannot read the evidence {str(path)!r}: {error}; restore it from a backup") from error
    if evidence.digest != digest:
        raise EvidenceError(
            f"cannot use the evidence {str(path)!r}: its digest is {evidence.digest[:12]!r}, not {digest[:12]!r}; "
            "restore it from a backup"
        )
    return evidence


def _make_folder(folder: Path) -> None:
    """Make the folder and those above it; like the file itself, they must survive a power cut as the ledger does."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    for each in missing:
        _sync_folder(each.parent)


def _sync_folder(folder: Path) -> None:
    """Bring the names in the folder to the disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
