"""The catalogue of series: names, units, labels."""

import re

import pytest

from domain.series import CATALOGUE, DEVICE, Kind, Series


@pytest.mark.parametrize("series", CATALOGUE.values(), ids=lambda series: series.name)
def test_a_series_says_what_it_measures_in_base_units(series: Series) -> None:
    """Names are legal for Prometheus, ratios and counters end as its rules say, and every series has a meaning."""
    assert re.fullmatch(r"[a-z][a-z0-9_]*", series.name)
    assert series.help
    assert (series.kind is Kind.COUNTER) == series.name.endswith("_total")
    assert (series.kind is Kind.INFO) == (series.unit == "info") == series.name.endswith("_info")
    assert (series.unit == "ratio") == series.name.endswith("_ratio")
    assert all(re.fullmatch(r"[a-z_]+", label) for label in series.labels)
    assert len(set(series.labels)) == len(series.labels)
    if "mig_uuid" in series.labels:
        assert "gpu_uuid" in series.labels


def test_no_two_series_share_a_name() -> None:
    assert len({series.name for series in CATALOGUE.values()}) == len(CATALOGUE)
    assert all(name == series.name for name, series in CATALOGUE.items())


def test_values_of_a_device_carry_its_identity_and_nothing_else() -> None:
    """Identity of a device second is (gpu_uuid, mig_uuid, second); the rest sits on gpu_info."""
    for name in ("gpu_up", "gpu_memory_used_bytes", "gpu_busy_ratio", "gpu_power_watts"):
        assert CATALOGUE[name].labels == DEVICE
