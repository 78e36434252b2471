"""Real pages that people made public: what each says of each card, field by field."""

import pytest

from domain.samples import FieldState
from domain.series import GPU_MEMORY_TEMPERATURE
from domain.units import MIB
from tests.collector.dcgm_pages import REAL_PAGES, read_page

pytestmark = pytest.mark.skipif(not REAL_PAGES, reason="shared data is not beside the checkout")

Said = dict[str, float]

_UTIL, _GR = "gpu_busy_ratio", "gpu_gr_active_ratio"
_TENSOR, _DRAM = "gpu_tensor_active_ratio", "gpu_dram_active_ratio"
_TOTAL, _RESERVED, _USED = "gpu_memory_total_bytes", "gpu_memory_reserved_bytes", "gpu_memory_used_bytes"
_POWER, _ENERGY, _TEMP = "gpu_power_watts", "gpu_energy_joules_total", "gpu_temperature_celsius"
_SM_CLOCK, _MEMORY_CLOCK = "gpu_sm_clock_hertz", "gpu_memory_clock_hertz"
_MEMORY_BUSY, _ENC, _DEC = "gpu_memory_busy_ratio", "gpu_encoder_busy_ratio", "gpu_decoder_busy_ratio"
_FP64, _FP32, _FP16 = "gpu_fp64_active_ratio", "gpu_fp32_active_ratio", "gpu_fp16_active_ratio"
_REMAP_FAILED = "gpu_row_remap_failed"
_CORRECTABLE, _UNCORRECTABLE = "gpu_remapped_rows/correctable", "gpu_remapped_rows/uncorrectable"

# Page -> card, or MIG instance -> what it says; the last parts of the UUIDs.
EXPECTED: dict[str, dict[str, Said]] = {
    "a100-mig-no-pod-labels-old-names": {
        "000000000000/1/0": {_GR: 0},
        "000000000000/2/0": {_GR: 0},
        "000000000001/1/0": {_GR: 0},
        "000000000003/1/0": {_GR: 0},
        "000000000004": {_GR: 0.008246},
    },
    "a100-mig-plus-parent-2021": {
        "000000000000": {
            _POWER: 409.692,
            _ENERGY: 319_159.391,
            _USED: 4_845 * MIB,
            _GR: 0.99563,
            _TENSOR: 0.92926,
            _DRAM: 0.690789,
        },
        "000000000000/13/0": {_GR: 0.995687, _TENSOR: 0.930433, _DRAM: 0.800339},
    },
    "a30-mig-with-pod": {"00000000000a/1/0": {_GR: 0.959228}},
    "a800_mig_real": {
        "000000000000/3/0": {_USED: 10 * MIB},
        "000000000000/5/0": {_USED: 10 * MIB},
        "000000000000/6/0": {_USED: 10 * MIB},
        "000000000001": {_USED: 2 * MIB, _REMAP_FAILED: 0},
        "000000000002": {_USED: 2 * MIB, _REMAP_FAILED: 0},
    },
    "h100-mig-1g10gb-pods-partial": {f"000000000000/{number}/0": {_GR: 0} for number in (7, 8, 9)},
    "l4-full-driver580": {
        "000000000000": {
            _SM_CLOCK: 210e6,
            _MEMORY_CLOCK: 405e6,
            _TEMP: 31,
            _POWER: 16.365,
            _ENERGY: 4_742.776,
            _UTIL: 0,
            _TOTAL: 23_033 * MIB,
            _USED: 0,
            _RESERVED: 470 * MIB,
            _GR: 0,
            _TENSOR: 0,
            _DRAM: 0,
            _MEMORY_BUSY: 0,
            _ENC: 0,
            _DEC: 0,
            _REMAP_FAILED: 0,
            _CORRECTABLE: 0,
            _UNCORRECTABLE: 0,
        }
    },
    "label_variants": {
        "a": {_TEMP: 41},
        "b": {_UTIL: 0},
        "c": {_GR: 0.008246},
        "d/1/0": {_GR: 0.381124},
        "e": {_GR: 0.714},
    },
    "pod-labels-2020": {"000000000000": {_DRAM: 0.000001, _FP64: 0, _FP32: 0, _FP16: 0}},
    "readme-blank-sentinel": {"000000000000": {_SM_CLOCK: 139e6, _MEMORY_CLOCK: 405e6}},
    "rtx4090-after-prometheus-exported_pod": {"000000000000": {_TEMP: 40}},
    "t4-2026-lowercase-hostname-pod": {
        "000000000000": {_UTIL: 0, _USED: 0, _TEMP: 43, _POWER: 15.507, _ENC: 0, _DEC: 0}
    },
    "t4_loaded_real": {
        "00000000000a": {
            _SM_CLOCK: 660e6,
            _TEMP: 74,
            _POWER: 68.244,
            _ENERGY: 15_152_422.938,
            _UTIL: 0.91,
            _MEMORY_BUSY: 0.73,
            _TOTAL: 15_358 * MIB,
            _USED: 5_120 * MIB,
            _RESERVED: 447 * MIB,
            _GR: 0.156205,
            _DRAM: 0.092781,
        }
    },
    "xid-count-window": {},
}


