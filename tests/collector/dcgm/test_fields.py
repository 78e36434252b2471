"""The fields of DCGM under all their names, in our units, and what is no value of theirs."""

import re
from fractions import Fraction
from pathlib import Path

import pytest

from collector.dcgm.field import DcgmField, Scope
from collector.dcgm.fields import CLOCK_EVENTS, ENERGY, FIELD_OF_NAME, FIELD_OF_NUMBER, FIELDS, LAST_XID, MEMORY_USED
from collector.ranges import is_measurable, is_possible
from domain.samples import FieldState
from domain.series import (
    GPU_BUSY,
    GPU_DRAM_ACTIVE,
    GPU_ECC_CORRECTED,
    GPU_ECC_UNCORRECTED,
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
_ROW = re.compile(r"^\| (.+?) \| (.+?) \| (.+?) \| (.+?) \|$", re.MULTILINE)


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
        ("dcgm_ecc_sbe_aggregate_total DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", GPU_ECC_CORRECTED, 40, 40),
        ("dcgm_ecc_dbe_aggregate_total DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", GPU_ECC_UNCORRECTED, 2, 2),
        ("dcgm_xid_errors DCGM_FI_DEV_XID_ERRORS DCGM_FI_DEV_XID_ERROR", GPU_LAST_XID, 31, 31),
    ],
)
def test_r16_a_field_is_one_series_under_every_name_it_had(
    names: str, series: Series, written: float, value: int | Fraction
) -> None:
    for name in names.split():
        found = FIELD_OF_NAME[name.upper()]
        assert found.series is series
        assert found.exact(written) == value
        assert isinstance(found.exact(written), int if series.whole else int | Fraction), "R16"


_NOT_READY, _UNSUPPORTED, _NO_PERMISSION = FieldState.NOT_READY, FieldState.UNSUPPORTED, FieldState.NO_PERMISSION


@pytest.mark.parametrize(
    ("blank", "reason"),
    [
        *((2**63 - 16 + above, reason) for above, reason in ((0, _NOT_READY), (1, _NOT_READY))),
        (2**63 - 14, _UNSUPPORTED),
        (9_223_372_036_854_775_794, _UNSUPPORTED),  # as the exporter's README prints it
        (2**63 - 13, _NO_PERMISSION),
        (2**63, _NOT_READY),
        (0x7FFFFFF0, _NOT_READY),
        (0x7FFFFFF1, _NOT_READY),
        (0x7FFFFFF2, _UNSUPPORTED),
        (0x7FFFFFF3, _NO_PERMISSION),
        (0x7FFFFFFF, _NOT_READY),
        (140_737_488_355_328.0, _NOT_READY),
        (140_737_488_355_330.0, _UNSUPPORTED),
        (140_737_488_355_331.0, _NO_PERMISSION),
        (140_737_488_355_328.0 * 100, _NOT_READY),  # as slurm-job-exporter 30 has it
        (9.223372036854776e18, _NOT_READY),
    ],
)
def test_r2_a_blank_is_no_value_and_says_why(blank: float, reason: FieldState) -> None:
    """R2, by `>=`: the exporter's own filter tests for equality with those that it knew (gpu-monitoring-tools 152)."""
    for field in FIELDS:
        if not (field.is_long and isinstance(blank, int) and blank < 2**47):
            assert field.exact(blank) is reason, field.names


def test_r2_a_counter_of_64_bits_passes_through_the_blanks_of_smaller_types() -> None:
    """R2: the SMs of a card count 2^47 cycles in ten minutes, and DCGM's blank of such a field is one of 64 bits."""
    for number in (1084, 1085, 1091, 1092, 1201, 1203):
        assert FIELD_OF_NUMBER[number].exact(2**47) == 2**47
        assert FIELD_OF_NUMBER[number].exact(2**63 - 14) is _UNSUPPORTED
        assert FIELD_OF_NUMBER[number].exact(2.0**47 + 2) is _UNSUPPORTED, "a double's blank has a decimal point"


@pytest.mark.parametrize("told", [0, 2**63 - 16], ids=["4.4.1", "4.5.3"])
def test_r5_two_versions_of_dcgm_say_the_same_of_a_card_without_an_xid(told: int) -> None:
    """R5: dcgm-exporter 700: of a field without a value DCGM 4.4.1 says 0, and 4.5.3 N/A; no XID has the number 0."""
    assert LAST_XID.exact(told) is _NOT_READY
    assert LAST_XID.exact(79) == 79


@pytest.mark.parametrize("number", [450, 504, 525, 1420, 1421, 1422, 1423, 1424])
def test_r5_the_other_fields_that_became_na_are_not_read(number: int) -> None:
    """R5: all that dcgm-exporter 700 names beside the last XID."""
    assert number not in FIELD_OF_NUMBER


