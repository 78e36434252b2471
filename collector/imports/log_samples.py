"""A log of another tool as rows for the store: its cards under the names they have there, in the order of time.

What no card can say is left out and told like a refused row: sentinels never leave the node, and logs have them too.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from collector.imports.parts import one_part
from collector.imports.sample_rows import Identity, Row
from collector.logs.log import Log, LogCard, LogRow, RefusedRow
from collector.ranges import is_possible
from domain.errors import InputError
from domain.series import GPU_MEMORY_RESERVED, GPU_MEMORY_TOTAL, GPU_MEMORY_USED, Series
from domain.slugs import check_model, check_name

_PROGRESS_ROWS = 5_000


@dataclass(frozen=True, slots=True)
class CardNames:
    """What a person says of the cards of a log: their node (None: the log says it), and the UUIDs of some indexes."""

    node: str | None = None
    gpu_uuids: Mapping[str, str] = field(default_factory=dict)


class LogSamples:
    """A log that has been read whole, as a `SampleLog`: it cannot change any more, and nothing in it is a problem.

    `cards` has what the log knows of each card beside its numbers, by node and UUID. `unnamed` are the cards that are
    called `<node>/<index>`, since nobody tells their UUID. `refused` has each row that counts for less than it says.
    `repeated` counts rows that another of the same card and instant came after, which counts in their place.
    """

    def __init__(self, path: Path, log: Log, names: CardNames) -> None:
        """Raises InputError where a card cannot be named: without a node, or with neither UUID nor index."""
        self.path = path
        self.problems: list[str] = []
        self.cut_cells = 0
        self.repeated = 0
        self.cards: dict[tuple[str, str], LogCard] = {}
        self.unnamed: set[str] = set()
        self._names = names
        self._identities: dict[LogCard, Identity] = {}
        refused = list(log.refused)
        found: dict[tuple[Identity, int], Row] = {}
        for row in log.rows:
            identity = self._identities.get(row.card) or self._name(row.card)
            self.repeated += (identity, row.time_us) in found
            found[identity, row.time_us] = Row(row.line, row.time_us, identity, self._values(row, refused))
        self.refused = tuple(sorted(refused))
        self._rows = [row for _, row in sorted(found.items()) if row.values]

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self, advance: Callable[[int], None]) -> Iterator[Row]:
        """Every row that says something, by card and time; `advance` is told how many there were."""
        for number, row in enumerate(self._rows, start=1):
            if number % _PROGRESS_ROWS == 0:
                advance(_PROGRESS_ROWS)
            yield row
        advance(len(self._rows) % _PROGRESS_ROWS)

    def is_changed(self) -> bool:
        """Never: what is sent is what was looked at."""
        return False

    def _name(self, card: LogCard) -> Identity:
        node = self._names.node or card.node
        if node is None:
            raise InputError(f"cannot import {str(self.path)!r}: it does not name its node; give --node")
        gpu_uuid = card.gpu_uuid or self._names.gpu_uuids.get(card.index or "")
        if gpu_uuid is None:
            if card.index is None:
                raise InputError(
                    f"cannot import {str(self.path)!r}: it names a card by neither UUID nor index; log one of them"
                )
            gpu_uuid = f"{node}/{card.index}"
            self.unnamed.add(gpu_uuid)
        mig_uuid = _mig_uuid(card, gpu_uuid)
        found = Identity(check_name("node", node), check_name("GPU UUID", gpu_uuid), mig_uuid, "")
        if found.mig_uuid:
            check_name("MIG UUID", found.mig_uuid)
        self._identities[card] = found
        if card.model is not None:
            check_model(card.model)
        known = self.cards.setdefault((node, gpu_uuid), card)
        # What some rows do not tell of it, others may.
        self.cards[node, gpu_uuid] = replace(known, index=known.index or card.index, model=known.model or card.model)
        return found

    def _values(self, row: LogRow, refused: list[RefusedRow]) -> dict[Series, int | float]:
        """What the row says, as the store takes it, without what no card can say, which is added to `refused`."""
        values: dict[Series, int | float] = {}
        told = [(series, series, "", exact) for series, exact in row.values.items()]
        for series, parts in row.parts.items():
            told += [(series, one_part(series, part), f" of {part!r}", exact) for part, exact in parts.items()]
        for series, key, of, exact in told:
            value = int(exact) if series.whole else float(exact)
            if is_possible(series, value):
                values[key] = value
                self.cut_cells += series.whole and value != exact
            else:
                refused.append(RefusedRow(row.line, f"{series.name} {value!r}{of}: no card can have it"))
        total_bytes = values.get(GPU_MEMORY_TOTAL)
        for series in (GPU_MEMORY_USED, GPU_MEMORY_RESERVED):
            if total_bytes is not None and values.get(series, 0) > total_bytes:
                refused.append(
                    RefusedRow(row.line, f"{series.name} {values[series]!r}: more than the card's {total_bytes}")
                )
                del values[series]
        return values


def _mig_uuid(card: LogCard, gpu_uuid: str) -> str:
    """The instance's name, "" for a card: what its log names by the index of its card is named by the card's UUID."""
    name = card.mig_uuid or ""
    by_index = f"MIG-{card.index}/"
    return f"MIG-{gpu_uuid}/{name.removeprefix(by_index)}" if name.startswith(by_index) else name
