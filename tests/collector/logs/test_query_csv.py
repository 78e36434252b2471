"""Logs of nvidia-smi's query, dress by dress."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.logs.log import Log, LogOptions, RefusedRow
from collector.logs.log_text import LogText
from collector.logs.open_log import open_log
from collector.logs.query_csv import read_query_csv
from domain.errors import InputError
from domain.series import GPU_BUSY, GPU_MEMORY_TOTAL, GPU_MEMORY_USED, GPU_POWER, GPU_SM_CLOCK, GPU_TEMPERATURE
from domain.units import MIB
from tests.collector.logs.conftest import ReadLog

SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "data" / "samples" / "query-gpu"
HEADER = "timestamp, index, utilization.gpu [%], memory.used [MiB]"
NEW_YEAR_US = 1_735_689_600 * 10**6


def row(second: int, index: int = 0, busy: str = "50 %", used: str = "1024 MiB") -> str:
    return f"2025/01/01 00:00:{second:02}.000, {index}, {busy}, {used}"


def seconds(log: Log) -> list[float]:
    return [(each.time_us - NEW_YEAR_US) / 10**6 for each in log.rows]


def test_a_row_is_a_reading_of_its_card(read_log: ReadLog) -> None:
    log = read_log(HEADER, row(0, 1))
    (read,) = log.rows
    assert (read.line, read.time_us, read.card.index) == (2, NEW_YEAR_US, "1")
    assert read.values == {GPU_BUSY: Fraction(1, 2), GPU_MEMORY_USED: 1024 * MIB}
    assert (log.refused, log.notes) == ((), ())


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("2025/01/01 00:00:01.000, 0, 50 %", "it has 3 cells of 4"),
        ("2025/01/01 00:00:01.000, 0, 50 %, ", "its cell of 'memory.used [MiB]' is empty"),
        ("2025/01/01 00:00:01.000, 0, , 7 MiB", "its cell of 'utilization.gpu [%]' is empty"),
        ("2025/01/01 00:00:01.000, 0, 50 %, 7 MiB, 8", "it has 5 cells where 4 are expected"),
        ("2025/01/01 00:00:01.000, 0, 50 %, 7 MiB" + HEADER, "it has 7 cells where 4 are expected"),
        ("2025/01/01 00:00:01.000, 0, 150 %, 7 MiB", "no card can have the ratio '150 %' in 'utilization.gpu [%]'"),
        ("2025/01/01 00:00:01.000, zero, 50 %, 7 MiB", "cannot read 'zero' as the index of a card"),
        ("2025/01/01 00:00:01.000, [N/A], 50 %, 7 MiB", "cannot read '[N/A]' as the index of a card"),
        ("[N/A], 0, 50 %, 7 MiB", "cannot read '[N/A]' as a time"),
        ("Terminated", "it has 1 cells of 4"),
    ],
)
def test_a_bad_row_is_refused_whole_with_its_line_and_reason(read_log: ReadLog, bad: str, reason: str) -> None:
    log = read_log(HEADER, row(0), bad, row(2))
    assert log.refused == (RefusedRow(3, reason),)
    assert seconds(log) == [0, 2]


def test_headers_are_not_refused_and_blank_lines_are_no_rows_but_all_lines_count(read_log: ReadLog) -> None:
    log = read_log(HEADER, row(0), "", HEADER, row(1), HEADER)
    assert [each.line for each in log.rows] == [2, 5]
    assert log.refused == ()


def test_what_a_card_cannot_tell_is_missing_and_the_row_stands(read_log: ReadLog) -> None:
    log = read_log(HEADER, row(0, busy="[N/A]"), row(1, used="[Not Supported]"), row(2))
    assert [set(each.values) for each in log.rows] == [
        {GPU_MEMORY_USED},
        {GPU_BUSY},
        {GPU_BUSY, GPU_MEMORY_USED},
    ]
    assert log.refused == ()


def test_another_header_holds_from_there_on(read_log: ReadLog) -> None:
    log = read_log(HEADER, row(0), "index, timestamp, power.draw [W]", "0, 2025/01/01 00:00:01, 70.5 W")
    assert seconds(log) == [0, 1]
    assert log.rows[1].values == {GPU_POWER: Fraction(141, 2)}


def test_what_stands_above_the_header_is_refused(read_log: ReadLog) -> None:
    log = read_log("$ nvidia-smi --query-gpu=timestamp,index -l 1", HEADER, row(0))
    assert log.refused == (RefusedRow(1, "it stands above the header"),)
    assert seconds(log) == [0]


@pytest.mark.parametrize(("separator", "name"), [("; ", "semicolons"), ("\t", "tabs")])
@pytest.mark.parametrize("columns", [None, ("timestamp", "-", "-", "memory.used")])
def test_cells_that_are_not_apart_by_commas_are_refused(
    read_log: ReadLog, separator: str, name: str, columns: tuple[str, ...] | None
) -> None:
    """With decimal commas its rows have as many cells as somebody likes to name, and none is what it seems."""
    rows = [f"2026/01/01 00:00:0{second},000{separator}0{separator}50,5 %{separator}1.024,0 MiB" for second in range(5)]
    with pytest.raises(InputError, match=f"its cells are apart by {name}; save it with commas, and with points"):
        read_log(HEADER.replace(", ", separator), *rows, columns=columns)


def test_words_with_semicolons_above_a_header_with_commas_are_no_header(read_log: ReadLog) -> None:
    assert seconds(read_log("timestamp; utilization.gpu", HEADER, row(0))) == [0]


def test_of_columns_with_one_name_the_first_counts_and_that_is_told(read_log: ReadLog) -> None:
    header = "timestamp, utilization.gpu [%], utilization.gpu [%]"
    log = read_log(header, "2025/01/01 00:00:00, 5 %, 90 %", header, "2025/01/01 00:00:01, 5 %, 90 %")
    assert [each.values[GPU_BUSY] for each in log.rows] == [Fraction(1, 20)] * 2
    assert log.notes == ("several of its columns are called 'utilization.gpu [%]': the first counts",)


def test_more_memory_in_use_than_there_is_is_no_reading(read_log: ReadLog) -> None:
    header = "timestamp, memory.used [MiB], memory.total [MiB]"
    log = read_log(header, "2025/01/01 00:00:00, 9 MiB, 8 MiB", "2025/01/01 00:00:01, 8 MiB, 8 MiB")
    assert log.refused == (RefusedRow(2, "more memory is in use than the card has"),)


def test_a_line_end_in_a_quoted_cell_does_not_break_the_count(read_log: ReadLog) -> None:
    log = read_log(
        "timestamp,process_name,utilization.gpu [%]",
        '2025/01/01 00:00:00,"python\ntrain.py",5 %',
        "2025/01/01 00:00:01,python,x",
        "2025/01/01 00:00:02,python,7 %",
    )
    assert [each.line for each in log.rows] == [2, 5]
    assert [refused.line for refused in log.refused] == [4]


def test_cards_are_told_apart_by_uuid_or_bus_where_there_is_no_index(read_log: ReadLog) -> None:
    uuids = ("GPU-aaaaaaaa-0000-0000-0000-000000000000", "GPU-bbbbbbbb-0000-0000-0000-000000000000")
    log = read_log("timestamp, uuid, memory.used [MiB]", *(f"2025/01/01 00:00:00, {uuid}, 7 MiB" for uuid in uuids))
    assert [(each.card.index, each.card.gpu_uuid) for each in log.rows] == [(None, uuid) for uuid in uuids]
    buses = ("00000000:01:00.0", "00000000:02:00.0")
    log = read_log("timestamp, pci.bus_id, memory.used", *(f"2025/01/01 00:00:00, {bus}, 7" for bus in buses))
    assert [each.card.index for each in log.rows] == [*buses]


def test_a_column_called_gpu_is_an_index_only_if_its_cells_are_whole_numbers(read_log: ReadLog) -> None:
    log = read_log("Time,GPU,Util (%)", "2025/01/01 00:00:00,Tesla T4,5", "2025/01/01 00:00:01,Tesla T4,6")
    assert {(each.card.index, each.card.model) for each in log.rows} == {("0", "Tesla T4")}
    log = read_log("Time,GPU,Util (%)", "2025/01/01 00:00:00,1,5", "2025/01/01 00:00:00,02,6")
    assert [each.card.index for each in log.rows] == ["1", "2"]


def test_rows_of_several_cards_without_an_index_are_asked_for(read_log: ReadLog) -> None:
    rows = [f"2025/01/01 00:00:{tick:02}.00{card}, {card * 10} %" for tick in range(0, 20, 2) for card in range(4)]
    with pytest.raises(InputError, match=r"it has 4 rows at a time .* say --gpus 4, or --gpus 1 for a single card"):
        read_log("timestamp, utilization.gpu [%]", *rows)
    log = read_log("timestamp, utilization.gpu [%]", *rows, gpus=4)
    assert {each.card.index: each.values[GPU_BUSY] for each in log.rows} == {
        str(card): Fraction(card, 10) for card in range(4)
    }
    assert {each.card.index for each in read_log("timestamp, utilization.gpu [%]", *rows, gpus=1).rows} == {"0"}


def test_a_tick_that_lacks_a_row_is_refused_where_order_is_the_only_identity(read_log: ReadLog) -> None:
    rows = [f"2025/01/01 00:00:{tick:02}.00{card}, {card * 10} %" for tick in range(0, 20, 2) for card in range(4)]
    rows[5] = "2025/01/01 00:00:02.001, x"
    del rows[13]
    log = read_log("timestamp, utilization.gpu [%]", *rows, gpus=4)
    assert [refused.line for refused in log.refused] == [7, 14, 15, 16]
    assert log.refused[1].reason == "fewer than 4 rows came with it: it cannot be told of which card it is"
    assert all(each.values[GPU_BUSY] == Fraction(int(each.card.index or ""), 10) for each in log.rows)


def test_a_log_without_times_is_asked_for_when_it_began_and_its_step(read_log: ReadLog) -> None:
    lines = ("utilization.gpu [%]", "85 %", "utilization.gpu [%]", "x", "100 %")
    for options in ({}, {"start_us": NEW_YEAR_US}):
        with pytest.raises(InputError, match=r"it has no times; say when it began with --start, .* with --step"):
            read_log(*lines, **options)
    log = read_log(*lines, start_us=NEW_YEAR_US, step_us=500_000)
    # The refused row took its turn.
    assert seconds(log) == [0, 1]
    assert [each.line for each in log.rows] == [2, 5]


def test_cards_of_a_log_without_times_share_their_steps(read_log: ReadLog) -> None:
    lines = ("index, utilization.gpu", "0, 1", "1, 2", "0, 3", "1, 4")
    log = read_log(*lines, start_us=NEW_YEAR_US, step_us=10**6)
    assert [(each.card.index, second) for each, second in zip(log.rows, seconds(log), strict=True)] == [
        ("0", 0),
        ("1", 0),
        ("0", 1),
        ("1", 1),
    ]
    log = read_log("utilization.gpu", "1", "2", "3", "4", start_us=NEW_YEAR_US, step_us=10**6, gpus=2)
    assert [each.card.index for each in log.rows] == ["0", "1", "0", "1"]
    assert seconds(log) == [0, 0, 1, 1]


def test_relative_times_are_asked_for_when_they_began(read_log: ReadLog) -> None:
    lines = ("Relative_Time_s,GPU_Utilization_%", "0.0,3", "0.277,2")
    with pytest.raises(InputError, match=r"its times count from its beginning; say when it began with --start"):
        read_log(*lines)
    assert seconds(read_log(*lines, start_us=NEW_YEAR_US)) == [0, 0.277]


def test_an_epoch_time_that_was_cut_is_one_refused_row(read_log: ReadLog) -> None:
    log = read_log("timestamp,utilization.gpu", "1764189075,5", "17641,5", "1764189135,5")
    assert [refused.line for refused in log.refused] == [3]


def test_a_log_without_a_header_is_asked_for_its_columns(read_log: ReadLog) -> None:
    for line, remedy in (
        ("2 %, 588 MiB", "--columns utilization.gpu,memory.used, and its times with --start and --step"),
        ("2025/01/01 00:00:00, 0, 5 %, 7 MiB", "--columns timestamp,index,utilization.gpu,memory.used$"),
        ("2025/01/01 00:00:00, 5 %, 6 %, 7 MiB", "--columns timestamp,utilization.gpu,-,memory.used$"),
        ("2025/01/01 00:00:00, 7 MiB, 8 MiB", "--columns timestamp,memory.used,memory.total$"),
        ("2025/01/01 00:00:00, 5, 7", "--columns timestamp,index,utilization.gpu,memory.used$"),
    ):
        with pytest.raises(InputError, match=f"it has no header; .*{remedy}"):
            read_log(line, line)


def test_columns_without_a_header_that_can_be_nothing_else_are_read_and_told(read_log: ReadLog) -> None:
    log = read_log("2025/01/01 00:00:00, NVIDIA RTX A6000, P2, 92 %, 25073 MiB")
    assert log.rows[0].values == {GPU_BUSY: Fraction(92, 100), GPU_MEMORY_USED: 25073 * MIB}
    assert log.rows[0].card.model == "NVIDIA RTX A6000"
    assert log.notes == (
        "it has no header and was read as timestamp,name,-,utilization.gpu,memory.used; --columns says it otherwise",
    )


def test_columns_that_a_person_names_win_over_a_header(read_log: ReadLog) -> None:
    columns = ("timestamp", "-", "index", "utilization.gpu", "memory.used")
    lines = ("zeit,wer,karte,last,speicher", "2025/01/01 00:00:00,,3,5,7")
    log = read_log(*lines, *lines, columns=columns)
    assert [(each.line, each.card.index, set(each.values)) for each in log.rows] == [
        (2, "3", {GPU_BUSY, GPU_MEMORY_USED}),
        (4, "3", {GPU_BUSY, GPU_MEMORY_USED}),
    ]
    assert log.refused == ()
    # Rows that are numbers throughout are no header.
    assert len(read_log("2025/01/01 00:00:00,5,7", columns=("timestamp", "utilization.gpu", "memory.used")).rows) == 1


def test_a_header_without_a_value_of_a_card_is_refused(read_log: ReadLog) -> None:
    with pytest.raises(InputError, match=r"no column of line 1 is a value of a card; .* name the columns"):
        read_log("timestamp, GPU0 util, GPU1 util", "2025/01/01 00:00:00, 5, 6")
    with pytest.raises(InputError, match="no column of line 1 is a value of a card"):
        read_log("timestamp, pid, process_name, used_gpu_memory [MiB]", "2025/01/01 00:00:00, 7, python, 5 MiB")


def test_a_log_of_which_nothing_can_be_used_is_refused(read_log: ReadLog) -> None:
    with pytest.raises(InputError, match=r"it holds no reading; let it run for longer"):
        read_log(HEADER)
    with pytest.raises(InputError, match=r"can be used \(2 in all\), line 2: it has 1 cells of 4; mend the rows"):
        read_log(HEADER, "x", "y")


def test_options_that_were_not_needed_are_told(read_log: ReadLog) -> None:
    log = read_log(HEADER, row(0), start_us=0, step_us=10**6, gpus=2)
    assert [note.partition(":")[0] for note in log.notes] == [
        "--step was not needed",
        "--start was not needed",
        "--gpus was not needed",
    ]


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the shared samples are not beside the checkout")
def test_every_field_that_the_program_has_can_be_in_the_log(tmp_path: Path) -> None:
    """Captures of all query fields, of cards that lack many of them, with units and without."""
    for sample in sorted(SAMPLES.iterdir()):
        header, cells = sample.read_text("utf-8").splitlines()
        bare = ", ".join(
            cell.rpartition(" ")[0] if cell.endswith((" %", "MiB", " W")) else cell for cell in cells.split(", ")
        )
        (tmp_path / "bare.csv").write_text(f"{header}\n{bare}\n", "utf-8")
        (tmp_path / "cr.csv").write_bytes(f"{header}\r\n{cells}\r\n".encode("utf-16"))
        ((read,), *others) = (
            open_log(path, LogOptions()).rows for path in (sample, tmp_path / "bare.csv", tmp_path / "cr.csv")
        )
        assert others == [(read,), (read,)]
        known = {GPU_MEMORY_USED, GPU_MEMORY_TOTAL, GPU_POWER, GPU_TEMPERATURE, GPU_SM_CLOCK}
        # A card in MIG mode cannot tell how busy it is.
        assert (GPU_BUSY in read.values) is ("-mig__" not in sample.name)
        assert known <= set(read.values)
        assert (read.card.index, bool(read.card.gpu_uuid)) == ("0", True)


@given(st.data())
def test_no_line_is_lost(data: st.DataObject) -> None:
    """Each line that is not blank is a reading, a refused row, or a header."""
    pieces = st.sampled_from(
        ["2025/01/01 00:00:00", "2025/13/01 00:00:00", "0", "5 %", "7 MiB", "", "x", "[N/A]", '"a', "\0", "99999 %"]
    )
    cells = data.draw(st.lists(st.lists(pieces, min_size=1, max_size=5), max_size=8))
    lines = [", ".join(each) for each in cells]
    text = "\n".join([HEADER, *lines, ""])
    log = read_query_csv(LogText(Path("gpu.csv"), text, lambda _done, _total: None), LogOptions(start_us=0, gpus=1))
    told = {each.line for each in log.rows} | {each.line for each in log.refused}
    assert told == {number for number, line in enumerate(lines, start=2) if line.strip()}
