"""From samples in Parquet to seconds and byte-seconds: the meter's own step, DuckDB's range join, pandas' merge_asof.

All three answer the same: of every piece of a grant in which neither hour nor price changes, in how many seconds its
VRAM was read, and the sum over them of what was granted or used, whichever was more. Some samples are there twice, with
another value, of which the larger counts.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import duckdb
import pandas as pd
import polars as pl

from benchmarks.meter_fleet import START_US, Fleet
from benchmarks.meter_ledger import price_book
from benchmarks.meter_samples import samples_of
from domain.grants import Grant, GrantKind
from domain.period import HOUR_US, Period, ceil_second
from domain.prices import GapRules
from domain.samples import allocation_owner
from domain.series import GPU_MEMORY_USED, OWNER_MEMORY
from meter.evidence.evidence import make_evidence
from meter.evidence.observations import SAMPLE_COLUMNS
from meter.rating.measuring import Stretch, measure

_MEMORIES = (GPU_MEMORY_USED, OWNER_MEMORY)
_LABELS = ("gpu_uuid", "mig_uuid", "owner")
# One sample in so many is there twice.
_TWICE_ONE_IN = 997
_ROUNDS = 5

Answer = list[tuple[int, int, int]]
"""(number of the piece, seconds in which its VRAM was read, byte-seconds), by number; of pieces that have any."""


class Cost(NamedTuple):
    """The least of some rounds, in seconds of the wall and of a core."""

    wall_s: float
    cpu_s: float


@dataclass(frozen=True)
class PeerCosts:
    """What the same answer costs each of them."""

    samples: int
    ours: Cost
    duckdb: Cost
    pandas: Cost


class Piece(NamedTuple):
    """A stretch of a grant within one (hour, node) and one price."""

    grant: Grant
    hour: int
    start_s: int
    end_s: int

    @property
    def owner(self) -> str:
        """Whose use is asked for: of a share its owner's, else the device's."""
        return allocation_owner(self.grant.allocation) if self.grant.kind is GrantKind.SHARE else ""


def compare(folder: Path, fleet: Fleet) -> PeerCosts:
    """Write the samples, one file for each (hour, node), and let all three answer; RuntimeError where one differs."""
    folder.mkdir(parents=True)
    samples = write_samples(folder, fleet)
    pieces = list(pieces_of(fleet))
    table = piece_table(pieces)
    ways: dict[str, Callable[[], Answer]] = {
        "ours": lambda: by_evidence(folder, fleet, pieces),
        "duckdb": lambda: by_duckdb(folder, table),
        "pandas": lambda: by_pandas(folder, table),
    }
    costs: dict[str, Cost] = {}
    answers: dict[str, Answer] = {}
    # In turn, so that what else the machine does falls on all of them.
    for _ in range(_ROUNDS):
        for name, way in ways.items():
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            answers[name] = way()
            spent = Cost(time.perf_counter() - wall_s, time.process_time() - cpu_s)
            before = costs.get(name, spent)
            costs[name] = Cost(min(before.wall_s, spent.wall_s), min(before.cpu_s, spent.cpu_s))
    check_equal(answers)
    return PeerCosts(samples, **costs)


def check_equal(answers: Mapping[str, Answer]) -> None:
    """Raise RuntimeError where one is not as ours: what is quicker by being wrong is no peer."""
    for name, answer in answers.items():
        if answer != answers["ours"]:
            raise RuntimeError(f"cannot compare: {name} comes to another answer than the meter")


def write_samples(folder: Path, fleet: Fleet) -> int:
    """The VRAM that was read, as the store would give it; returns how many samples."""
    count = 0
    for hour in range(fleet.hours):
        for node in fleet.nodes:
            frames = [
                pl.DataFrame({"second_s": run.seconds, "value": run.values}).select(
                    pl.lit(run.series.name).alias("series"),
                    *(pl.lit(run.labels.get(label, "")).alias(label) for label in _LABELS),
                    pl.col("second_s").cast(pl.Int64),
                    pl.col("value").cast(pl.Float64),
                )
                for run in samples_of(fleet, node, hour)
                if run.series in _MEMORIES and run.seconds
            ]
            once = pl.concat(frames)
            again = once.gather_every(_TWICE_ONE_IN).with_columns(pl.col("value") // 2)
            whole = pl.concat([once, again]).sort("series", *_LABELS, "second_s").select(list(SAMPLE_COLUMNS))
            whole.write_parquet(_file(folder, node, hour))
            count += whole.height
    return count


def pieces_of(fleet: Fleet) -> Iterator[Piece]:
    """Every piece with a whole second in it."""
    prices = [rate.period for rate in price_book().rates if rate.dimension == "gpu"]
    for grant in fleet.grants:
        for hour in grant.period.hours():
            for price in prices:
                held = hour.intersect(grant.period)
                piece = held and held.intersect(price)
                if piece is not None and piece.seconds:
                    number = (hour.start_us - START_US) // HOUR_US
                    yield Piece(grant, number, piece.first_second, ceil_second(piece.end_us))


def by_evidence(folder: Path, fleet: Fleet, pieces: list[Piece]) -> Answer:
    """As the meter does it: evidence of each (hour, node), then sums over its runs."""
    of_task: dict[tuple[int, str], list[int]] = defaultdict(list)
    for number, piece in enumerate(pieces):
        of_task[piece.hour, piece.grant.node].append(number)
    answer: Answer = []
    for (hour, node), numbers in of_task.items():
        cards = fleet.cards_of(node)
        devices = [(card.gpu_uuid, "") for card in cards]
        devices += [(card.gpu_uuid, part.mig_uuid) for card in cards for part in card.parts if part.mig_uuid]
        sizes = {card.gpu_uuid: card.vram_total_bytes for card in cards}
        window = Period(START_US + hour * HOUR_US, START_US + (hour + 1) * HOUR_US)
        samples = pl.read_parquet(_file(folder, node, hour), glob=False)
        evidence = make_evidence(node, window, samples, [], devices, sizes)
        its_pieces = [pieces[number] for number in numbers]
        stretches = [Stretch(each.grant, GapRules(), each.start_s, each.end_s) for each in its_pieces]
        for number, sums in zip(numbers, measure(evidence, stretches), strict=True):
            if sums.covered:
                granted = pieces[number].grant.vram_bytes * sums.covered
                answer.append((number, sums.covered, granted + sums.overuse))
    return sorted(answer)


def by_duckdb(folder: Path, pieces: pl.DataFrame) -> Answer:
    """A join by range, over samples that are grouped first."""
    with duckdb.connect() as connection:
        connection.register("pieces", pieces.to_arrow())
        rows = connection.execute(
            """
            SELECT piece, count(*), sum(greatest(granted, used)) FROM pieces JOIN (
                SELECT gpu_uuid, mig_uuid, owner, second_s, CAST(max(value) AS BIGINT) AS used
                FROM read_parquet(?) GROUP BY ALL
            ) AS samples USING (gpu_uuid, mig_uuid, owner)
            WHERE second_s >= start_s AND second_s < end_s GROUP BY piece ORDER BY piece
            """,
            [str(folder / "*.parquet")],
        ).fetchall()
    return [(int(piece), int(seconds), int(total)) for piece, seconds, total in rows]


def by_pandas(folder: Path, pieces: pl.DataFrame) -> Answer:
    """The piece that began last before each sample, where it has not ended."""
    columns = [*_LABELS, "second_s"]
    samples = pd.read_parquet(folder, columns=[*columns, "value"])
    samples = samples.groupby(columns, as_index=False)["value"].max().sort_values("second_s")
    right = pieces.to_pandas().sort_values("start_s")
    met = pd.merge_asof(samples, right, left_on="second_s", right_on="start_s", by=list(_LABELS))
    met = met[met["second_s"] < met["end_s"]]
    largest = met["value"].astype("int64").clip(lower=met["granted"].astype("int64"))
    sums = largest.groupby(met["piece"]).agg(["count", "sum"])
    return [(int(piece), int(seconds), int(total)) for piece, seconds, total in sums.itertuples()]


def piece_table(pieces: list[Piece]) -> pl.DataFrame:
    """The pieces as the peers join them: columns piece, labels, granted, start_s, end_s (half-open)."""
    return pl.DataFrame(
        [
            (number, each.grant.gpu_uuid, each.grant.mig_uuid or "", each.owner, each.grant.vram_bytes, *each[2:])
            for number, each in enumerate(pieces)
        ],
        schema=["piece", *_LABELS, "granted", "start_s", "end_s"],
        orient="row",
    )


def _file(folder: Path, node: str, hour: int) -> Path:
    return folder / f"{node}.{hour:02}.parquet"
