"""`gputab bill`: what it prints, what it asks for and what it refuses."""

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Gputab = Callable[..., Any]

HEADER = "timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB]"
PRICES = ("--gpu-hour", "3.60", "--vram-gib-hour", "0.36", "--currency", "CNY")
BOOK = """
book: retail
currency: EUR
rates:
  - {dimension: gpu, sku: rtx4090-24g, price: "7.20", unit: GPU-hour, from: 2026-01-01T00:00:00Z}
  - {dimension: vram, sku: "*", price: "0.36", unit: GiB-hour, from: 2026-01-01T00:00:00Z}
"""


def row(
    second: int, index: int = 0, busy: str = "50 %", used: str = "1024 MiB", model: str = "GeForce RTX 4090"
) -> str:
    time = f"2026/01/01 {second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.000"
    return f"{time}, {index}, NVIDIA {model}, {busy}, {used}, 24564 MiB"


@pytest.fixture
def log(place: Path) -> Callable[..., str]:
    """Writes lines under the header into a file of that name."""

    def write(*rows: str, name: str = "gpu.csv") -> str:
        (place / name).write_text("\n".join([HEADER, *rows, ""]), "utf-8")
        return name

    return write


def test_json_has_the_usage_and_the_exact_amount_of_each_card(gputab: Gputab, log: Callable[..., str]) -> None:
    name = log(row(0), row(0, 1), "cut", row(10), row(10, 1))
    done = gputab("bill", name, *PRICES, "--format", "json")
    card = {
        "samples": 2,
        "covered_s": 10.0,
        "busy_gpu_s": 5.0,
        "vram_gib_s": 10.0,
        "amount": "0.011",
        "currency": "CNY",
    }
    assert (done.code, done.err) == (0, "")
    assert done.data == {
        "files": [
            {
                "file": "gpu.csv",
                "gpus": {"0": card, "1": card},
                "refused": [{"line": 4, "reason": "it has 1 cells of 6"}],
            }
        ]
    }


def test_without_prices_there_is_no_amount(gputab: Gputab, log: Callable[..., str]) -> None:
    card = gputab("bill", log(row(0), row(10)), "--format", "json").data["files"][0]["gpus"]["0"]
    assert (card["amount"], card["currency"]) == (None, None)


def test_a_price_book_is_held_against_the_sku_of_the_card(gputab: Gputab, log: Callable[..., str], place: Path) -> None:
    (place / "book.yaml").write_text(BOOK, "utf-8")
    name = log(row(0), row(10), row(0, 1, model="L4"), row(10, 1, model="L4"))
    done = gputab("bill", name, "--prices", "book.yaml", "--format", "json")
    cards = done.data["files"][0]["gpus"]
    assert done.code == 0
    assert [(card["amount"], card["currency"]) for card in cards.values()] == [("0.021", "EUR"), (None, "EUR")]
    assert done.line.startswith("'gpu.csv': GPU 1: no amount, since gpu has no rate for l4-24g at 2026-01-01T00:00:00Z")
    cards = gputab("bill", name, "--prices", "book.yaml", "--sku", "rtx4090-24g", "--format", "json").data["files"][0]
    assert [card["amount"] for card in cards["gpus"].values()] == ["0.021", "0.021"]


def test_an_amount_that_lacks_a_column_is_null_and_says_why(gputab: Gputab, place: Path) -> None:
    (place / "busy.csv").write_text("timestamp,utilization.gpu\n1767225600,50\n1767225610,50\n", "utf-8")
    done = gputab("bill", "busy.csv", *PRICES, "--format", "json")
    assert done.code == 0
    assert done.data["files"][0]["gpus"]["0"]["amount"] is None
    assert done.line == (
        "'busy.csv': GPU 0: no amount, since VRAM is priced, and the log does not say how much of it was in use"
    )
    done = gputab("bill", "busy.csv", "--gpu-hour", "3.60", "--currency", "CNY", "--format", "json")
    assert done.data["files"][0]["gpus"]["0"]["amount"] == "0.01"
    assert done.line == "not charged, since the prices have none for it: vram"


def test_local_times_are_of_the_zone(gputab: Gputab, log: Callable[..., str]) -> None:
    shown = gputab("bill", log(row(0), row(10)), "--timezone", "Asia/Shanghai").out
    assert "2025-12-31 16:00:00 to 16:00:10 UTC" in shown


