"""`gputab replay`: logs of nvidia-smi and pages of dcgm-exporter into a real store, as a person types it."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from domain.series import (
    COLLECTOR_COMPLETE_UNTIL,
    GPU_BUSY,
    GPU_INFO,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_POWER,
    GPU_TEMPERATURE,
)
from domain.units import MIB
from machine.process import free_port
from tests.collector.dcgm_pages import DATA, REAL_PAGES, line, page
from tests.collector.sample_logs import stored
from victoriametrics.read import Reader
from victoriametrics.selectors import Selector

Gputab = Callable[..., Any]

START = "2026-09-21T14:13:30Z"
START_S = 1_790_000_010
SMI_LOGS, SMI_TABLES = DATA / "nvidia-smi-series", DATA / "nvidia-smi-tables"
EVERYTHING = (
    *(GPU_BUSY, GPU_MEMORY_USED, GPU_MEMORY_TOTAL, GPU_POWER, GPU_TEMPERATURE),
    *(GPU_INFO, COLLECTOR_COMPLETE_UNTIL),
)


@pytest.fixture
def reader(victoriametrics_url: str, monkeypatch: pytest.MonkeyPatch, place: Path) -> Iterator[Reader]:
    """The store that the commands send to; `place` has taken every other setting away."""
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", victoriametrics_url)
    with Reader(victoriametrics_url) as reader:
        yield reader


def _smi_log(place: Path, name: str = "smi.csv") -> Path:
    """Two cards, five seconds apart, with a cut row."""
    lines = ["timestamp, index, name, utilization.gpu [%], memory.used [MiB]"]
    lines += [
        f"2026/09/21 14:13:{30 + 5 * number}.250, {index}, NVIDIA A10G, {index * 50} %, {100 + number} MiB"
        for number in range(4)
        for index in (0, 1)
    ]
    path = place / name
    path.write_text("\n".join([*lines, "2026/09/21 14:13:50.250, 0, NVI"]) + "\n", "utf-8")
    return path


def test_a_log_of_nvidia_smi_is_in_the_store_once_a_second(
    gputab: Gputab, place: Path, reader: Reader, unique_node: str
) -> None:
    _smi_log(place)

    done = gputab("replay", "smi.csv", "--node", unique_node, "--gpu", f"1={unique_node}-B", "--format", "json")

    assert done.code == 0, done.err
    (row,) = done.data["rows"]
    assert row == {
        "file": "smi.csv",
        "rows": 8,
        "refused": 1,
        "samples": 2 * 2 * 20,
        "merged_rows": 0,
        "cut_cells": 0,
        "nodes": unique_node,
        "from": START,
        "to": "2026-09-21T14:13:50Z",
    }
    for gpu_uuid, busy in ((f"{unique_node}/0", 0), (f"{unique_node}-B", 0.5)):
        selector = Selector((GPU_BUSY,), {"node": unique_node, "gpu_uuid": gpu_uuid})
        assert reader.export(selector, START_S, START_S + 100).frame["value"].to_list() == [busy] * 20
    said = done.err.splitlines()
    assert said[0].startswith("smi.csv: line 10: ")
    assert said[1] == (
        f"smi.csv: nobody tells the UUIDs of {unique_node}/0, so they are called that; name them with --gpu INDEX=UUID"
    )
    assert "'gputab bill' takes a log's own times: the two may differ" in said[2]
    info = Selector((GPU_INFO,), {"node": unique_node, "index": "1", "model": "NVIDIA A10G"})
    assert reader.count(info, START_S, START_S + 100) == 1


def test_pages_of_an_exporter_are_replayed_under_the_names_they_have(
    gputab: Gputab, place: Path, reader: Reader, unique_node: str
) -> None:
    own = page(f"{unique_node}-0").replace('"node-a"', f'"{unique_node}"')
    mig = line("DCGM_FI_DEV_FB_USED", 10, f"{unique_node}-1", 1, GPU_I_ID="7", Hostname=unique_node)
    (place / "pages.prom").write_text(f"{own}{mig}\n" * 3, "utf-8")

    done = gputab("replay", "pages.prom", "--start", START, "--step", "0.5")

    assert done.code == 0, done.err
    memory = stored(reader, unique_node, GPU_MEMORY_USED, START_S, START_S + 100)
    assert sorted(memory) == [START_S, START_S + 1]
    assert "4 rows" not in done.err
    assert "pages.prom: 2 rows lay in a second with another of the same card and were merged with it" in done.err
    assert "nobody tells the UUIDs" not in done.err
    instance = Selector((GPU_MEMORY_USED,), {"node": unique_node, "mig_uuid": f"MIG-{unique_node}-1/7/0"})
    assert reader.export(instance, START_S, START_S + 100).frame["value"].to_list() == [10 * MIB] * 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            ["pages.prom", "--node", "n"],
            "its 2 pages have no times; give --start with the instant of the first page",
        ),
        (["pages.prom", "--node", "n", "--start", START], "its 2 pages have no times; give --step"),
        (["smi.csv"], "it does not name its node; give --node"),
        (["none.csv", "--node", "n"], "none.csv"),
        (["smi.csv", "--node", "no good"], "cannot use 'no good' as a node"),
        (["smi.csv", "--node", "n", "--gpu", "GPU-1"], "cannot use --gpu 'GPU-1': write INDEX=UUID"),
        (["smi.csv", "--node", "n", "--gpu", "0=a", "--gpu", "0=b"], "cannot use --gpu '0=b'"),
        (["smi.csv", "--node", "n", "--gpu", "0=a b"], "cannot use 'a b' as a GPU UUID"),
        (["smi.csv", "--node", "n", "--step", "1"], "cannot use --step without --start"),
        (["smi.csv", "--node", "n", "--step", "0", "--start", START], "cannot use the step '0'"),
    ],
)
def test_what_nobody_tells_is_asked_for(
    gputab: Gputab, place: Path, reader: Reader, unique_node: str, words: list[str], told: str
) -> None:
    """With exit code 2, and nothing was sent."""
    _smi_log(place)
    (place / "pages.prom").write_text(page("GPU-1") * 2, "utf-8")

    refused = gputab("replay", *[unique_node if word == "n" else word for word in words])

    assert refused.code == 2
    (error,) = [each for each in refused.err.splitlines() if each.startswith("gputab: ")]
    assert told in error
    assert reader.count(Selector(EVERYTHING, {"node": unique_node}), START_S - 10**6, START_S + 10**6) == 0


def test_of_several_logs_the_good_ones_are_sent_and_the_others_told(
    gputab: Gputab, place: Path, reader: Reader, unique_node: str
) -> None:
    _smi_log(place)
    (place / "words.txt").write_text("nothing to see here\n", "utf-8")
    (place / "ahead.csv").write_text(_smi_log(place, "copy.csv").read_text("utf-8").replace("2026/", "2096/"), "utf-8")

    assert gputab("replay", "words.txt", "--node", unique_node).out == ""
    done = gputab("replay", "words.txt", "ahead.csv", "smi.csv", "--node", unique_node, "--format", "json")

    assert done.code == 2
    assert [row["file"] for row in done.data["rows"]] == ["smi.csv"]
    errors = [each for each in done.err.splitlines() if each.startswith("gputab: ")]
    assert len(errors) == 2
    assert "'words.txt'" in errors[0]
    assert errors[1].startswith("gputab: ahead.csv: cannot store samples of '2096-09-21T14:13:50Z'")
    assert len(stored(reader, unique_node, GPU_MEMORY_USED, START_S, START_S + 100)) == 20


def test_of_many_refused_rows_the_first_are_told_and_how_many_more(
    gputab: Gputab, place: Path, reader: Reader, unique_node: str
) -> None:
    assert reader
    path = _smi_log(place)
    path.write_text(path.read_text("utf-8") + "2026/09/21 14:14:50.250, 0, NVI\n" * 9, "utf-8")

    done = gputab("replay", "smi.csv", "--node", unique_node)

    assert done.code == 0, "a refused row is no failure"
    assert [each for each in done.err.splitlines() if "line" in each][-1].startswith("smi.csv: line 14: ")
    assert "smi.csv: and 5 more that could not be used, or not whole" in done.err


def test_a_store_that_is_away_is_another_failure(gputab: Gputab, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _smi_log(place)
    monkeypatch.setenv("GPUTAB_VICTORIAMETRICS_URL", f"http://127.0.0.1:{free_port()}")

    refused = gputab("replay", "smi.csv", "--node", "n")

    assert refused.code == 1
    assert refused.err.splitlines()[-1].startswith("gputab: cannot")


# File -> the options that it asks for.
REAL_LOGS: dict[str, list[str]] = {
    "01_rtx4090_vlm_1s.csv": [],
    "02_rtxa6000x2_openad_1s.csv": [],
    "03_h100nvl_slurm_1s_truncated.csv": [],
    "05_2080ti_utf16le_bom_1s.csv": [],
    "06_rtx2070_repeated_headers.csv": [],
    "10_h200x4_no_index_no_mem_2s.csv": ["--gpus", "4"],
    "11_jetson_orin_60s_mdy.csv": [],
    "13_8gpu_iso8601z_300ms.csv": [],
    "14_24gb_epoch_60s.csv": [],
    "16_util_only_epoch_100ms.csv": [],
    "19_laptop_5min_latin1.csv": [],
    "25_relative_time_util.csv": ["--start", START],
}


@pytest.mark.skipif(not SMI_LOGS.exists(), reason="shared data is not beside the checkout")
@pytest.mark.parametrize("name", REAL_LOGS)
def test_a_real_log_replayed_twice_is_in_the_store_once(
    gputab: Gputab, reader: Reader, unique_node: str, name: str
) -> None:
    words = ["replay", str(SMI_LOGS / name), "--node", unique_node, *REAL_LOGS[name], "--format", "json"]
    of_node = Selector(EVERYTHING, {"node": unique_node})
    files = json.loads((SMI_LOGS / "EXPECTED.json").read_text("utf-8"))["files"]
    cards = next(file["gpus"] for file in files if file["file"] == name)

    first = gputab(*words)
    assert first.code == 0, first.err
    kept = reader.export(of_node, 0, START_S * 2).frame
    again = gputab(*words)

    assert again.code == 0, again.err
    assert again.data == first.data
    assert reader.export(of_node, 0, START_S * 2).frame.equals(kept)
    (row,) = first.data["rows"]
    assert row["rows"] + _replaced(first.err) == sum(card["n"] for card in cards.values())
    samples = kept.filter(~kept["series"].is_in((GPU_INFO.name, COLLECTOR_COMPLETE_UNTIL.name)))
    assert samples["gpu_uuid"].n_unique() == len(cards)


@pytest.mark.skipif(not SMI_TABLES.exists(), reason="shared data is not beside the checkout")
@pytest.mark.parametrize(
    ("name", "cards", "snapshots"),
    [
        ("t1_l40s_60s_then_burst.log", 1, 43),
        ("t3_a5000x4_offload.log", 4, 123),
        ("t4_rtx3060l_subsecond.log", 1, 47),
    ],
)
def test_real_tables_replayed_twice_are_in_the_store_once(
    gputab: Gputab, reader: Reader, unique_node: str, name: str, cards: int, snapshots: int
) -> None:
    """Several snapshots of a second are one reading, the last; `snapshots` are the seconds that have one."""
    words = ["replay", str(SMI_TABLES / name), "--node", unique_node, "--format", "json"]
    of_node = Selector(EVERYTHING, {"node": unique_node})

    first = gputab(*words)
    assert first.code == 0, first.err
    kept = reader.export(of_node, 0, START_S * 2).frame
    again = gputab(*words)

    assert (again.code, again.data) == (0, first.data)
    assert reader.export(of_node, 0, START_S * 2).frame.equals(kept)
    (row,) = first.data["rows"]
    assert row["rows"] == cards * snapshots
    used = kept.filter(kept["series"] == GPU_MEMORY_USED.name)
    assert (used["gpu_uuid"].n_unique(), used.height) == (cards, row["samples"] // 5)


def _replaced(said: str) -> int:
    """How many rows a later one of the same card and time replaced."""
    told = [each.split(": ", 1)[1] for each in said.splitlines() if "same card and time" in each]
    return sum(int(each.split(" ", 1)[0].replace(",", "")) for each in told)


@pytest.mark.skipif(not REAL_PAGES, reason="shared data is not beside the checkout")
def test_real_pages_are_replayed_together(gputab: Gputab, reader: Reader, unique_node: str) -> None:
    names = ("a100-mig-plus-parent-2021", "a800_mig_real", "l4-full-driver580", "t4-2026-lowercase-hostname-pod")
    pages = [str(REAL_PAGES[name]) for name in names]

    done = gputab("replay", *pages, "--node", unique_node, "--start", START, "--format", "json")

    assert done.code == 0, done.err
    assert [(row["rows"], row["refused"]) for row in done.data["rows"]] == [(2, 0), (5, 2), (1, 0), (1, 0)]
    assert reader.count(Selector((GPU_POWER,), {"node": unique_node}), START_S, START_S + 1) == 3
