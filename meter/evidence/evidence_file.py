"""Evidence as Parquet, written once: the ledger names the file, so it survives whatever the ledger survives."""

import hashlib
import io
import re

import polars as pl

from domain.errors import EvidenceError
from domain.period import Period
from meter.evidence.evidence import Evidence
from meter.evidence.evidence_store import EvidenceStore

_NAMED_DIGEST = re.compile(r"\.([0-9a-f]{16})\.parquet")


def write_evidence(evidence: Evidence, store: EvidenceStore, stem: str) -> tuple[str, int]:
    """Write the runs, whole or not at all; returns the file's path in the store, and its size in bytes.

    The path is the stem and a digest of the content, so that a file never takes the place of another one, should two
    meters meet here. Raises UnavailableError as the store does.
    """
    buffer = io.BytesIO()
    evidence.runs.write_parquet(buffer, compression="zstd")
    content = buffer.getvalue()
    path = f"{stem}.{_digest(content)}.parquet"
    return path, store.write(path, content)


def read_evidence(store: EvidenceStore, path: str, node: str, period: Period, digest: str) -> Evidence:
    """The frozen runs; EvidenceError where they are gone or are not what was frozen.

    UnavailableError of another kind where the store cannot be asked.
    """
    content, place = store.read(path), store.place(path)
    named = _NAMED_DIGEST.search(path)
    # First of all: a damaged Parquet file can end the process that parses it.
    if named is not None and _digest(content) != named[1]:
        raise EvidenceError(f"cannot read the evidence {place!r}: it is damaged; restore it from a backup")
    try:
        evidence = Evidence(node, period, pl.read_parquet(io.BytesIO(content)))
    except pl.exceptions.PolarsError as error:
        raise EvidenceError(f"cannot read the evidence {place!r}: {error}; restore it from a backup") from error
    if evidence.digest != digest:
        raise EvidenceError(
            f"cannot use the evidence {place!r}: its digest is {evidence.digest[:12]!r}, not {digest[:12]!r}; "
            "restore it from a backup"
        )
    return evidence


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
