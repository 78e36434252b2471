"""Logs of dmon and pmon as a test writes them, and those of real machines."""

from collections.abc import Iterable, Sequence
from pathlib import Path

DATA = Path(__file__).parents[4] / "shared" / "data"
REAL_DMON = {path.name: path for path in (*DATA.glob("samples/process/*.dmon.txt"), *DATA.glob("dmon-dcgmi/dmon*.log"))}
REAL_PMON = {path.name: path for path in (*DATA.glob("samples/process/*.pmon.txt"), *DATA.glob("dmon-dcgmi/pmon*.log"))}

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


def header(names: Sequence[str]) -> tuple[str, str]:
    """The two lines above rows with these columns, as a terminal shows them."""
    shown = [name.capitalize() if name in ("date", "time") else name for name in names]
    mark = "#" if names[0] in ("date", "time") else "# "
    return mark + " ".join(f"{name:>6}" for name in shown), mark + " ".join(f"{UNITS[name]:>6}" for name in names)


def rows(names: Sequence[str], cells: Iterable[Sequence[object]]) -> list[str]:
    """Rows below their header."""
    return [*header(names), *(" " + " ".join(f"{cell!s:>6}" for cell in row) for row in cells)]
