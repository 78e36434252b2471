"""Whole logs of `nvidia-smi dmon`, invented and real: each cell is where its header says."""

from fractions import Fraction

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.logs.log import LogCard, LogOptions
from collector.logs.open_log import open_log
from domain.errors import InputError
from domain.series import (
    GPU_BUSY,
    GPU_DECODER_BUSY,
    GPU_ENCODER_BUSY,
    GPU_JPEG_BUSY,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_TEMPERATURE,
    GPU_MEMORY_USED,
    GPU_OFA_BUSY,
    GPU_POWER,
    GPU_SM_CLOCK,
    GPU_TEMPERATURE,
    Series,
)
from tests.collector.logs.conftest import ReadLog
from tests.collector.logs.monitor_logs import REAL_DMON, SAID, SECOND_US, START_US, UNITS, rows

# What each column is by the manual page of nvidia-smi, and the most that a card may say in it.
SERIES: dict[str, tuple[Series | None, int]] = {
    "pwr": (GPU_POWER, 5_000),
    "gtemp": (GPU_TEMPERATURE, 150),
    "mtemp": (GPU_MEMORY_TEMPERATURE, 150),
    "sm": (GPU_BUSY, 100),
    "mem": (GPU_MEMORY_BUSY, 100),
    "enc": (GPU_ENCODER_BUSY, 100),
    "dec": (GPU_DECODER_BUSY, 100),
    "jpg": (GPU_JPEG_BUSY, 100),
    "ofa": (GPU_OFA_BUSY, 100),
    "mclk": (GPU_MEMORY_CLOCK, 20_000),
    "pclk": (GPU_SM_CLOCK, 20_000),
    "fb": (GPU_MEMORY_USED, 1_000_000),
    "pviol": (None, 100),
    "rxpci": (None, 100_000),
}
# One of a column's unit in that of its series; to nvidia-smi a MB is a MiB.
FACTORS: dict[str, int | Fraction] = {"W": 1, "C": 1, "%": Fraction(1, 100), "MHz": 1_000_000, "MB": 2**20}


@st.composite
def logs(draw: st.DrawFn) -> tuple[list[str], list[dict[str, int | str]]]:
    """Some columns in some order, and what each card says of them in each snapshot."""
    names = draw(st.lists(st.sampled_from(sorted(SERIES)), min_size=1, unique=True))
    cards = draw(st.integers(1, 4))
    snapshots = draw(st.integers(1, 5))
    found: list[dict[str, int | str]] = []
    for _ in range(snapshots):
        for index in range(cards):
            cells = {name: draw(st.one_of(st.just("-"), st.integers(0, SERIES[name][1]))) for name in names}
            found.append({"gpu": index, **cells})
    return ["gpu", *names], found


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(logs(), st.integers(1, 9), st.booleans())
def test_what_is_written_is_what_is_read(
    read_log: ReadLog, log: tuple[list[str], list[dict[str, int | str]]], beat: int, is_csv: bool
) -> None:
    """Whatever the columns, their order, the dress, and how often the header comes again."""
    names, cells = log
    lines: list[str] = []
    for number, row in enumerate(cells):
        lines += rows(names, [list(row.values())])[0 if number % beat == 0 else 2 :]
    if is_csv:
        lines = [", ".join(line.split()).replace("#, ", "# ") for line in lines]

    found = read_log(*lines, **SAID)

    assert found.refused == ()
    highest = max(int(row["gpu"]) for row in cells)
    for number, (row, read) in enumerate(zip(cells, found.rows, strict=True)):
        assert read.card == LogCard(str(row["gpu"]))
        assert read.time_us == START_US + number // (highest + 1) * SECOND_US
        assert read.values == {
            series: value * FACTORS[UNITS[name]]
            for name, value in row.items()
            if name in SERIES and (series := SERIES[name][0]) is not None and isinstance(value, int)
        }


@pytest.mark.skipif(not REAL_DMON, reason="shared data is not beside the checkout")
@pytest.mark.parametrize("name", sorted(REAL_DMON))
def test_a_real_log_is_read_whole(name: str) -> None:
    """Drivers 590 to 610 and one of unknown age, idle and under load: each cell is where its header says."""
    path = REAL_DMON[name]
    with pytest.raises(InputError, match=r"it has no times; say when it began with --start, .* with --step"):
        open_log(path, LogOptions())

    log = open_log(path, LogOptions(start_us=START_US, step_us=SECOND_US))

    written = [line.split() for line in path.read_text("utf-8").splitlines() if line.strip()]
    columns = written[0][1:]
    cells = [dict(zip(columns, row, strict=True)) for row in written if row[0] != "#"]
    assert (log.refused, log.notes) == ((), ())
    assert [row.time_us for row in log.rows] == [START_US + number * SECOND_US for number in range(len(cells))]
    for row, cell in zip(log.rows, cells, strict=True):
        assert row.values.get(GPU_POWER) == int(cell["pwr"])
        assert row.values.get(GPU_BUSY) == (None if cell["sm"] == "-" else Fraction(int(cell["sm"]), 100))
        assert row.values.get(GPU_MEMORY_TEMPERATURE) == (None if cell["mtemp"] == "-" else int(cell["mtemp"]))
        assert row.values.get(GPU_SM_CLOCK) == int(cell["pclk"]) * 10**6
        assert len(row.values) == sum(cell[each] != "-" for each in columns[1:])
