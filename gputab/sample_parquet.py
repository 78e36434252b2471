"""Sample Parquet: the columns of a sample CSV, read in batches and checked as its rows are.

Its cells are checked as the text that a CSV would have: a null is a missing cell. It lies here since the collector,
which runs on rented nodes, does without polars.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from collector.imports.sample_rows import TIME, Row, RowCheck
from collector.imports.unchanged_file import UnchangedFile
from domain.errors import InputError
from domain.problems import SHOWN_PROBLEMS, listed
from domain.series import OWNER

_MAGIC = b"PAR1"
# Beside them, some row groups are in memory, as large as the file's writer made them.
_BATCH_ROWS = 20_000
_TEXT = (pl.String, pl.Categorical, pl.Enum, pl.Null)


class ParquetSamples:
    """A sample Parquet on its way in, as it was when this was made; a `SampleLog`.

    `time` is a timestamp with a zone (cut to microseconds), a number of epoch seconds, or text as in a CSV. `problems`
    are of the latest reading, and grow with it; they name rows from 1.
    """

    def __init__(self, path: Path) -> None:
        """Raises InputError where the file or one of its columns cannot be used at all."""
        self.path = path
        self.problems: list[str] = []
        self._check: RowCheck | None = None
        with self._readable():
            self._file = UnchangedFile(path)
            self._frame = pl.scan_parquet(path, glob=False, hive_partitioning=False)
            schema = self._frame.collect_schema()
            self._count: int = self._frame.select(pl.len()).collect().item()
        self._names = schema.names()
        RowCheck(self._names, path, [])
        self._as_text = _as_text(path, schema)

    def __len__(self) -> int:
        return self._count

    @property
    def cut_cells(self) -> int:
        """Whole bytes that had a fraction."""
        return 0 if self._check is None else self._check.cut_cells

    def rows(self, advance: Callable[[int], None]) -> Iterator[Row]:
        """Every good row; what is wrong with the others is in `problems`, after 20 of which reading ends.

        `advance` is told how many rows were read since its last call. Raises InputError where the file is damaged.
        """
        self.problems.clear()
        check = self._check = RowCheck(self._names, self.path, self.problems, "row")
        number = 0
        with self._readable():
            for batch in self._frame.collect_batches(chunk_size=_BATCH_ROWS, maintain_order=True, engine="streaming"):
                for cells in batch.select(self._as_text).iter_rows():
                    number += 1
                    if len(self.problems) > SHOWN_PROBLEMS:
                        return
                    if (row := check.row(number, cells)) is not None:
                        yield row
                advance(batch.height)

    def is_changed(self) -> bool:
        """Whether the file is no longer what the first reading found good."""
        return bool(self.problems) or self._file.is_changed()

    @contextmanager
    def _readable(self) -> Iterator[None]:
        """Errors of the file as InputError."""
        try:
            yield
        # The last is how polars meets some damaged files; it is no `Exception`.
        except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
            reason = str(error).strip().partition("\n")[0]
            raise InputError(
                f"cannot read the samples {str(self.path)!r}: {reason or 'no data'}; give a whole Parquet file"
            ) from error


def is_parquet(path: Path) -> bool:
    """Whether the file begins as Parquet does; False for what cannot be read, and for what is no regular file."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except (OSError, ValueError):
        return False


def _as_text(path: Path, schema: pl.Schema) -> list[pl.Expr]:
    """Each column as the text of its cells. Raises InputError with every column that is of no fitting type."""
    problems: list[str] = []
    columns: list[pl.Expr] = []
    for name, kind in schema.items():
        column = pl.col(name)
        if name == TIME and isinstance(kind, pl.Datetime):
            if kind.time_zone is None:
                problems.append(f"column {name!r} has times without a zone: write them in UTC, or as epoch seconds")
            column = column.dt.cast_time_unit("us").dt.convert_time_zone("UTC").dt.strftime("%Y-%m-%dT%H:%M:%S%.6fZ")
        elif name == TIME and kind == pl.Float32:
            problems.append(f"column {name!r} has too few digits for a time: write 64 bits")
        elif kind == pl.Boolean:
            column = column.cast(pl.UInt8)
        elif not (kind in _TEXT or (name not in OWNER and kind.is_numeric())):
            problems.append(
                f"column {name!r} is of type {kind}: write {'text' if name in OWNER else 'numbers or text'}"
            )
        columns.append(column.cast(pl.String).fill_null(""))
    if problems:
        raise InputError(f"cannot import {str(path)!r}: {listed(problems)}. Convert these columns")
    return columns