def test_every_page_has_its_expected_answer() -> None:
    assert REAL_PAGES.keys() == EXPECTED.keys()


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_a_page_says_what_it_says(name: str) -> None:
    found = read_page(REAL_PAGES[name].read_text("utf-8"))

    said = {
        (each.mig_uuid or card.gpu_uuid).rpartition("-")[2]: {
            **{series.name: float(value) for series, value in each.values.items()},
            **{
                f"{series.name}/{part}": float(told)
                for series in each.parts
                for part, told in each.parts[series].items()
            },
        }
        for card in found.cards
        for each in (card.itself, *card.instances)
        if each.values
    }
    assert said == EXPECTED[name]
    assert not any(each.garbled for card in found.cards for each in (card.itself, *card.instances))


@pytest.mark.parametrize("name", ["l4-full-driver580", "readme-blank-sentinel", "t4_loaded_real"])
def test_r5_memory_without_a_sensor_is_not_0_degrees_warm(name: str) -> None:
    """R5: of a 0 nobody can tell from one line whether it was measured; memory is never that cold."""
    (card,) = read_page(REAL_PAGES[name].read_text("utf-8")).cards

    assert GPU_MEMORY_TEMPERATURE not in card.itself.values
    assert card.itself.missing[GPU_MEMORY_TEMPERATURE] is FieldState.UNSUPPORTED


def test_r10_a_count_of_xids_in_a_window_counts_no_event() -> None:
    """R10: the same XID is in it for as long as the window reaches back, and then it is not."""
    found = read_page(REAL_PAGES["xid-count-window"].read_text("utf-8"))

    assert (found.cards, found.refused) == ((), ())


def test_the_only_lines_that_are_refused_are_the_exporters_own_faults() -> None:
    refused = {
        name: [(row.line, row.reason) for row in found]
        for name, path in REAL_PAGES.items()
        if (found := read_page(path.read_text("utf-8")).refused)
    }

    fault = "DCGM_FI_DEV_VGPU_PER_PROCESS_UTILIZATION: 'ERROR - FAILED TO CONVERT TO STRING' is no number"
    assert refused == {"a800_mig_real": [(14, fault), (15, fault)]}


@pytest.mark.parametrize(
    ("name", "index", "model", "host", "driver"),
    [
        ("l4-full-driver580", 0, "NVIDIA L4", "node-a", "580.105.08"),
        ("t4-2026-lowercase-hostname-pod", 0, "Tesla T4", "node-a", None),
        ("pod-labels-2020", 0, None, None, None),
        ("a30-mig-with-pod", 0, "NVIDIA A30", "dcgm-exporter-xxxxx", None),
        ("a100-mig-no-pod-labels-old-names", 3, "NVIDIA A100 80GB PCIe", None, None),
    ],
)
def test_the_first_card_of_a_page_is_known_by_its_labels(
    name: str, index: int, model: str | None, host: str | None, driver: str | None
) -> None:
    card = read_page(REAL_PAGES[name].read_text("utf-8")).cards[0]

    assert (card.index, card.model, card.hostname, card.driver_version) == (index, model, host, driver)