def test_good_files_are_printed_beside_refused_ones(gputab: Gputab, log: Callable[..., str], place: Path) -> None:
    name = log(row(0), row(10))
    done = gputab("bill", "missing.csv", name, str(place), "--format", "json")
    assert done.code == 2
    missing, good, folder = done.data["files"]
    assert missing == {
        "file": "missing.csv",
        "gpus": {},
        "refused": [],
        "error": "cannot read the log 'missing.csv': No such file or directory; check the path",
    }
    assert (good["file"], good["gpus"]["0"]["samples"]) == ("gpu.csv", 2)
    assert folder["error"].endswith("it is a folder; name the files in it")
    done = gputab("bill", "missing.csv", name)
    assert done.code == 2
    assert "gpu.csv" in done.out
    assert done.line == "gputab: cannot read the log 'missing.csv': No such file or directory; check the path"


def test_files_of_one_name_are_told_apart(gputab: Gputab, place: Path) -> None:
    for folder in ("a", "b"):
        (place / folder).mkdir()
        (place / folder / "gpu.csv").write_text("\n".join([HEADER, row(0), row(1)]), "utf-8")
    data = gputab("bill", "a/gpu.csv", "b/gpu.csv", "--format", "json").data
    assert [file["file"] for file in data["files"]] == ["a/gpu.csv", "b/gpu.csv"]
    shown = gputab("bill", "a/gpu.csv", "b/gpu.csv").out.splitlines()
    assert [line for line in shown if line.endswith("gpu.csv")] == ["a/gpu.csv", "b/gpu.csv"]


def workbook() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("xl/worksheets/sheet1.xml", "<worksheet/>" * 500)
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty; give one that holds readings"),
        (b"\n \n", "it is empty; give one that holds readings"),
        (bytes(5_000), "its format is unknown; give "),
        (os.urandom(5_000), "it holds no text; unpack it, or save the spreadsheet as CSV"),
        (workbook(), "it holds no text; unpack it, or save the spreadsheet as CSV"),
        (HEADER.encode(), "it holds no reading; let it run for longer"),
        (b"Time     GPU%   Mem Used\n     0.5    9.0       1361\n", "its format is unknown; give "),
        ((HEADER + "\n" + '"' * 3_000_000).encode(), "none of its rows can be used (1 in all), line 2: "),
        (
            (HEADER + "\n" + "x" * 3_000_000).encode(),
            "none of its rows can be used (1 in all), line 2: it has 1 cells of 6; ",
        ),
    ],
    ids=["empty", "blank", "NUL", "random", "xlsx", "header only", "fixed width", "quotes", "long cell"],
)
def test_a_log_that_cannot_be_used_is_one_line_with_what_to_do(
    gputab: Gputab, place: Path, content: bytes, reason: str
) -> None:
    (place / "odd.log").write_bytes(content)
    done = gputab("bill", "odd.log")
    assert (done.code, done.out) == (2, "")
    assert done.line.startswith(f"gputab: cannot read the log 'odd.log': {reason}")
    assert len(done.line) < 400


def test_what_is_no_file_is_not_waited_for(gputab: Gputab, place: Path) -> None:
    os.mkfifo(place / "pipe")
    for path in ("pipe", "/dev/zero", "/dev/stdin"):
        done = gputab("bill", path)
        assert done.code == 2
        assert "it is no regular file; write it to a file first" in done.line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--step", "1"), "cannot use --step without --start"),
        (("--start", "0", "--step", "0"), "cannot use the step '0'"),
        (("--start", "0", "--step", "1e3"), "cannot use the step '1e3'"),
        (("--start", "-1"), "cannot use the start '-1': it is before 1970"),
        (("--start", "yesterday"), "cannot read 'yesterday' as a time"),
        (("--start", "2026-01-01T00:00:00"), "cannot use the naive time"),
        (("--timezone", "Mars/Olympus"), "cannot find the time zone 'Mars/Olympus'"),
        (("--columns", "timestamp,foo"), "cannot use the column 'foo'"),
        (("--gpu-hour", "2"), "cannot use a price without its currency"),
        (("--currency", "CNY"), "cannot use --currency without a price"),
        (("--gpu-hour", "2,5", "--currency", "CNY"), "cannot read the price '2,5'"),
        (("--sku", "rtx4090-24g"), "cannot use --sku without a price book: add --prices"),
        (("--prices", "book.yaml", *PRICES), "cannot use --prices beside --gpu-hour or --vram-gib-hour"),
        (("--prices", "missing.yaml"), "cannot read the price book 'missing.yaml'"),
        (("--prices", "book.yaml", "--sku", "rtx4091"), "cannot find the SKU 'rtx4091'"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    gputab: Gputab, log: Callable[..., str], place: Path, words: tuple[str, ...], message: str
) -> None:
    (place / "book.yaml").write_text(BOOK, "utf-8")
    done = gputab("bill", log(row(0), row(1)), *words)
    assert (done.code, done.out) == (2, "")
    assert message in done.line


