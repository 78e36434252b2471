"""Evidence as Parquet, written once: the ledger names the file, so it survives whatever the ledger survives."""

import io

import polars as pl

from domain.errors import EvidenceError
from domain.period import Period
from meter.evidence.evidence import Evidence
from meter.evidence.evidence_store import EvidenceStore


def write_evidence(evidence: Evidence, store: EvidenceStore, path: str) -> int:
    """Write the runs, whole or not at all; returns the size in bytes. Raises UnavailableError as the store does."""
    buffer = io.BytesIO()
    evidence.runs.write_parquet(buffer, compression="zstd")
    return store.write(path, buffer.getvalue())


def read_evidence(store: EvidenceStore, path: str, node: str, period: Period, digest: str) -> Evidence:
    """The frozen runs; EvidenceError where they are gone or are not what was frozen.

    UnavailableError of another kind where the store cannot be asked.
    """
    content = store.read(path)
    try:
        evidence = Evidence(node, period, pl.read_parquet(io.BytesIO(content)))
    except pl.exceptions.PolarsError as error:
        raise EvidenceError(
            f"cannot read the evidence {store.place(path)!r}: {error}; restore it from a backup"
        ) from error
    if evidence.digest != digest:
        raise EvidenceError(
            f"cannot use the evidence {store.place(path)!r}: its digest is {evidence.digest[:12]!r}, not "
            f"{digest[:12]!r}; restore it from a backup"
        )
    return evidence
