"""The diagnosis as tables for people, and as JSON."""

from collections.abc import Iterable, Iterator
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from domain.units import GIB, MIB
from gputab.doctor.findings import CardProcess, DeviceReport, Diagnosis, Finding, SeriesFinding, Verdict

_MARKS = {Verdict.GOOD: ("ok", "green"), Verdict.NOTE: ("note", "yellow"), Verdict.MEND: ("MEND", "bold red")}
_MEGAHERTZ = 1_000_000
# Where nobody's terminal says how wide it is.
_WIDTH = 100
_NARROWEST = 80


def print_report(diagnosis: Diagnosis) -> None:
    """All of it on stdout, as wide as the terminal."""
    console = Console(highlight=False, emoji=False)
    console.width = max(console.width, _NARROWEST) if console.is_terminal else _WIDTH
    console.print(Text(diagnosis.node, style="bold"))
    console.print(_findings(diagnosis.findings))
    for report in diagnosis.devices:
        console.print(_title(report))
        console.print(_series(report.series))
        console.print(_missing(report.series))
        console.print(Group(*_owners(report)))
    console.print(_last_line(diagnosis))


def as_json(diagnosis: Diagnosis) -> dict[str, Any]:
    """All of it, for programs: bytes, ratios and seconds as they are."""
    return {
        "node": diagnosis.node,
        "is_well": diagnosis.is_well,
        "findings": [each._asdict() for each in diagnosis.findings],
        "devices": [_device(report) for report in diagnosis.devices],
    }


def _device(report: DeviceReport) -> dict[str, Any]:
    instance = report.instance
    return {
        "gpu_uuid": report.device.uuid,
        "mig_uuid": None if instance is None else instance.uuid,
        "index": report.device.index,
        "model": report.device.model,
        "architecture": report.device.architecture,
        "profile": None if instance is None else instance.profile,
        "family": report.family,
        "series": [{**each._asdict(), "series": each.series.name, "unit": each.series.unit} for each in report.series],
        "used_bytes": report.used_bytes,
        "proved_bytes": report.proved_bytes,
        "processes": [{**each._asdict(), "hints": dict(each.hints)} for each in report.processes],
    }


def _findings(findings: Iterable[Finding]) -> Table:
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for what, verdict, said, remedy in findings:
        mark, style = _MARKS[verdict]
        words = Text(said)
        if remedy:
            words.append(f"\n{remedy}", style="italic" if verdict is Verdict.NOTE else "bold")
        table.add_row(Text(mark, style=style), what, words)
    return table


def _title(report: DeviceReport) -> Text:
    title = Text(f"\n{report.title}", style="bold")
    title.append(f"  {report.device.model}  {report.uuid}  (as {report.family})", style="not bold")
    return title


def _series(series: Iterable[SeriesFinding]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("series", no_wrap=True)
    table.add_column("now", justify="right", no_wrap=True)
    table.add_column("by", overflow="fold")
    for each in series:
        if each.is_told:
            table.add_row(each.series.name, _value(each), each.source)
    return table


def _missing(series: Iterable[SeriesFinding]) -> Table:
    """What is not there, by its reason."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, style="dim")
    table.add_column("why not", ratio=2, overflow="fold")
    table.add_column("series", ratio=3, overflow="fold")
    names: dict[tuple[str, str], list[str]] = {}
    for each in series:
        if not each.is_told:
            names.setdefault((each.state, each.reason), []).append(each.series.name)
    for (state, reason), group in names.items():
        table.add_row(f"{state.replace('_', ' ')}: {reason}" if state else reason, ", ".join(group))
    return table


def _owners(report: DeviceReport) -> Iterator[RenderableType]:
    if report.device.mig_enabled and report.instance is None:
        yield Text("owners are told of each instance", style="dim")
        return
    if report.used_bytes is None or report.proved_bytes is None:
        yield Text("no owners are told of this device", style="dim")
    elif not report.used_bytes:
        yield Text("nobody uses its memory")
    else:
        share = report.proved_bytes / report.used_bytes
        yield Text(f"owners are proved of {share:.0%} of the {report.used_bytes / GIB:.1f} GiB in use")
    if report.processes:
        yield _processes(report.processes)
    # A line of its own: an id that is to be copied is broken in no cell.
    yield from (_nobodys(each) for each in report.processes if each.owner is None)


def _processes(processes: Iterable[CardProcess]) -> Table:
    """Who is on a device; SM is what the driver sampled of each, as it says it."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("process", "memory", "SM"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("whose", overflow="fold")
    for each in processes:
        used = "unknown" if each.used_bytes is None else f"{each.used_bytes / MIB:,.0f} MiB"
        sampled = "" if each.sm_percent is None else f"{each.sm_percent}%"
        table.add_row(str(each.pid), used, sampled, Text(each.owner or "nobody's"))
    return table


def _nobodys(process: CardProcess) -> Text:
    claims = ", ".join(f"{name}={value}" for name, value in process.hints.items())
    said = f"; it says {claims}" if claims else ""
    return Text(f"  process {process.pid} is nobody's: in {process.place}{said}")


def _last_line(diagnosis: Diagnosis) -> Text:
    to_mend = sum(each.verdict is Verdict.MEND for each in diagnosis.findings)
    if diagnosis.is_well:
        return Text("\nnothing is to be mended", style="green")
    if not diagnosis.devices:
        return Text("\nno card is measured", style="bold red")
    return Text(f"\nto mend: {to_mend}", style="bold red")


def _value(found: SeriesFinding) -> str:
    if found.value is None:
        part = found.series.part or "owner"
        return f"{found.parts} {part}" + ("s" if found.parts > 1 else "")
    value = float(found.value)
    shown = {
        "ratio": lambda: f"{value:.1%}",
        "bytes": lambda: f"{value / GIB:,.2f} GiB",
        "watts": lambda: f"{value:,.1f} W",
        "joules": lambda: f"{value:,.0f} J",
        "celsius": lambda: f"{value:.0f} °C",
        "hertz": lambda: f"{value / _MEGAHERTZ:,.0f} MHz",
        "seconds": lambda: f"{value:,.1f} s",
    }.get(found.series.unit)
    return shown() if shown is not None else f"{found.value:,}"
