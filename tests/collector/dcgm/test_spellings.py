"""One card in the dresses that a page has had over the years comes out as one card."""

import re
from collections.abc import Callable, Mapping

import pytest

from collector.dcgm.exporter import DcgmExporterSource
from domain.samples import DeviceReading
from domain.series import GPU_BUSY, GPU_GR_ACTIVE, GPU_MEMORY_USED, GPU_POWER
from domain.units import MIB
from tests.collector.dcgm_pages import FIELDS, Exporter, page
from tests.collector.sample_logs import START_S

# What DCGM 4.6, and the exporter of DCGM 1, call the fields that a page has by default.
OF_4_6 = {
    "DCGM_FI_DEV_POWER_USAGE": "DCGM_FI_DEV_BOARD_POWER_WATTS",
    "DCGM_FI_DEV_GPU_TEMP": "DCGM_FI_DEV_GPU_TEMP_CELSIUS",
    "DCGM_FI_DEV_GPU_UTIL": "DCGM_FI_DEV_GPU_UTIL_RATIO",
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
}
OF_1 = {
    "DCGM_FI_DEV_SM_CLOCK": "dcgm_sm_clock",
    "DCGM_FI_DEV_MEM_CLOCK": "dcgm_memory_clock",
    "DCGM_FI_DEV_GPU_TEMP": "dcgm_gpu_temp",
    "DCGM_FI_DEV_POWER_USAGE": "dcgm_power_usage",
    "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": "dcgm_total_energy_consumption",
    "DCGM_FI_DEV_GPU_UTIL": "dcgm_gpu_utilization",
    "DCGM_FI_DEV_FB_FREE": "dcgm_fb_free",
    "DCGM_FI_DEV_FB_USED": "dcgm_fb_used",
}


def _renamed(text: str, names: Mapping[str, str]) -> str:
    for old, new in names.items():
        text = re.sub(rf"\b{old}\b", new, text)
    return text


def _read(source: DcgmExporterSource, exporter: Exporter, text: str) -> DeviceReading:
    exporter.says(text)
    source.inventory()
    (reading,) = source.read("GPU-1", START_S)
    return reading


DRESSES: dict[str, Callable[[str], str]] = {
    "the names of DCGM 4.6": lambda text: _renamed(text, OF_4_6),
    "the names of DCGM 1": lambda text: _renamed(text, OF_1),
    "names and the UUID in small letters": lambda text: _renamed(text, {name: name.lower() for name in FIELDS}).replace(
        "UUID=", "uuid="
    ),
    "hostname": lambda text: text.replace("Hostname=", "hostname="),
    "no host": lambda text: text.replace('Hostname="node-a",', ""),
    "spaces after commas": lambda text: text.replace('",', '", '),
}


@pytest.mark.parametrize("dress", DRESSES)
def test_a_page_says_the_same_whatever_its_names_and_labels_are_called(
    dcgm_source: DcgmExporterSource, exporter: Exporter, dress: str
) -> None:
    """R16: names of three generations, either spelling of the host, and the blank that the README has."""
    today = page("GPU-1")
    dressed = DRESSES[dress](today)
    assert dressed != today

    reading = _read(dcgm_source, exporter, dressed)

    assert reading.values[GPU_BUSY] == 0.91, "a RATIO of DCGM's is percent still"
    assert reading.values[GPU_GR_ACTIVE] == 0.156205
    assert reading.values[GPU_MEMORY_USED] == 5_120 * MIB
    assert reading.values[GPU_POWER] == 298.125
    assert reading == _read(dcgm_source, exporter, today)
