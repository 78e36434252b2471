"""What a bill sums up: no second of a card twice, nothing unknown as 0, and amounts that can be compared."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.collector.dcgm_pages import line, page

Gputab = Callable[..., Any]

PRICES = ("--gpu-hour", "3600", "--currency", "CNY")
TIMES = ("--start", "2026-01-01T00:00:00Z", "--step", "30")
USED, POWER = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_POWER_USAGE"


def instance(number: int, name: str = USED, value: int = 1_024, uuid: str = "GPU-1") -> str:
    return line(name, value, uuid, GPU_I_ID=str(number), GPU_I_PROFILE="1g.10gb")


def write(place: Path, *pages: Sequence[str]) -> str:
    text = "\n".join("\n".join(lines) for lines in pages)
    (place / "pages.prom").write_text(text + "\n", "utf-8")
    return "pages.prom"


def words(printed: str) -> list[str]:
    return [" ".join(each.split()) for each in printed.splitlines()]


def test_a_mig_instance_is_part_of_its_card_and_counted_with_it(gputab: Gputab, place: Path) -> None:
    one = [line(USED, 4_096), line(POWER, 200), instance(1), instance(2)]
    done = gputab("bill", write(place, one, one), *TIMES, *PRICES)
    shown = words(done.out)
    assert shown[1].startswith("1 x Tesla T4 with 2 MIG instances, 6 readings, ")
    assert "GPU-1 30.000 s 100.0 % 4.00 4.00 0.033 30.00" in shown
    assert "MIG-GPU-1/1/0 30.000 s 100.0 % 1.00 1.00 0.008 -" in shown
    assert "all 30.000 s 0.033 30.00" in shown
    part = "part of a card that has a row of its own and counts for all of it"
    assert f"GPU MIG-GPU-1/1/0, MIG-GPU-1/2/0: {part}" in shown
    assert "no amount" not in done.out


def test_instances_whose_card_is_silent_share_its_time(gputab: Gputab, place: Path) -> None:
    """One of them is made after the first page; the card's time is 60 s all the same, and not 90."""
    pages = [[instance(1)], [instance(1), instance(2)], [instance(1), instance(2)]]
    done = gputab("bill", write(place, *pages), *TIMES, *PRICES)
    shown = words(done.out)
    assert shown[1].startswith("1 x Tesla T4 with 2 MIG instances, 5 readings, ")
    assert "all 0:01:00 0.025" in shown
    assert "GPU MIG-GPU-1/1/0, MIG-GPU-1/2/0: no amount, since it is a MIG instance" in done.out


def test_logs_are_summed_by_card_and_not_by_instance(gputab: Gputab, place: Path) -> None:
    one = [line(USED, 4_096), instance(1)]
    (place / "whole.prom").write_text(page("GPU-2") * 2, "utf-8")
    done = gputab("bill", write(place, one, one), "whole.prom", *TIMES, *PRICES)
    assert done.out.splitlines()[-1] == "2 logs, 2 cards: 0:01:00 covered, 60.00 CNY"


def test_the_load_of_all_is_of_the_time_in_which_it_is_known(gputab: Gputab, place: Path) -> None:
    rows = [f"{1767225600 + second},{card},{'[N/A]' if second < 5 else 50}" for second in range(11) for card in (0, 1)]
    (place / "gpu.csv").write_text("\n".join(["timestamp,index,utilization.gpu", *rows]), "utf-8")
    shown = words(gputab("bill", "gpu.csv").out)
    assert any(each.startswith("0 10.000 s 100.0 % 2.500 s 50.0 %") for each in shown)
    assert any(each.startswith("all 20.000 s 5.000 s 50.0 %") for each in shown)


def test_one_look_at_the_cards_covers_nothing_and_says_so(gputab: Gputab, place: Path) -> None:
    (place / "gpu.csv").write_text("timestamp,index,utilization.gpu\n1767225600,0,5\n1767225600,1,5\n", "utf-8")
    shown = gputab("bill", "gpu.csv").out
    told = "GPU 0, 1: read at one time only, and a reading covers the time until the next; log in a loop"
    assert told in shown
    assert "·" not in shown


def test_a_log_that_is_named_twice_is_not_billed_twice(gputab: Gputab, place: Path) -> None:
    (place / "gpu.csv").write_text("timestamp,index,utilization.gpu\n1767225600,0,5\n1767225601,0,5\n", "utf-8")
    done = gputab("bill", "gpu.csv", "./gpu.csv", *PRICES)
    assert (done.code, done.out) == (2, "")
    assert done.line == "gputab: cannot bill the log 'gpu.csv' 2 times: name it once"


def test_amounts_have_equally_many_decimals(gputab: Gputab, place: Path) -> None:
    rows = [f"{1767225600 + second},{card},5" for card, end in ((0, 9), (1, 7)) for second in range(end + 1)]
    (place / "gpu.csv").write_text("\n".join(["timestamp,index,utilization.gpu", *rows]), "utf-8")
    shown = words(gputab("bill", "gpu.csv", "--gpu-hour", "1", "--currency", "CNY").out)
    amounts = [each.rpartition(" ")[2] for each in shown if each.startswith(("0 ", "1 ", "all "))]
    assert amounts == ["0.002500000", "0.001944444", "0.004444444"]


@pytest.mark.parametrize("width", range(60, 110))
def test_no_width_of_the_terminal_cuts_a_figure(
    gputab: Gputab, place: Path, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    (place / "pages.prom").write_text(page("GPU-1") * 2, "utf-8")
    assert "…" not in gputab("bill", "pages.prom", *TIMES, *PRICES).out
