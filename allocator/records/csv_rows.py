"""The allocation CSV: columns by name, one row a grant, and all that is wrong with a file together."""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TextIO, TypeVar

from allocator.request import check_labels
from domain.allocation_csv import COLUMNS, REQUIRED_COLUMNS
from domain.errors import InputError
from domain.grants import Grant, GrantKind
from domain.mig import SLICES_MAX
from domain.period import format_instant, parse_instant
from domain.problems import SHOWN_PROBLEMS, listed
from domain.slugs import check_model, check_name, check_slug
from domain.units import CARD_VRAM_BYTES_MAX, MIB, WHOLE_GPU_UNITS, milli_gpu

_WHOLE_NUMBER = re.compile("[0-9]{1,9}")
# No power of ten: a short cell would stand for one of a million digits.
_MIB = re.compile(r"[0-9]{1,20}(\.[0-9]{1,20})?")
# What other programs write where they have nothing. It would be the name of a card; a tenant may be called so.
_SLUGS = ("tenant", "project")
_NOTHING = frozenset({"nan", "none", "null", "<na>", "n/a", "#n/a"})
_SHOWN_CHARACTERS = 80
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the file. None is an empty cell; `end_us` None is a grant that goes on.

    `labels` is canonical JSON. `milli_gpu` and `vram_bytes` are as written, if they are.
    """

    line: int
    allocation: str
    tenant: str
    project: str
    node: str
    gpu_uuid: str | None
    model: str
    kind: GrantKind
    milli_gpu: int | None
    vram_bytes: int | None
    mig_profile: str | None
    start_us: int
    end_us: int | None
    mig_uuid: str | None
    mig_start: int | None
    labels: str
    source_id: str | None


class Problems:
    """Collects what is wrong with the lines of one file, so that a person mends it in one pass."""

    def __init__(self) -> None:
        self._shown: list[str] = []
        self._count = 0

    def add(self, line: int, problem: str) -> None:
        """Note a problem; only the first 20 are kept in words."""
        self._count += 1
        if len(self._shown) < SHOWN_PROBLEMS:
            self._shown.append(f"line {line}: {problem}")

    def raise_any(self) -> None:
        """Raise InputError if anything was wrong, in one line."""
        if self._count:
            found = listed(self._shown, self._count)
            raise InputError(f"cannot import the records, nothing was written: {found}")


def read_rows(lines: Iterable[str], problems: Problems) -> list[Row]:
    """The rows of a CSV file that are sound by themselves; what is wrong with the others goes to `problems`.

    Raises InputError where the header is not one.
    """
    reader = csv.reader(lines, strict=True)
    try:
        header = next(reader, [])
        _check_header(header)
        rows = []
        for cells in reader:
            if not cells:  # a blank line holds no row
                continue
            if len(cells) != len(header):
                problems.add(reader.line_num, f"{len(cells)} cells under {len(header)} columns: write one under each")
                continue
            try:
                rows.append(_read_row(reader.line_num, dict(zip(header, map(str.strip, cells), strict=True))))
            except InputError as error:
                problems.add(reader.line_num, str(error))
    except csv.Error as error:
        raise InputError(f"cannot read line {reader.line_num} as CSV: {error}; save the file as plain CSV") from error
    return rows


def write_rows(file: TextIO, rows: Iterable[Sequence[str]]) -> None:
    """The file of these rows, each with a cell for every one of `COLUMNS`."""
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows(rows)


def grant_cells(grant: Grant, mig_start: int | None, labels: str, source_id: str | None) -> Sequence[str]:
    """The row of a grant, which reads back as the same grant."""
    return (
        grant.allocation,
        grant.tenant,
        grant.project,
        grant.node,
        grant.gpu_uuid or "",
        grant.model,
        grant.kind,
        str(milli_gpu(grant.compute_units, grant.compute_units_total)),
        _format_mib(grant.vram_bytes),
        grant.sku.partition("/")[2] if grant.kind is GrantKind.MIG else "",
        format_instant(grant.start_us),
        "" if grant.end_us is None else format_instant(grant.end_us),
        grant.mig_uuid or "",
        "" if mig_start is None else str(mig_start),
        "" if labels == "{}" else labels,
        source_id or "",
    )


def _check_header(header: Sequence[str]) -> None:
    unknown = [name for name in header if name not in COLUMNS]
    missing = [name for name in REQUIRED_COLUMNS if name not in header]
    if unknown:
        raise InputError(f"cannot use the column {unknown[0]!r}: the columns are {', '.join(COLUMNS)}")
    if missing:
        raise InputError(f"cannot find the column {missing[0]!r}: write a header with {', '.join(REQUIRED_COLUMNS)}")
    if len(set(header)) < len(header):
        raise InputError(f"cannot use a header that names a column twice: {', '.join(header)}; keep one of each")


def _read_row(line: int, cells: Mapping[str, str]) -> Row:
    def optional(name: str, read: Callable[[str], _Value]) -> _Value | None:
        return read(cells[name]) if cells.get(name) else None

    for name, text in cells.items():
        if text.lower() in _NOTHING and name not in _SLUGS:
            raise InputError(f"cannot use {text!r} as {name}: leave a cell empty that has no value")
    row = Row(
        line=line,
        allocation=check_name("name of an allocation", cells["allocation"]),
        tenant=check_slug("tenant", cells["tenant"]),
        project=check_slug("project", cells["project"]),
        node=optional("node", lambda text: check_name("node", text)) or "",
        gpu_uuid=optional("gpu_uuid", lambda text: check_name("GPU UUID", text)),
        model=optional("model", check_model) or "",
        kind=_read_kind(cells["kind"]),
        milli_gpu=optional("milli_gpu", _read_milli),
        vram_bytes=optional("vram_mib", _read_mib),
        mig_profile=optional("mig_profile", lambda text: check_name("MIG profile", text)),
        start_us=_read_instant(cells["start"]),
        end_us=optional("end", _read_instant),
        mig_uuid=optional("mig_uuid", lambda text: check_name("MIG UUID", text)),
        mig_start=optional("mig_start", _read_slice),
        labels=optional("labels", _read_labels) or "{}",
        source_id=optional("source_id", lambda text: check_name("source_id", text)),
    )
    for problem in _contradictions(row):
        raise InputError(problem)
    return row


def _contradictions(row: Row) -> Iterator[str]:
    if row.end_us is not None and row.end_us < row.start_us:
        start, end = format_instant(row.start_us), format_instant(row.end_us)
        yield f"it ends at {end!r}, before it starts at {start!r}: swap the two"
    if row.gpu_uuid is not None and not row.node:
        yield f"the node of the card {row.gpu_uuid!r} is missing: write it"
    if row.kind is GrantKind.WHOLE and row.milli_gpu not in (None, WHOLE_GPU_UNITS):
        yield f"a whole card of {row.milli_gpu!r} milli-GPU: leave the cell empty, or write the kind share"
    if row.kind is GrantKind.SHARE and row.milli_gpu in (None, WHOLE_GPU_UNITS):
        yield f"a share of {row.milli_gpu or 'no'} milli-GPU: write 1 to 999, or the kind whole"
    if row.kind is GrantKind.MIG and row.mig_profile is None:
        yield "the kind mig without its mig_profile: write it, such as 1g.10gb"
    if row.kind is not GrantKind.MIG and row.mig_profile is not None:
        yield f"mig_profile {row.mig_profile!r} with the kind {row.kind}: leave it empty, or write the kind mig"
    if row.kind is not GrantKind.MIG and (row.mig_uuid is not None or row.mig_start is not None):
        yield f"a MIG instance with the kind {row.kind}: write the kind mig"
    if row.mig_uuid is not None and row.gpu_uuid is None:
        yield f"the card of the MIG instance {row.mig_uuid!r} is missing: write its gpu_uuid"


def _read_kind(text: str) -> GrantKind:
    try:
        return GrantKind(text)
    except ValueError as error:
        raise InputError(f"cannot use the kind {text!r}: write {', '.join(GrantKind)}") from error


def _read_milli(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text) or not 0 < int(text) <= WHOLE_GPU_UNITS:
        raise InputError(
            f"cannot use milli_gpu {text!r}: write 1 to 999 for a part of a card, or leave a whole one empty"
        )
    return int(text)


def _read_slice(text: str) -> int:
    if not _WHOLE_NUMBER.fullmatch(text) or int(text) >= SLICES_MAX:
        raise InputError(f"cannot use mig_start {text!r}: write a whole number from 0 to {SLICES_MAX - 1}")
    return int(text)


def _read_mib(text: str) -> int:
    if not _MIB.fullmatch(text):
        raise InputError(f"cannot read vram_mib {text!r}: write a number of MiB (2^20 bytes), 0 or more")
    exact_bytes = Fraction(text) * MIB
    if exact_bytes.denominator != 1:
        raise InputError(f"cannot use vram_mib {text!r}: it must be whole bytes (1 MiB is 2^20 bytes)")
    if exact_bytes > CARD_VRAM_BYTES_MAX:
        raise InputError(
            f"cannot use vram_mib {text!r}: no card has more than {CARD_VRAM_BYTES_MAX // MIB} MiB; write MiB, not "
            "bytes"
        )
    return int(exact_bytes)


def _format_mib(vram_bytes: int) -> str:
    # A count of 2^-20ths has at most 20 decimals, so this is exact and _read_mib gives the bytes back.
    whole, rest = divmod(vram_bytes, MIB)
    return f"{whole}.{rest * 10**20 // MIB:020d}".rstrip("0").rstrip(".")


def _read_instant(text: str) -> int:
    instant_us = parse_instant(text)
    if instant_us < 0:
        raise InputError(f"cannot use the time {text!r}: write one from 1970 on")
    return instant_us


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise InputError(f"cannot use labels that name {twice[:_SHOWN_CHARACTERS]!r} twice: keep one")
    return found


def _read_labels(text: str) -> str:
    try:
        labels = json.loads(text, object_pairs_hook=_pairs)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"cannot read the labels {text[:_SHOWN_CHARACTERS]!r}: write a JSON object of strings"
        ) from error
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise InputError(f"cannot use the labels {text[:_SHOWN_CHARACTERS]!r}: write a JSON object of strings")
    check_labels(labels)
    return json.dumps(labels, sort_keys=True)
