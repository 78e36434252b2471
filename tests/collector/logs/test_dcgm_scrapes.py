"""Saved pages of dcgm-exporter as a log: where a page ends, and when it was."""

from fractions import Fraction
from pathlib import Path

import pytest

from collector.logs.log import Log, LogCard, LogOptions, RefusedRow
from collector.logs.open_log import open_log
from domain.errors import InputError
from domain.series import (
    GPU_BUSY,
    GPU_GR_ACTIVE,
    GPU_MEMORY_TOTAL,
    GPU_MEMORY_USED,
    GPU_REMAPPED_ROWS,
    GPU_TEMPERATURE,
    GPU_THROTTLE,
)
from domain.units import MIB
from tests.collector.dcgm_pages import REAL_PAGES, line, page, read_page

START_US = 1_790_000_000_000_000
SECOND_US = 1_000_000
TEMP, USED = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED"


def _open(folder: Path, text: str, options: LogOptions | None = None) -> Log:
    path = folder / "pages.prom"
    path.write_text(text, "utf-8")
    return open_log(path, options or LogOptions(start_us=START_US, step_us=SECOND_US))


def test_a_page_is_a_row_for_each_card_and_instance_at_the_instant_that_was_said(tmp_path: Path) -> None:
    instance = line(USED, 10, "GPU-2", 1, GPU_I_ID="7", GPU_I_PROFILE="1g.10gb")

    log = _open(tmp_path, f"{page('GPU-1', 'GPU-2')}{instance}\n", LogOptions(start_us=START_US))

    assert [row.time_us for row in log.rows] == [START_US] * 3
    assert [row.card for row in log.rows] == [
        LogCard("0", "GPU-1", None, "Tesla T4", "node-a"),
        LogCard("1", "GPU-2", None, "Tesla T4", "node-a"),
        LogCard("1", "GPU-2", "MIG-GPU-2/7/0", "Tesla T4", "node-a"),
    ]
    assert log.rows[0].values[GPU_MEMORY_TOTAL] == 15_358 * MIB
    assert GPU_BUSY in log.rows[0].values
    assert GPU_BUSY not in log.rows[1].values
    assert dict(log.rows[2].values) == {GPU_MEMORY_USED: 10 * MIB}
    assert (log.rows[0].line, log.rows[2].line) == (3, 41)
    assert (log.refused, log.notes) == ((), ())


