"""The fields of DCGM under all their names, in our units, and what is no value of theirs."""

import re
from fractions import Fraction
from pathlib import Path

import pytest

from collector.dcgm.fields import ENERGY, FIELD_OF_NAME, FIELDS, MEMORY_USED, Scope
from collector.ranges import is_measurable, is_possible
from domain.series import (
    GPU_BUSY,
    GPU_DRAM_ACTIVE,
    GPU_ENERGY,
    GPU_GR_ACTIVE,
    GPU_LAST_XID,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_SM_ACTIVE,
    GPU_SM_CLOCK,
    GPU_TEMPERATURE,
    GPU_TENSOR_ACTIVE,
    Series,
)
from domain.units import MIB

DOCS = Path(__file__).parents[3] / "docs" / "dcgm.md"
_ROW = re.compile(r"^\| (.+) \| (.+) \| (.+) \|$", re.MULTILINE)


@pytest.mark.parametrize(
    ("names", "series", "written", "value"),
    [
        ("dcgm_gpu_utilization DCGM_FI_DEV_GPU_UTIL DCGM_FI_DEV_GPU_UTIL_RATIO", GPU_BUSY, 91, Fraction(91, 100)),
        (
            "DCGM_FI_PROF_SM_ACTIVE DCGM_FI_PROF_SM_UTIL_RATIO dcgm_fi_prof_sm_active",
            GPU_SM_ACTIVE,
            0.5,
            Fraction(1, 2),
        ),
        (
            "dcgm_fi_prof_gr_engine_active DCGM_FI_PROF_GR_ENGINE_ACTIVE DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO",
            GPU_GR_ACTIVE,
            0.008246,
            Fraction(8_246, 10**6),
        ),
        ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE DCGM_FI_PROF_TENSOR_UTIL_RATIO", GPU_TENSOR_ACTIVE, 1, 1),
        ("DCGM_FI_PROF_DRAM_ACTIVE DCGM_FI_PROF_DRAM_UTIL_RATIO", GPU_DRAM_ACTIVE, 1e-06, Fraction(1, 10**6)),
        ("dcgm_fb_used DCGM_FI_DEV_FB_USED", GPU_MEMORY_USED, 5_120, 5_120 * MIB),
        ("DCGM_FI_DEV_FB_TOTAL", GPU_MEMORY_TOTAL, 24_564, 24_564 * MIB),
        (
            "dcgm_power_usage DCGM_FI_DEV_POWER_USAGE DCGM_FI_DEV_BOARD_POWER_WATTS",
            GPU_POWER,
            68.244,
            Fraction(68_244, 1_000),
        ),
        (
            "dcgm_total_energy_consumption DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION",
            GPU_ENERGY,
            15_152_422_938,
            Fraction(15_152_422_938, 1_000),
        ),
        ("dcgm_gpu_temp DCGM_FI_DEV_GPU_TEMP DCGM_FI_DEV_GPU_TEMP_CELSIUS", GPU_TEMPERATURE, 74, 74),
        ("dcgm_sm_clock DCGM_FI_DEV_SM_CLOCK", GPU_SM_CLOCK, 660, 660_000_000),
        ("dcgm_xid_errors DCGM_FI_DEV_XID_ERRORS DCGM_FI_DEV_XID_ERROR", GPU_LAST_XID, 31, 31),
    ],
)
def test_a_field_is_one_series_under_every_name_it_had(
    names: str, series: Series, written: float, value: int | Fraction
) -> None:
    for name in names.split():
        found = FIELD_OF_NAME[name.upper()]
        assert found.series is series
        assert found.exact(written) == value
        assert isinstance(found.exact(written), int if series.whole else int | Fraction)


@pytest.mark.parametrize(
    "blank",
    [
        *(2**63 - 16 + reason for reason in range(4)),  # 64 bits: blank, not found, not supported, no permission
        9_223_372_036_854_775_794,  # as the exporter's README prints it
        2**63,
        *(0x7FFFFFF0 + reason for reason in range(4)),
        0x7FFFFFFF,
        140_737_488_355_328.0,
        140_737_488_355_331.0,
        140_737_488_355_328.0 * 100,  # as slurm-job-exporter 30 has it
        9.223372036854776e18,
    ],
)
def test_a_blank_is_no_value_whatever_its_reason(blank: float) -> None:
    """By `>=`: the exporter's own filter tests for equality with those that it knew (gpu-monitoring-tools 152)."""
    for field in FIELDS:
        if not (field.is_long and blank < 2**47):
            assert field.exact(blank) is None, field.names


def test_a_long_counter_passes_through_the_blanks_of_32_bits() -> None:
    """A card is at 2,147,483.632 J once in its life: after three hours at 200 W."""
    assert ENERGY.exact(0x7FFFFFF0) == Fraction(0x7FFFFFF0, 1_000)
    assert MEMORY_USED.exact(0x7FFFFFF0) is None


@pytest.mark.parametrize("garbage", [808_334_905, 4_294_967_295, -1])
def test_garbage_is_no_blank_so_that_it_is_counted(garbage: int) -> None:
    """GPU_UTIL of dcgm-exporter 418 and DCGM 199, among 176,000 good values."""
    exact = FIELD_OF_NAME["DCGM_FI_DEV_GPU_UTIL"].exact(garbage)

    assert exact is not None
    assert not is_possible(GPU_BUSY, float(exact))


def test_every_series_has_a_range_and_no_name_means_two_things() -> None:
    assert all(field.series is None or is_measurable(field.series) for field in FIELDS)
    assert len(FIELD_OF_NAME) == sum(len(field.names) for field in FIELDS)
    assert all(name == name.upper() for name in FIELD_OF_NAME)


def test_the_documents_table_is_that_of_the_code() -> None:
    rows = [row for row in _ROW.findall(DOCS.read_text("utf-8")) if row[0].startswith("`")]
    written = {tuple(re.findall(r"`(\w+)`", names)): (series, scope) for names, series, scope in rows}
    scopes = {Scope.ANY: "card, MIG instance", Scope.CARD: "card", Scope.CARD_WITHOUT_MIG: "card without MIG"}

    assert written == {
        field.names: (f"`{field.series.name}`" if field.series else "part of a total", scopes[field.scope])
        for field in FIELDS
    }
