"""A cell of a few signs that stands for a number of a hundred million digits."""

from pathlib import Path

import pytest

from collector.imports.sample_csv import SampleFile


@pytest.mark.parametrize("cell", ["1e99999999", "-1e99999999", "9e999999999"])
def test_a_huge_exponent_is_refused_before_it_is_a_huge_integer(tmp_path: Path, cell: str) -> None:
    file = tmp_path / "samples.csv"
    file.write_text(f"time,node,gpu_uuid,gpu_memory_used_bytes\n1700000000,n1,GPU-1,{cell}\n", "utf-8")
    samples = SampleFile(file)
    assert list(samples.rows(lambda count: None)) == []
    assert samples.problems == [f"line 2: gpu_memory_used_bytes '{cell}': no card can have it"]


@pytest.mark.parametrize("cell", ["0e99999999", "0.0"])
def test_zero_is_zero_whatever_its_exponent(tmp_path: Path, cell: str) -> None:
    file = tmp_path / "samples.csv"
    file.write_text(f"time,node,gpu_uuid,gpu_memory_used_bytes\n1700000000,n1,GPU-1,{cell}\n", "utf-8")
    (row,) = SampleFile(file).rows(lambda count: None)
    assert list(row.values.values()) == [0]
