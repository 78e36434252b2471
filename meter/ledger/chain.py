"""The digests by which a closed hour, and what was corrected of it, is known again."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass

from meter.rating.charges import Charge


@dataclass(frozen=True, slots=True)
class ClosedWindow:
    """What is proved of one window of a closed hour."""

    node: str
    revision: int
    evidence_digest: str
    charges: Sequence[Charge]


def hour_digest(start_us: int, windows: Iterable[ClosedWindow], previous_digest: str | None) -> str:
    """SHA-256 over the hour, its windows by the names of their nodes and all their charges, and the hour closed before.

    Each line is JSON: first the hour and the digest before, then for each window its node, revision, evidence and
    charges, these by their ids with all their columns in the order of `Charge`.
    """
    lines: list[object] = [["hour", start_us, previous_digest]]
    for window in sorted(windows, key=lambda each: each.node):
        charged = sorted((each.charge_id, *astuple(each)) for each in window.charges)
        lines.append([window.node, window.revision, window.evidence_digest, charged])
    return _digest(lines)


def correction_digest(
    node: str,
    start_us: int,
    revision: int,
    evidence_digest: str,
    said: tuple[str, str, int],
    adjustments: Iterable[Charge],
    previous_digest: str | None,
) -> str:
    """SHA-256 over a correction, what it adjusts, and the correction before; `said` is its reason, by whom and when."""
    head: list[object] = ["correction", node, start_us, revision, evidence_digest, *said, previous_digest]
    return _digest([head, *sorted(((each.charge_id, *astuple(each)) for each in adjustments), key=repr)])


def _digest(lines: Iterable[object]) -> str:
    text = "\n".join(json.dumps(line, separators=(",", ":")) for line in lines)
    return hashlib.sha256(text.encode()).hexdigest()
