"""dmon, pmon, pages with times and sample Parquet into a real store: once, however often they are replayed."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from domain.series import (
    COLLECTOR_COMPLETE_UNTIL,
    GPU_BUSY,
    GPU_INFO,
    GPU_MEMORY_TEMPERATURE,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_UP,
    OWNER_MEMORY,
    Series,
)
from domain.units import MIB
from tests.collector.dcgm_pages import page
from tests.collector.logs.monitor_logs import REAL_DMON, REAL_PMON, rows
from tests.collector.sample_logs import stored
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

Gputab = Callable[..., Any]

START = "2026-09-21T14:13:30Z"
START_S = 1_790_000_010
DATED = ("date", "time", "gpu")
DAY = 20260921
EVERYTHING = (
    *(GPU_BUSY, GPU_MEMORY_USED, GPU_POWER, GPU_MEMORY_TEMPERATURE, GPU_SM_ACTIVE, GPU_UP, OWNER_MEMORY),
    *(GPU_INFO, COLLECTOR_COMPLETE_UNTIL),
)


@pytest.fixture
def reader(victoriametrics_url: str, monkeypatch: pytest.MonkeyPatch, place: Path) -> Iterator[Reader]:
    """The store that the commands send to; `place` has taken every other setting away."""
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", victoriametrics_url)
    with Reader(victoriametrics_url) as reader:
        yield reader


def _write(name: str, lines: Sequence[str]) -> str:
    Path(name).write_text("\n".join([*lines, ""]), "utf-8")
    return name


def _twice(gputab: Gputab, reader: Reader, node: str, *words: str) -> tuple[dict[str, Any], str]:
    """What a command printed and said the first time; the second time it printed the same and changed nothing."""
    of_node = Selector(EVERYTHING, {"node": node})
    first = gputab(*words, "--format", "json")
    assert first.code == 0, first.err
    kept = reader.export(of_node, 0, START_S * 2).frame
    again = gputab(*words, "--format", "json")

    assert (again.code, again.data) == (0, first.data), again.err
    assert reader.export(of_node, 0, START_S * 2).frame.equals(kept)
    (row,) = first.data["rows"]
    return row, first.err


def _values(reader: Reader, node: str, series: Series, gpu_uuid: str, **labels: str) -> list[float]:
    selector = Selector((series,), {"node": node, "gpu_uuid": gpu_uuid, **labels})
    found: list[float] = reader.export(selector, START_S, START_S + 1_000).frame["value"].to_list()
    return found


def test_a_dmon_log_with_times_needs_no_option_but_the_node(gputab: Gputab, reader: Reader, unique_node: str) -> None:
    names = (*DATED, "pwr", "mtemp", "sm", "fb", "rxpci")
    cells = [
        (DAY, f"14:13:{30 + number}", index, 100 + index, "-" if index else 70, 50, 1_000 + number, 9)
        for number in range(5)
        for index in (0, 1)
    ]
    cells[7] = (*cells[7][:5], 808334905, *cells[7][6:])
    log = _write("dmon.log", [*rows(names, cells), " 20260921 14:13:35 0 10"])

    row, said = _twice(gputab, reader, unique_node, "replay", log, "--node", unique_node)

    assert (row["rows"], row["refused"], row["from"], row["to"]) == (9, 2, START, "2026-09-21T14:13:35Z")
    assert row["samples"] == 5 * 4 + 4 * 3
    assert said.splitlines()[:2] == [
        "dmon.log: line 10: no card can have the ratio '808334905' in 'sm'",
        "dmon.log: line 13: it has 4 cells of 8",
    ]
    first, second = f"{unique_node}/0", f"{unique_node}/1"
    assert _values(reader, unique_node, GPU_MEMORY_USED, first) == [(1_000 + number) * MIB for number in range(5)]
    assert _values(reader, unique_node, GPU_MEMORY_TEMPERATURE, first) == [70] * 5
    assert _values(reader, unique_node, GPU_MEMORY_TEMPERATURE, second) == [], "what a card cannot tell is not 0"
    assert _values(reader, unique_node, GPU_BUSY, second) == [0.5] * 4, "the refused row is a hole"


def test_mig_rows_of_dmon_are_instances_of_their_card(gputab: Gputab, reader: Reader, unique_node: str) -> None:
    names = (*DATED, "mig_id", "gi_id", "ci_id", "pwr", "smutil")
    cells = [
        (DAY, f"14:13:{30 + number}", 0, *part)
        for number in range(3)
        for part in (("-", "-", "-", 438, "-"), (0, 2, 0, 438, 97), (1, 5, 0, 438, 12))
    ]
    log = _write("dmon.log", rows(names, cells))

    card = f"{unique_node}-GPU"
    row, _ = _twice(gputab, reader, unique_node, "replay", log, "--node", unique_node, "--gpu", f"0={card}")

    assert row["samples"] == 3 * 3
    assert _values(reader, unique_node, GPU_SM_ACTIVE, card, mig_uuid=f"MIG-{card}/2/0") == [0.97] * 3
    assert _values(reader, unique_node, GPU_SM_ACTIVE, card, mig_uuid=f"MIG-{card}/5/0") == [0.12] * 3
    assert _values(reader, unique_node, GPU_POWER, card) == [438] * 3


def test_a_pmon_log_says_that_cards_were_up_and_nothing_of_owners(
    gputab: Gputab, reader: Reader, unique_node: str
) -> None:
    """A2, A3: whatever its processes sum to."""
    names = (*DATED, "pid", "type", "sm", "mem", "fb", "command")
    cells = [
        (DAY, f"14:13:{30 + number}", *process)
        for number in range(3)
        for process in (
            *((0, 11, "C", 99, 5, 3_000, "python"), (0, 12, "C", 90, 5, 4_000, "python 3")),
            (1, *("-",) * 6),
        )
    ]
    log = _write("pmon.log", rows(names, cells))

    row, said = _twice(gputab, reader, unique_node, "replay", log, "--node", unique_node)

    assert (row["rows"], row["samples"], row["refused"]) == (3, 3, 0)
    assert "pmon.log: 6 rows of 2 processes say only that their card answered" in said
    assert "pmon.log: 3 times a card had no process, which may be that it failed to answer" in said
    assert _values(reader, unique_node, GPU_UP, f"{unique_node}/0") == [1] * 3
    others = tuple(series for series in EVERYTHING if series not in (GPU_UP, GPU_INFO, COLLECTOR_COMPLETE_UNTIL))
    assert reader.count(Selector(others, {"node": unique_node}), START_S - 100, START_S + 100) == 0


@pytest.mark.parametrize("times", [lambda s: str(s * 1_000), lambda s: f"{s}.000"], ids=["prometheus", "open metrics"])
def test_pages_with_times_need_no_start(
    gputab: Gputab, reader: Reader, unique_node: str, times: Callable[[int], str]
) -> None:
    own = page(f"{unique_node}-0").replace('"node-a"', f'"{unique_node}"')
    lines = [
        each if each.startswith("#") else f"{each} {times(START_S + number)}"
        for number in range(4)
        for each in (*own.splitlines(), "# EOF")
    ]

    row, said = _twice(gputab, reader, unique_node, "replay", _write("pages.prom", lines))

    assert (row["rows"], row["refused"], row["nodes"], row["from"]) == (4, 0, unique_node, START)
    assert _values(reader, unique_node, GPU_MEMORY_USED, f"{unique_node}-0") == [5_120 * MIB] * 4
    assert "start" not in said


@pytest.mark.parametrize("command", [("samples", "import"), ("replay",)], ids=" ".join)
def test_a_sample_parquet_is_imported_and_replayed_alike(
    gputab: Gputab, reader: Reader, unique_node: str, command: tuple[str, ...]
) -> None:
    pl.DataFrame(
        {
            "time": [START_S, START_S, START_S + 5, START_S + 10],
            "node": [unique_node] * 4,
            "gpu_uuid": ["GPU-1"] * 4,
            "owner": [None, "alloc:a", None, None],
            "gpu_memory_used_bytes": [100.0, None, 200.75, None],
            "gpu_owner_memory_bytes": [None, 60, None, None],
            "gpu_busy_ratio": [0.5, None, None, 0.25],
        }
    ).write_parquet("samples.parquet")

    row, said = _twice(gputab, reader, unique_node, *command, "samples.parquet")

    assert (row["rows"], row["cut_cells"], row["from"], row["to"]) == (4, 1, START, "2026-09-21T14:13:45Z")
    assert stored(reader, unique_node, OWNER_MEMORY, START_S) == dict.fromkeys(range(START_S, START_S + 5), 60)
    assert sorted(stored(reader, unique_node, GPU_MEMORY_USED, START_S).values()) == [100] * 5 + [200] * 5
    assert [*stored(reader, unique_node, GPU_BUSY, START_S)] == [
        *range(START_S, START_S + 5),
        *range(START_S + 10, START_S + 15),
    ]
    assert "fractions of bytes, which were cut" in said


@pytest.mark.parametrize("command", [("samples", "import"), ("replay",)], ids=" ".join)
def test_a_bad_parquet_is_sent_in_no_part(
    gputab: Gputab, reader: Reader, unique_node: str, command: tuple[str, ...]
) -> None:
    """Owners that have more than the device are told by the row, too."""
    columns = {
        "time": [START_S, START_S],
        "node": [unique_node] * 2,
        "gpu_uuid": ["GPU-1"] * 2,
        "owner": [None, "alloc:a"],
        "gpu_memory_used_bytes": [100, None],
        "gpu_owner_memory_bytes": [None, 101],
    }
    pl.DataFrame(columns).write_parquet("owners.parquet")
    pl.DataFrame({**columns, "time": [START_S, 1]}).write_parquet("order.parquet")
    Path("cut.parquet").write_bytes(Path("owners.parquet").read_bytes()[:-9])

    for name, told in (
        ("owners.parquet", "row 2: gpu_owner_memory_bytes '101': the owners of the device have 101 bytes, more than"),
        ("order.parquet", "row 2: time '1': before an earlier row of the device"),
        ("cut.parquet", "give a whole Parquet file"),
    ):
        refused = gputab(*command, name)
        assert refused.code == 2
        assert told in refused.err.splitlines()[-1]
    assert reader.count(Selector(EVERYTHING, {"node": unique_node}), 0, START_S + 100) == 0


def test_options_do_not_count_for_a_parquet_which_is_told(gputab: Gputab, reader: Reader, unique_node: str) -> None:
    pl.DataFrame(
        {"time": [START_S], "node": [unique_node], "gpu_uuid": ["GPU-1"], "gpu_busy_ratio": [1.0]}
    ).write_parquet("samples.parquet")

    done = gputab("replay", "samples.parquet", "--node", "other", "--hold", "2")

    assert done.code == 0, done.err
    assert "samples.parquet: it names its nodes, cards and times; only --hold counts for it" in done.err
    assert len(stored(reader, unique_node, GPU_BUSY, START_S)) == 2


@pytest.mark.skipif(not REAL_DMON, reason="shared data is not beside the checkout")
@pytest.mark.parametrize("part", ["dmon_default_67rows", "h100-mig__590.48.01.load", "4080-super__595.71.05.load"])
def test_a_real_dmon_log_is_in_the_store_once(gputab: Gputab, reader: Reader, unique_node: str, part: str) -> None:
    (path,) = (path for name, path in REAL_DMON.items() if part in name)

    words = ("replay", str(path), "--node", unique_node, "--start", START, "--step", "1")
    row, said = _twice(gputab, reader, unique_node, *words)

    written = [line.split() for line in path.read_text("utf-8").splitlines() if line.strip()]
    cells = [each for each in written if each[0] != "#"]
    assert (row["rows"], row["refused"], row["merged_rows"]) == (len(cells), 0, 0)
    assert row["samples"] == sum(cell != "-" for each in cells for cell in each[1:])
    assert _values(reader, unique_node, GPU_POWER, f"{unique_node}/0") == [int(each[1]) for each in cells]
    assert "line" not in said


@pytest.mark.skipif(not REAL_PMON, reason="shared data is not beside the checkout")
def test_real_pmon_logs_say_that_cards_were_up(gputab: Gputab, reader: Reader, unique_node: str) -> None:
    start = ("--start", START, "--step", "1")
    idle, busy = (REAL_PMON[name] for name in sorted(REAL_PMON) if "h200__" in name)
    refused = gputab("replay", str(idle), "--node", unique_node, *start)
    assert (refused.code, "no row has a value" in refused.err) == (2, True)

    row, _ = _twice(gputab, reader, unique_node, "replay", str(busy), "--node", unique_node, *start)

    assert (row["rows"], row["samples"]) == (5, 5)
    assert _values(reader, unique_node, GPU_UP, f"{unique_node}/0") == [1] * 5
