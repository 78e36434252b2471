"""Every log that people keep in public, by the command, against answers that share no code with it."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
SERIES, TABLES = DATA / "nvidia-smi-series", DATA / "nvidia-smi-tables"
pytestmark = pytest.mark.skipif(not SERIES.is_dir(), reason="the shared logs are not beside the checkout")

Gputab = Callable[..., Any]

FIGURES = ("covered_s", "busy_gpu_s", "vram_gib_s")
# Answers of the tables are rounded to two decimals.
TOLERANCE, TABLE_TOLERANCE = 0.002, 0.005
# What a file cannot say, said.
NEEDED = {
    "10_h200x4_no_index_no_mem_2s.csv": ("--gpus", "4"),
    "25_relative_time_util.csv": ("--start", "2026-01-01T00:00:00Z"),
}
REFUSED = {
    "10_h200x4_no_index_no_mem_2s.csv": "say --gpus 4",
    "22_util_only_no_timestamp.csv": "say when it began with --start, and the seconds between its rows with --step",
    "25_relative_time_util.csv": "its times count from its beginning; say when it began with --start",
    "26_20k_rows_no_timestamp.log": "--columns utilization.gpu,memory.used, and its times with --start and --step",
    "27_fixed_width_table.log": "its format is unknown; give ",
}
REFUSED_ROWS = {
    "03_h100nvl_slurm_1s_truncated.csv": [{"line": 106, "reason": "its cell of 'memory.used [MiB]' is empty"}],
    "t1_l40s_60s_then_burst.log": [{"line": 5621, "reason": "no card stands under this time"}],
    "t4_rtx3060l_subsecond.log": [{"line": 6881, "reason": "no card stands under this time"}],
}


def expected(folder: Path) -> list[dict[str, Any]]:
    if not folder.is_dir():
        return []
    content: list[dict[str, Any]] = json.loads((folder / "EXPECTED.json").read_text("utf-8"))["files"]
    return content


def billed(gputab: Gputab, *words: str) -> dict[str, Any]:
    done = gputab("bill", *words, "--format", "json")
    assert (done.code, done.err) == (0, ""), done.err
    (file,) = done.data["files"]
    found: dict[str, Any] = file
    return found


@pytest.mark.parametrize(
    "answer", [answer for answer in expected(SERIES) if "gpus" in answer], ids=lambda answer: answer["file"]
)
def test_a_series_has_the_usage_that_was_expected(gputab: Gputab, answer: dict[str, Any]) -> None:
    file = billed(gputab, str(SERIES / answer["file"]), *NEEDED.get(answer["file"], ()))
    assert file["file"] == answer["file"]
    assert file["refused"] == REFUSED_ROWS.get(answer["file"], [])
    assert set(file["gpus"]) == set(answer["gpus"])
    for gpu, figures in answer["gpus"].items():
        found = file["gpus"][gpu]
        assert found["samples"] == figures["n"]
        for name in FIGURES:
            if name in figures:
                assert found[name] == pytest.approx(figures[name], abs=TOLERANCE, rel=0)
            else:
                assert found[name] is None


@pytest.mark.parametrize("answer", expected(TABLES), ids=lambda answer: answer["file"])
def test_a_table_has_the_usage_that_was_expected(gputab: Gputab, answer: dict[str, Any]) -> None:
    done = gputab("bill", str(TABLES / answer["file"]), "--format", "json")
    (file,) = done.data["files"]
    assert done.code == 0
    assert f"of another reading of their card: {answer['zero_dt'] * len(answer['per_gpu'])}, of which" in done.err
    assert file["refused"] == REFUSED_ROWS.get(answer["file"], [])
    assert set(file["gpus"]) == {str(figures["gpu"]) for figures in answer["per_gpu"]}
    for figures in answer["per_gpu"]:
        found = file["gpus"][str(figures["gpu"])]
        assert found["samples"] == answer["snapshots"] - len(file["refused"])
        for name in FIGURES:
            assert found[name] == pytest.approx(figures[name], abs=TABLE_TOLERANCE, rel=0)


def test_what_a_file_cannot_say_is_asked_for_and_the_others_are_printed(gputab: Gputab) -> None:
    names = sorted(answer["file"] for answer in expected(SERIES))
    done = gputab("bill", *(str(SERIES / name) for name in names), "--format", "json")
    assert done.code == 2
    files = {file["file"]: file for file in done.data["files"]}
    assert list(files) == names
    assert {name for name, file in files.items() if "error" in file} == set(REFUSED)
    for name, remedy in REFUSED.items():
        assert remedy in files[name]["error"]
        assert (files[name]["gpus"], files[name]["refused"]) == ({}, [])
        assert f"gputab: {files[name]['error']}" in done.err.splitlines()
    assert all(file["gpus"] for name, file in files.items() if name not in REFUSED)


def test_a_log_without_times_is_read_once_they_are_said(gputab: Gputab) -> None:
    file = billed(
        gputab, str(SERIES / "22_util_only_no_timestamp.csv"), "--start", "2026-01-01T00:00:00Z", "--step", "1"
    )
    assert file["refused"] == []
    assert (file["gpus"]["0"]["samples"], file["gpus"]["0"]["covered_s"]) == (40, 39)


def test_a_log_without_anything_is_read_once_all_is_said(gputab: Gputab) -> None:
    said = ("--columns", "utilization.gpu,memory.used", "--start", "2026-01-01T00:00:00Z", "--step", "1")
    file = billed(gputab, str(SERIES / "26_20k_rows_no_timestamp.log"), *said)
    assert (file["gpus"]["0"]["samples"], file["gpus"]["0"]["covered_s"]) == (23_646, 23_645)


def test_the_date_that_relative_times_are_given_changes_no_total(gputab: Gputab) -> None:
    one, other = (
        billed(gputab, str(SERIES / "25_relative_time_util.csv"), "--start", start)
        for start in ("1970-01-01T00:00:00Z", "2026-10-25T00:59:59.5Z")
    )
    assert one == other


def test_a_log_that_is_still_written_to_ends_with_a_refused_row(gputab: Gputab, place: Path) -> None:
    shutil.copyfile(SERIES / "08_v100s_idle_1s.csv", place / "growing.csv")
    whole = billed(gputab, "growing.csv")
    with (place / "growing.csv").open("a", encoding="utf-8") as file:
        file.write("2025/06/13 00:29:39.248, 0, Tesla V100S-PC")
    cut = billed(gputab, "growing.csv")
    assert cut["refused"] == [{"line": 109, "reason": "it has 3 cells of 8"}]
    assert cut["gpus"] == whole["gpus"]