def test_the_table_shows_time_load_memory_gaps_and_money(
    gputab: Gputab, log: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    rows = [row(second, index, f"{index * 100} %") for second in (*range(0, 3600, 60), 7200) for index in (0, 1)]
    shown = gputab("bill", log(*rows), *PRICES).out.splitlines()
    assert shown[:2] == [
        "gpu.csv",
        "2 x NVIDIA GeForce RTX 4090, 122 readings, 2026-01-01 00:00:00 to 02:00:00 UTC",
    ]
    words = [" ".join(line.split()) for line in shown]
    assert "GPU covered of span busy load over time VRAM GiB peak GiB-h gaps CNY" in words[3]
    assert words[5].startswith("0 0:59:00 49.2 % 0.000 s 0.0 % ▁")
    assert words[6].startswith("1 0:59:00 49.2 % 0:59:00 100.0 % █")
    assert "·" in words[5]
    assert words[5].endswith("1.00 1.00 0.983 1, 1:01:00 3.894")
    assert words[8].startswith("all 1:58:00")
    assert words[8].endswith("7.788")
    assert max(len(line) for line in shown) <= 100


def test_a_column_that_the_log_lacks_is_left_out_of_the_table(gputab: Gputab, place: Path) -> None:
    (place / "busy.csv").write_text("timestamp,utilization.gpu\n1767225600,50\n1767225610,50\n", "utf-8")
    shown = gputab("bill", "busy.csv").out
    assert "VRAM" not in shown
    assert "gaps" not in shown


def test_a_narrow_terminal_cuts_no_figure(
    gputab: Gputab, log: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    assert "…" not in gputab("bill", log(row(0), row(10)), *PRICES).out


def test_what_was_done_to_the_rows_is_told_under_the_table(gputab: Gputab, log: Callable[..., str]) -> None:
    bad = [row(second, busy="200 %") for second in range(20, 25)]
    name = log(row(0), row(2), row(1), row(2), *bad, row(3, busy="[N/A]"), row(4))
    done = gputab("bill", name, "--step", "1", "--start", "0")
    told = [line.strip() for line in done.out.splitlines() if line.startswith("  ")]
    assert [line for line in told if line] == [
        "line 6 refused: no card can have the ratio '200 %' in 'utilization.gpu [%]'",
        "line 7 refused: no card can have the ratio '200 %' in 'utilization.gpu [%]'",
        "line 8 refused: no card can have the ratio '200 %' in 'utilization.gpu [%]'",
        "and 2 more rows refused; --format json lists them",
        "with the time of another reading of their card: 1, of which the last counts",
        "earlier than the row before of their card: 1, and all are sorted by time",
        "GPU 0: nothing says for 1.000 s how busy it was",
        "--step was not needed: its rows have times",
        "--start was not needed: its times are dates",
    ]
    told_of_json = gputab("bill", name, "--format", "json").err.splitlines()
    assert told_of_json == [
        "'gpu.csv': with the time of another reading of their card: 1, of which the last counts",
        "'gpu.csv': earlier than the row before of their card: 1, and all are sorted by time",
        "'gpu.csv': GPU 0: nothing says for 1.000 s how busy it was",
    ]


def test_several_logs_are_summed(gputab: Gputab, log: Callable[..., str]) -> None:
    names = [log(row(0), row(10), name=f"{number}.csv") for number in (1, 2)]
    assert gputab("bill", *names, *PRICES).out.splitlines()[-1] == "2 logs, 2 cards: 20.000 s covered, 0.022 CNY"
    names.append(log(row(0, used="[N/A]"), row(10), name="3.csv"))
    assert gputab("bill", *names, *PRICES).out.splitlines()[-1] == (
        "3 logs, 3 cards: 30.000 s covered, no total without the amount of 1 card"
    )


def test_what_a_log_calls_a_card_does_not_steer_the_terminal(gputab: Gputab, log: Callable[..., str]) -> None:
    name = log(row(0, model="\x1b[31m[red]"), row(10, model="\x1b[31m[red]"))
    shown = gputab("bill", name).out
    assert "\x1b" not in shown
    assert "NVIDIA ?[31m[red]" in shown
