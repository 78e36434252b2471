"""Drivers rename what nvidia-smi tells; a log that spans an upgrade is read on, and what is unknown is missing."""

import pytest

from domain.errors import InputError
from domain.series import GPU_MEMORY_USED, GPU_POWER
from domain.units import MIB
from tests.collector.logs.conftest import ReadLog

ROW = "2026/01/01 00:00:{second:02}.000, 0, {watts}, 512 MiB"


def _header(power: str) -> str:
    return f"timestamp, index, {power}, memory.used [MiB]"


@pytest.mark.parametrize("power", ["power.draw [W]", "power.draw.average [W]", "power.draw.instant [W]", "power_W"])
def test_a_renamed_column_is_the_same_series(read_log: ReadLog, power: str) -> None:
    """L12: telegraf 16569: `power_readings` became `gpu_power_readings`, and power was 0 from there on."""
    log = read_log(
        _header("power.draw [W]"),
        ROW.format(second=1, watts="84.1 W"),
        _header(power),
        ROW.format(second=2, watts="99 W"),
    )

    assert [float(row.values[GPU_POWER]) for row in log.rows] == [84.1, 99]
    assert log.refused == ()


@pytest.mark.parametrize(
    "power", ["gpu_power_readings.draw", "power.draw.of.the.future [W]", "energy", "power.limit [W]"]
)
def test_a_column_that_nobody_knows_is_missing_and_not_0(read_log: ReadLog, power: str) -> None:
    """L12: the rest of the row is read."""
    log = read_log(_header(power), ROW.format(second=1, watts="84.1 W"))

    assert [dict(row.values) for row in log.rows] == [{GPU_MEMORY_USED: 512 * MIB}]


def test_a_text_in_a_form_that_nobody_knows_is_refused(read_log: ReadLog) -> None:
    """L12: XML is read by nobody here, whatever its elements are called, and says so."""
    with pytest.raises(InputError, match="its format is unknown; give"):
        read_log(
            '<?xml version="1.0" ?>',
            "<nvidia_smi_log><gpu><gpu_power_readings><average_power_draw>84.1 W</average_power_draw>",
            "</gpu_power_readings></gpu></nvidia_smi_log>",
        )