def test_r5_a_0_of_what_is_never_0_is_no_value() -> None:
    """R5: an L4 has no sensor in its memory, and DCGM says 0 degrees."""
    assert FIELD_OF_NAME["DCGM_FI_DEV_MEMORY_TEMP"].exact(0) is _UNSUPPORTED
    assert FIELD_OF_NAME["DCGM_FI_DEV_MEMORY_TEMP_CELSIUS"].exact(58) == 58
    assert FIELD_OF_NAME["DCGM_FI_DEV_ECC_SBE_AGG_TOTAL"].exact(0) == 0


def test_an_energy_that_stands_at_0_is_not_counted() -> None:
    """NVML's power over time would fall to 0 where DCGM goes on with it."""
    assert ENERGY.exact(0) is _UNSUPPORTED


def test_clock_events_are_one_field_of_bits() -> None:
    told = dict(CLOCK_EVENTS.parts(0x4 | 0x20 | 0x8000))

    assert {reason for reason, is_active in told.items() if is_active} == {"sw_power_cap", "sw_thermal_slowdown"}
    assert len(told) == 9, "each reason that is not there is told as 0"


@pytest.mark.parametrize(
    ("name", "written", "part", "value"),
    [
        ("DCGM_FI_DEV_POWER_VIOLATION", 1_500_000_000, "sw_power_cap", Fraction(3, 2)),
        ("dcgm_thermal_violation", 250_000_000, "thermal", Fraction(1, 4)),
        ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 2, "uncorrectable", 2),
        ("DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL", 3, "correctable", 3),
        ("DCGM_FI_DEV_NVLINK_TX_BYTES_TOTAL", 10, "all", 10),
    ],
)
def test_a_field_may_be_one_part_of_a_series(name: str, written: int, part: str, value: int | Fraction) -> None:
    field = FIELD_OF_NAME[name.upper()]
    exact = field.exact(written)

    assert not isinstance(exact, FieldState)
    assert list(field.parts(exact)) == [(part, value)]


@pytest.mark.parametrize(
    "name",
    [
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL",
        "DCGM_FI_PROF_PCIE_TX_BYTES",
        "DCGM_FI_PROF_NVLINK_RX_BYTES",
        "DCGM_EXP_XID_ERRORS_COUNT",
        "DCGM_EXP_CLOCK_EVENTS_COUNT",
        "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL",
        "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL",
        "DCGM_ECC_SBE_VOLATILE_TOTAL",
        "DCGM_ECC_DBE_VOLATILE_TOTAL",
    ],
)
def test_r15_what_only_looks_like_a_series_is_not_read(name: str) -> None:
    """R15: one name has one meaning, also where a counter begins again with the driver and another never does.

    R10: a count in a window counts no event once.
    """
    assert name not in FIELD_OF_NAME


def test_a_long_counter_passes_through_the_blanks_of_32_bits() -> None:
    """A card is at 2,147,483.632 J once in its life: after three hours at 200 W."""
    assert ENERGY.exact(0x7FFFFFF0) == Fraction(0x7FFFFFF0, 1_000)
    assert MEMORY_USED.exact(0x7FFFFFF0) is FieldState.NOT_READY


@pytest.mark.parametrize("garbage", [808_334_905, 4_294_967_295, -1])
def test_r1_garbage_is_no_blank_so_that_it_is_counted(garbage: int) -> None:
    """R1: GPU_UTIL of dcgm-exporter 418 and DCGM 199, among 176,000 good values."""
    exact = FIELD_OF_NAME["DCGM_FI_DEV_GPU_UTIL"].exact(garbage)

    assert not isinstance(exact, FieldState)
    assert not is_possible(GPU_BUSY, float(exact))


def test_every_series_has_a_range_and_no_name_means_two_things() -> None:
    assert all(field.series is None or is_measurable(field.series) for field in FIELDS)
    assert len(FIELD_OF_NAME) == sum(len(field.names) for field in FIELDS)
    assert len(FIELD_OF_NUMBER) == len(FIELDS)
    told = [(field.series, field.part) for field in FIELDS if field.series is not None]
    assert len(set(told)) == len(told), "no two fields are one series"
    assert all(name == name.upper() for name in FIELD_OF_NAME)


def test_the_documents_table_is_that_of_the_code() -> None:
    rows = [row for row in _ROW.findall(DOCS.read_text("utf-8")) if row[0].isdigit()]
    written = {int(number): (tuple(re.findall(r"`(\w+)`", names)), told, scope) for number, names, told, scope in rows}
    scopes = {Scope.ANY: "card, MIG instance", Scope.CARD: "card", Scope.CARD_WITHOUT_MIG: "card without MIG"}

    assert written == {field.number: (field.names, _told(field), scopes[field.scope]) for field in FIELDS}


def _told(field: DcgmField) -> str:
    """The series of a field as the document writes it, with its part."""
    if field.series is None:
        return "part of a total"
    if field.part is not None:
        return f'`{field.series.name}{{{field.series.part}="{field.part}"}}`'
    return f"`{field.series.name}` by `{field.series.part}`" if field.bits else f"`{field.series.name}`"
