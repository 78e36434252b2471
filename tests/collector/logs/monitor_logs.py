"""Logs of dmon and pmon as a test writes them, and those of real machines."""

from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from collector.logs.log import Log
from domain.series import Series

DATA = Path(__file__).parents[4] / "shared" / "data"
REAL_DMON = {path.name: path for path in (*DATA.glob("samples/process/*.dmon.txt"), *DATA.glob("dmon-dcgmi/dmon*.log"))}
REAL_PMON = {path.name: path for path in (*DATA.glob("samples/process/*.pmon.txt"), *DATA.glob("dmon-dcgmi/pmon*.log"))}

SECOND_US = 1_000_000
START_US = 1_790_000_000_000_000
# When a log without times began, and how far apart its rows are.
SAID = {"start_us": START_US, "step_us": SECOND_US}

# What the columns of drivers 450 to 610 are in.
UNITS = {
    "date": "YYYYMMDD",
    "time": "HH:MM:SS",
    "gpu": "Idx",
    "pid": "#",
    "type": "C/G",
    "command": "name",
    "pwr": "W",
    "temp": "C",
    "gtemp": "C",
    "mtemp": "C",
    "mclk": "MHz",
    "pclk": "MHz",
    **dict.fromkeys(("sm", "mem", "enc", "dec", "jpg", "ofa", "pviol"), "%"),
    **dict.fromkeys(("fb", "bar1", "ccpm"), "MB"),
    "tviol": "bool",
    "sbecc": "errs",
    "dbecc": "errs",
    "pci": "errs",
    "rxpci": "MB/s",
    "txpci": "MB/s",
    **dict.fromkeys(("gract", "smutil", "smocc", "mmaact", "dram", "fp64", "fp32", "fp16"), "GPM:%"),
    **dict.fromkeys(("mig_id", "gi_id", "ci_id"), "Idx"),
}
# The columns of `dmon -s pucvmet -o DT`, and a row below them.
EVERYTHING = (
    *("date", "time", "gpu", "pwr", "gtemp", "mtemp", "sm", "mem", "enc", "dec", "jpg", "ofa", "mclk", "pclk"),
    *("pviol", "tviol", "fb", "bar1", "ccpm", "sbecc", "dbecc", "pci", "rxpci", "txpci"),
)
ROW = (20260816, "09:22:34", 0, 298, 61, 70, 91, 40, 7, 0, 0, "-", 10501, 2520, 3, 0, 5120, 12, 0, 4, 0, 0, 120, 80)


def header(names: Sequence[str]) -> tuple[str, str]:
    """The two lines above rows with these columns, as a terminal shows them."""
    shown = [name.capitalize() if name in ("date", "time") else name for name in names]
    mark = "#" if names[0] in ("date", "time") else "# "
    return mark + " ".join(f"{name:>6}" for name in shown), mark + " ".join(f"{UNITS[name]:>6}" for name in names)


def rows(names: Sequence[str], cells: Iterable[Sequence[object]]) -> list[str]:
    """Rows below their header."""
    return [*header(names), *(" " + " ".join(f"{cell!s:>6}" for cell in row) for row in cells)]


def told(log: Log) -> list[tuple[int, int, Mapping[Series, int | Fraction]]]:
    """The line of each row, its second after the start, and its values."""
    return [(row.line, (row.time_us - START_US) // SECOND_US, row.values) for row in log.rows]
