"""Times in the lines of saved pages: milliseconds of Prometheus, seconds of OpenMetrics."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.logs.log import Log, LogOptions, RefusedRow
from collector.logs.open_log import open_log
from collector.logs.scrape_times import ScrapeTimes
from domain.errors import InputError
from domain.series import GPU_MEMORY_USED, GPU_TEMPERATURE
from domain.units import MIB
from tests.collector.dcgm_pages import REAL_PAGES, line, page

TEMP, USED = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_FB_USED"
START_US = 1_790_000_000_000_000


def _open(folder: Path, text: str, options: LogOptions | None = None) -> Log:
    path = folder / "pages.prom"
    path.write_text(text, "utf-8")
    return open_log(path, options or LogOptions())


def _stamped(text: str, time: object) -> str:
    """The page with that time behind each of its values."""
    return "".join(each if each[:1] == "#" else f"{each.rstrip()} {time}\n" for each in text.splitlines(keepends=True))


@pytest.mark.parametrize(
    ("time", "after_us"),
    [
        ("1790000000000", 0),
        ("1790000000250", 250_000),
        ("1790000000", 0),
        ("1790000000.250001", 250_001),
        ("1790000000.2500019", 250_001),
        ("1.79e9", 0),
        ("1.79e+12", 0),
        ("1790000000250.5", 250_500),
    ],
)
def test_seconds_and_milliseconds_are_told_apart_by_their_size(tmp_path: Path, time: str, after_us: int) -> None:
    log = _open(tmp_path, f"{line(TEMP, 40)} {time}\n# EOF\n")

    assert [(row.time_us - START_US, dict(row.values)) for row in log.rows] == [(after_us, {GPU_TEMPERATURE: 40})]
    assert (log.refused, log.notes) == ((), ())


@pytest.mark.parametrize("time", ["0", "-1790000000", "17900", "179000000", "179000000025", "1e99x"])
def test_a_time_that_is_cut_or_of_no_kind_costs_its_line(tmp_path: Path, time: str) -> None:
    log = _open(tmp_path, f"{line(TEMP, 40)} 1790000000000\n{line(TEMP, 41)} {time}\n{line(TEMP, 42)} 1790000001000\n")

    assert [row.values[GPU_TEMPERATURE] for row in log.rows] == [40, 42]
    assert [refused.line for refused in log.refused] == [2]


def test_pages_of_open_metrics_one_after_another_need_no_start(tmp_path: Path) -> None:
    pages = [_stamped(page("GPU-1", "GPU-2", **{USED: number}), f"17900000{number:02}.5") for number in range(3)]

    log = _open(tmp_path, "".join(f"{each}# EOF\n" for each in pages))

    assert [(row.card.gpu_uuid, row.time_us - START_US, row.values[GPU_MEMORY_USED]) for row in log.rows] == [
        (gpu_uuid, number * 1_000_000 + 500_000, number * MIB) for number in range(3) for gpu_uuid in ("GPU-1", "GPU-2")
    ]


def test_lines_with_times_and_lines_without_are_not_one_log(tmp_path: Path) -> None:
    timed, bare = _stamped(page("GPU-1"), 1_790_000_000_000), page("GPU-1")

    for text, number in ((timed + bare, 33), (bare + timed, 3)):
        with pytest.raises(InputError, match=f"line {number} has no time, where other lines have one; put pages"):
            _open(tmp_path, text, LogOptions(start_us=START_US, step_us=1))


def test_a_last_line_that_was_cut_before_its_time_costs_itself_only(tmp_path: Path) -> None:
    log = _open(tmp_path, f"{line(TEMP, 40)} 1790000000000\n{line(USED, 5)}\n")

    assert [dict(row.values) for row in log.rows] == [{GPU_TEMPERATURE: 40}]
    assert log.refused == (RefusedRow(2, f"{USED}: no time, where other lines have one"),)


def test_words_where_a_number_belongs_cost_their_line_at_its_time(tmp_path: Path) -> None:
    words = line(USED, "ERROR - FAILED TO CONVERT TO STRING")

    log = _open(tmp_path, f"{line(TEMP, 40)} 1790000000000\n{words} 1790000000000\n{line(TEMP, 41)} 1790000001000\n")

    assert [row.values for row in log.rows] == [{GPU_TEMPERATURE: 40}, {GPU_TEMPERATURE: 41}]
    assert [refused.line for refused in log.refused] == [2]


def test_a_brace_and_a_number_in_a_label_are_no_time(tmp_path: Path) -> None:
    text = line(TEMP, 40, pod="a } 1790000000000")

    log = _open(tmp_path, f"{text}\n", LogOptions(start_us=START_US))

    assert [row.time_us for row in log.rows] == [START_US]


@given(
    st.sampled_from(['NAME{a="b"}', "NAME", 'NAME{a="}"}', 'NAME{a="# 1"}']),
    st.sampled_from(["0", "5.25", "NaN", "1e9", "-7"]),
    st.integers(10**15, 10**17 - 1),
    st.booleans(),
    st.sampled_from([" ", "\t", "  "]),
)
def test_a_time_is_taken_from_its_line_exactly(
    name: str, value: str, time_us: int, is_seconds: bool, blank: str
) -> None:
    digits = 6 if is_seconds else 3
    whole, part = divmod(time_us, 10**digits)
    written = f"{whole}.{part:0{digits}}"
    times = ScrapeTimes()

    ((_, bare),) = times.without_times([(7, f"{name}{blank}{value}{blank}{written} ")])

    assert bare == f"{name}{blank}{value}"
    assert times.instant_us(7) == time_us
    assert list(times.without_times([(8, bare), (9, f"# {name} 1 2")])) == [(8, bare), (9, f"# {name} 1 2")]
    assert list(times.written) == [7]


@pytest.mark.skipif(not REAL_PAGES, reason="shared data is not beside the checkout")
@pytest.mark.parametrize("name", sorted(REAL_PAGES))
@pytest.mark.parametrize("time", ["1790000000000", "1790000000.0"])
def test_a_real_page_with_times_is_what_it_is_without(tmp_path: Path, name: str, time: str) -> None:
    text = REAL_PAGES[name].read_text("utf-8")
    stamped = "".join(
        each if each.startswith("#") or not each.strip() else f"{each.rstrip()} {time}\n"
        for each in text.splitlines(keepends=True)
    )
    if name == "xid-count-window":
        with pytest.raises(InputError, match="holds no reading"):
            _open(tmp_path, stamped)
        return

    log = _open(tmp_path, stamped)

    bare = open_log(REAL_PAGES[name], LogOptions(start_us=START_US))
    assert log.rows == bare.rows
    assert [refused.line for refused in log.refused] == [refused.line for refused in bare.refused]
