"""The GenTD26 subset (Alibaba, production inference pods) as sample CSV and allocation CSV.

A pod has a 48 GB card to itself, so its name stands for the card. It holds the card while ticks come 57 s apart; a
missing tick ends the allocation. Facts and totals lie beside the data, in EXPECTED_subset.json.
"""

import csv
import io
from itertools import groupby
from pathlib import Path

SUBSET = Path(__file__).parent.parent.parent / "shared" / "data" / "alibaba-gentd26" / "subset_14pods_6h.csv"
NODE = "alibaba"
TENANT = "gentd26"
STEP_S = 57
GRANTED_SECONDS = 302_328
USED_VRAM_BYTE_SECONDS = 7_304_026_760_322_267
ALLOCATIONS = 16
# 48 GB, as such a card is sold.
VRAM_MIB = 48 * 1_000**3 // 2**20

Tick = tuple[int, str, str]


def read_ticks() -> dict[str, list[Tick]]:
    """Pod -> (second, utilisation in percent or '', bytes) in order of time."""
    with SUBSET.open(encoding="utf-8", newline="") as file:
        rows = sorted((row["pod"], int(float(row["timestamp"])), row) for row in csv.DictReader(file))
    return {
        pod: [(second_s, row["gpu_util_pct"], row["gpu_mem_used_bytes"]) for _, second_s, row in ticks]
        for pod, ticks in groupby(rows, key=lambda each: each[0])
    }


def sample_csv(ticks: dict[str, list[Tick]]) -> str:
    """The sample CSV: ratios 0..1, memory as the trace writes it."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("time", "node", "gpu_uuid", "gpu_busy_ratio", "gpu_memory_used_bytes"))
    for pod, its_ticks in ticks.items():
        for second_s, percent, used_bytes in its_ticks:
            writer.writerow((second_s, NODE, pod, repr(float(percent) / 100) if percent else "", used_bytes))
    return text.getvalue()


def allocation_csv(ticks: dict[str, list[Tick]]) -> str:
    """The allocation CSV: one allocation for each unbroken run of ticks."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    columns = "allocation,tenant,project,node,gpu_uuid,model,kind,milli_gpu,vram_mib,mig_profile,start,end"
    writer.writerow(columns.split(","))
    for pod, its_ticks in ticks.items():
        for number, (start_s, end_s) in enumerate(_runs([second_s for second_s, _, _ in its_ticks])):
            writer.writerow(
                (
                    f"{pod}-{number}",
                    TENANT,
                    "serving",
                    NODE,
                    pod,
                    "48 GB card",
                    "whole",
                    "",
                    VRAM_MIB,
                    "",
                    start_s,
                    end_s,
                )
            )
    return text.getvalue()


def _runs(seconds: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for second_s in seconds:
        if runs and runs[-1][1] == second_s:
            runs[-1] = (runs[-1][0], second_s + STEP_S)
        else:
            runs.append((second_s, second_s + STEP_S))
    return runs