def test_pages_one_after_another_are_one_step_apart(tmp_path: Path) -> None:
    """A page ends where a comment on a field comes again, though the card of the first line has gone meanwhile."""
    pages = [page("GPU-1", "GPU-2", **{TEMP: 40}), page("GPU-2", **{TEMP: 41}), page("GPU-1", "GPU-2", **{TEMP: 42})]

    log = _open(tmp_path, "".join(pages), LogOptions(start_us=START_US, step_us=SECOND_US // 2))

    assert [(row.card.gpu_uuid, row.time_us - START_US, row.values[GPU_TEMPERATURE]) for row in log.rows] == [
        ("GPU-1", 0, 40),
        ("GPU-2", 0, 40),
        ("GPU-2", SECOND_US // 2, 41),
        ("GPU-1", SECOND_US, 42),
        ("GPU-2", SECOND_US, 42),
    ]


def test_pages_without_comments_end_where_a_series_comes_again(tmp_path: Path) -> None:
    lines = [line(TEMP, 40), line(USED, 1), line(TEMP, 41), line(USED, 2), "", line(TEMP, 42)]

    log = _open(tmp_path, "\n".join(lines))

    assert [row.values[GPU_TEMPERATURE] for row in log.rows] == [40, 41, 42]
    assert [row.values.get(GPU_MEMORY_USED) for row in log.rows] == [MIB, 2 * MIB, None]
    assert [row.time_us - START_US for row in log.rows] == [0, SECOND_US, 2 * SECOND_US]


def test_copies_for_pods_do_not_end_a_page(tmp_path: Path) -> None:
    copies = [line(TEMP, 40, pod=f"p{number}") for number in range(3)]

    assert len(_open(tmp_path, "\n".join(copies)).rows) == 1


@pytest.mark.parametrize(
    ("pages", "options", "words"),
    [
        (1, LogOptions(), "its page has no times; give --start with the instant of the first page"),
        (
            2,
            LogOptions(),
            "its 2 pages have no times; give --start with .* and --step with the time",
        ),
        (2, LogOptions(start_us=START_US), "its 2 pages have no times; give --step with"),
    ],
)
def test_a_time_that_nobody_tells_is_asked_for(tmp_path: Path, pages: int, options: LogOptions, words: str) -> None:
    with pytest.raises(InputError, match=words):
        _open(tmp_path, page("GPU-1") * pages, options)


def _stamped(text: str, time_ms: int) -> str:
    return "".join(f"{each} {time_ms}\n" if each[:1] != "#" else f"{each}\n" for each in text.splitlines())


def test_times_in_the_lines_are_used_and_need_no_option(tmp_path: Path) -> None:
    """In whatever order: a federation page has one time, an export all times of a series one after another."""
    by_page = _stamped(page("GPU-1"), 1_790_000_000_250) + _stamped(page("GPU-1", **{USED: 6_000}), 1_790_000_005_250)
    by_series = "\n".join(sorted(each for each in by_page.splitlines() if not each.startswith("#")))

    for text in (by_page, by_series):
        log = _open(tmp_path, text, LogOptions())
        assert [row.time_us for row in log.rows] == [START_US + 250_000, START_US + 5_250_000]
        assert [row.values[GPU_MEMORY_USED] for row in log.rows] == [5_120 * MIB, 6_000 * MIB]
        assert log.rows[0].values[GPU_MEMORY_TOTAL] == 15_358 * MIB, "parts of one time are one total"
        assert log.notes == ()


def test_what_a_card_has_several_of_is_read_by_part(tmp_path: Path) -> None:
    text = page("GPU-1", DCGM_FI_DEV_POWER_VIOLATION=2_500_000_000, DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS=3)

    (row,) = _open(tmp_path, text, LogOptions(start_us=START_US)).rows

    assert row.parts == {GPU_THROTTLE: {"sw_power_cap": Fraction(5, 2)}, GPU_REMAPPED_ROWS: {"correctable": 3}}


def test_options_that_did_not_count_are_told(tmp_path: Path) -> None:
    log = _open(tmp_path, _stamped(page("GPU-1"), 1_790_000_000_000))

    assert log.notes == ("its lines have times of their own, --start and --step did not count",)


def test_a_line_without_a_time_among_others_is_refused(tmp_path: Path) -> None:
    log = _open(tmp_path, f"{line(TEMP, 40)} 1790000000000\n{line(USED, 5)}\n", LogOptions())

    assert [dict(row.values) for row in log.rows] == [{GPU_TEMPERATURE: 40}]
    assert log.refused == (RefusedRow(2, f"{USED}: no time, where other lines have one"),)


def test_a_time_that_is_none_of_this_century_is_refused_with_its_line(tmp_path: Path) -> None:
    log = _open(tmp_path, f"{line(TEMP, 40)} -1000\n{line(TEMP, 41)} 1790000000000\n", LogOptions())

    assert [row.values[GPU_TEMPERATURE] for row in log.rows] == [41]
    assert log.refused == (
        RefusedRow(1, f"{TEMP}: its time '-1000' is in this century neither as milliseconds nor as seconds"),
    )


def test_words_where_a_number_belongs_are_refused_rows_by_their_lines(tmp_path: Path) -> None:
    log = _open(tmp_path, f"{line(TEMP, 40)}\n{line(USED, 'ERROR - FAILED TO CONVERT TO STRING')}\n$ exit\n")

    assert [row.line for row in log.refused] == [2, 3]
    assert dict(log.rows[0].values) == {GPU_TEMPERATURE: 40}


def test_a_page_in_utf_16_and_one_behind_a_terminals_words_are_known(tmp_path: Path) -> None:
    path = tmp_path / "pages.txt"
    path.write_bytes(f"$ curl -s localhost:9400/metrics\r\n{line(TEMP, 40)}\r\n".encode("utf-16"))

    log = open_log(path, LogOptions(start_us=START_US))

    assert [(row.line, dict(row.values)) for row in log.rows] == [(2, {GPU_TEMPERATURE: 40})]


def test_a_page_without_a_card_holds_no_reading(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no reading"):
        _open(tmp_path, line("DCGM_EXP_XID_ERRORS_COUNT", 1))


@pytest.mark.skipif(not REAL_PAGES, reason="shared data is not beside the checkout")
@pytest.mark.parametrize("name", sorted(REAL_PAGES))
def test_a_real_page_is_one_page(name: str) -> None:
    path = REAL_PAGES[name]
    if name == "xid-count-window":
        with pytest.raises(InputError, match="holds no reading"):
            open_log(path, LogOptions(start_us=START_US))
        return
    with pytest.raises(InputError, match="its page has no times; give --start"):
        open_log(path, LogOptions())

    log = open_log(path, LogOptions(start_us=START_US))

    found = read_page(path.read_text("utf-8"))
    told = [each for card in found.cards for each in (card.itself, *card.instances) if each.values]
    assert [dict(row.values) for row in log.rows] == [dict(each.values) for each in told]
    assert {row.time_us for row in log.rows} == {START_US}
    assert log.refused == found.refused


@pytest.mark.skipif(not REAL_PAGES, reason="shared data is not beside the checkout")
def test_a_real_page_saved_again_and_again_is_as_many_pages(tmp_path: Path) -> None:
    """One of a card in MIG mode that stands apart from its instances, one without a comment, one with all of them."""
    for name in ("a100-mig-plus-parent-2021", "t4_loaded_real", "l4-full-driver580"):
        once = open_log(REAL_PAGES[name], LogOptions(start_us=START_US)).rows
        log = _open(tmp_path, f"{REAL_PAGES[name].read_text('utf-8').rstrip()}\n" * 3)
        assert len(log.rows) == 3 * len(once)
        assert [row.time_us - START_US for row in log.rows[:: len(once)]] == [0, SECOND_US, 2 * SECOND_US]
        assert GPU_GR_ACTIVE in log.rows[-1].values
