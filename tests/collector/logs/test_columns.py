"""Which column of a CSV is what."""

import pytest

from collector.logs.columns import Column, Meaning, Role, named_columns, read_header
from domain.errors import InputError
from domain.series import (
    GPU_BUSY,
    GPU_ENCODER_BUSY,
    GPU_JPEG_BUSY,
    GPU_MEMORY_BUSY,
    GPU_MEMORY_CLOCK,
    GPU_MEMORY_RESERVED,
    GPU_MEMORY_TEMPERATURE,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_CLOCK,
    GPU_TEMPERATURE,
)


@pytest.mark.parametrize(
    ("name", "meaning", "unit"),
    [
        ("timestamp", Role.TIME, ""),
        ("Time", Role.TIME, ""),
        ("Relative_Time_s", Role.ELAPSED, "s"),
        ("index", Role.INDEX, ""),
        ("gpu_index", Role.INDEX, ""),
        ("GPU_ID", Role.INDEX, ""),
        ("uuid", Role.UUID, ""),
        ("pci.bus_id", Role.PCI_BUS, ""),
        ("name", Role.MODEL, ""),
        ("utilization.gpu [%]", GPU_BUSY, "%"),
        ("utilization_gpu_percent", GPU_BUSY, "percent"),
        ("Utilization", GPU_BUSY, ""),
        ("Util (%)", GPU_BUSY, "%"),
        ("GPU_Utilization_%", GPU_BUSY, "%"),
        ("GPU (%)", GPU_BUSY, ""),
        ("memory.used [MiB]", GPU_MEMORY_USED, "mib"),
        ("Memory Used (MB)", GPU_MEMORY_USED, "mb"),
        ("memory_used_gb", GPU_MEMORY_USED, "gb"),
        ("Total Memory (MB)", GPU_MEMORY_TOTAL, "mb"),
        ("power_W", GPU_POWER, "w"),
        ("power.draw [W]", GPU_POWER, "w"),
        ("temperature_C", GPU_TEMPERATURE, "c"),
        ("Temp (°C)", GPU_TEMPERATURE, "c"),
        ("clocks.current.sm [MHz]", GPU_SM_CLOCK, "mhz"),
        ("clocks.mem", GPU_MEMORY_CLOCK, ""),
        ("utilization.memory [%]", GPU_MEMORY_BUSY, "%"),
        ("utilization.encoder [%]", GPU_ENCODER_BUSY, "%"),
        ("utilization.jpeg [%]", GPU_JPEG_BUSY, "%"),
        ("temperature.memory", GPU_MEMORY_TEMPERATURE, ""),
    ],
)
def test_query_names_and_the_usual_renamings_are_known(name: str, meaning: Meaning, unit: str) -> None:
    columns = read_header([name, "memory.reserved"])
    assert columns is not None
    assert columns.by_meaning == {meaning: Column(0, name, unit), GPU_MEMORY_RESERVED: Column(1, "memory.reserved", "")}


@pytest.mark.parametrize(
    "name",
    [
        "Memory Utilization (%)",
        "memory.free [MiB]",
        "memory.used [%]",
        "timestamp_ms",
        "power.limit [W]",
        "pstate",
        "fan.speed [%]",
        "memory",
        "",
    ],
)
def test_what_means_something_else_is_not_taken_for_it(name: str) -> None:
    columns = read_header([name, "memory.reserved"])
    assert columns is not None
    assert set(columns.by_meaning) == {GPU_MEMORY_RESERVED}


def test_a_row_that_names_neither_time_nor_value_is_no_header() -> None:
    assert read_header(["name", "index"]) is None
    assert read_header(["pstate"]) is None


def test_a_row_of_values_is_no_header() -> None:
    assert read_header(["name", "2025/01/01 00:00:00"]) is None
    assert read_header(["time", "[N/A]"]) is None


def test_of_two_columns_with_one_meaning_the_query_name_comes_first() -> None:
    columns = read_header(["power.draw.instant [W]", "power.draw [W]", "Power"])
    assert columns is not None
    assert columns.by_meaning[GPU_POWER].place == 1


def test_memory_of_processes_is_not_that_of_the_card() -> None:
    columns = read_header(["timestamp", "pid", "used_memory [MiB]"])
    assert columns is not None
    assert not columns.has_values


def test_a_person_names_columns_and_skips_others() -> None:
    columns = named_columns(["utilization.gpu", "-", "memory.used"])
    assert columns.width == 3
    assert {meaning: column.place for meaning, column in columns.by_meaning.items()} == {
        GPU_BUSY: 0,
        GPU_MEMORY_USED: 2,
    }


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["timestamp", "memory.usde"], "cannot use the column 'memory.usde'"),
        (["timestamp", ""], "cannot use the column ''"),
        (["timestamp", "time", "memory.used"], "two mean the same"),
        (["timestamp", "index"], "none is a value of a card"),
        (["-"], "none is a value of a card"),
    ],
)
def test_names_that_cannot_be_used_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        named_columns(names)
