"""`scripts/gpu_check.sh`: the questions that only a real card answers, asked and written down in docs/hardware/."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import structlog

from collector.call_times import CallTimes
from collector.nvml.driver import Driver
from collector.nvml.source import NvmlSource
from domain.clock import MICROSECONDS, Clock, SystemClock
from domain.errors import UnavailableError
from domain.inventory import Device
from domain.period import format_instant
from gputab.node_cards import open_cards
from scripts.hardware_questions import (
    Bench,
    fields_and_counters,
    finer_samples,
    gpm_against_energy,
    process_samples,
    reserved_memory,
    tick_cost,
)
from scripts.hardware_run import against_nvidia_smi, collector_at_work, file_name
from scripts.loads import Loads
from scripts.section import Section
from settings.gputab import load_settings

_FOLDER = Path(__file__).parent.parent / "docs" / "hardware"


def main() -> int:
    """Ask, and write the report; exit code 1 where there is no card to ask."""
    parser = argparse.ArgumentParser(prog="scripts/gpu_check.sh")
    parser.add_argument("--out", type=Path, help="the report's file; default: docs/hardware/MODEL-DRIVER.md")
    parser.add_argument("--seconds", type=float, default=8.0, help="how long each question may watch the card")
    arguments = parser.parse_args()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    clock = SystemClock()
    calls = CallTimes(clock)
    try:
        with closing(open_cards(load_settings(), clock, calls)) as source, closing(Driver(calls)) as driver:
            devices = source.inventory()
            if not devices:
                raise UnavailableError("cannot check any card: the driver has none; see dmesg")
            card = devices[0]
            handle = driver.ask("DeviceGetHandleByIndex", card.index)
            bench = Bench(driver, handle, card.uuid, clock, arguments.seconds)
            sections = sorted(_sections(source, calls, bench, card), key=lambda section: section.title)
    except UnavailableError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    file = arguments.out or _FOLDER / file_name(card.model, card.driver_version)
    file.write_text(_report(devices, sections, clock), "utf-8")
    sys.stdout.write(f"{file}\n")
    return 0


def _sections(source: NvmlSource, calls: CallTimes, bench: Bench, card: Device) -> Iterator[Section]:
    yield fields_and_counters(bench)
    yield reserved_memory(bench, lambda: Loads(card.pci_bus_id, bench.seconds))
    with closing(Loads(card.pci_bus_id, 6 * bench.seconds)) as loads:
        yield finer_samples(replace(bench, seconds=bench.seconds / 4))
        yield process_samples(bench, loads)
        yield gpm_against_energy(source, replace(bench, seconds=bench.seconds * 2))
        yield tick_cost(source, calls, bench)
    yield against_nvidia_smi(source, bench.clock)
    yield collector_at_work(2 * bench.seconds, bench.clock)
    yield Section("The load", loads.said)


def _report(devices: tuple[Device, ...], sections: list[Section], clock: Clock) -> str:
    card = devices[0]
    written = format_instant(clock.now_us() // MICROSECONDS * MICROSECONDS)
    facts = (
        f"Written by `scripts/gpu_check.sh` at {written}. Cards: {len(devices)}, of which the first was asked: "
        f"architecture {card.architecture or 'unknown'}, VBIOS {card.vbios_version or 'unknown'}, "
        f"MIG {'on' if card.mig_enabled else 'off'}."
    )
    head = [f"# {card.model}, driver {card.driver_version}", "", facts, ""]
    return "\n".join([*head, *(section.markdown() for section in sections)]).rstrip("\n") + "\n"


if __name__ == "__main__":
    sys.exit(main())
