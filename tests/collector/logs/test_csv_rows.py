"""CSV as rows with the line that each begins on."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from collector.logs.csv_rows import CsvRow, csv_rows
from collector.logs.log import RefusedRow
from collector.logs.log_text import LogText


def rows(text: str) -> list[CsvRow | RefusedRow]:
    return list(csv_rows(LogText(Path("gpu.csv"), text, lambda _done, _total: None)))


def test_blanks_around_cells_are_no_part_of_them_and_blank_lines_are_no_rows() -> None:
    assert rows(" a , b\n\n  \nc,,\n") == [CsvRow(1, ("a", "b")), CsvRow(4, ("c", "", ""))]


def test_a_line_end_in_a_quoted_cell_does_not_break_the_count() -> None:
    text = 'time, process, util\n1, "python\ntrain.py, ""a""\n", 5\n2, x, 6\n'
    assert rows(text) == [
        CsvRow(1, ("time", "process", "util")),
        CsvRow(2, ("1", 'python\ntrain.py, "a"', "5")),
        CsvRow(5, ("2", "x", "6")),
    ]


def test_a_quote_that_is_never_closed_costs_its_own_row_only() -> None:
    more = [f"{number}, b" for number in range(50)]
    found = rows("\n".join(['1, "a', *more]))
    assert found[0] == RefusedRow(1, "a quote in it is never closed")
    assert found[1:] == [CsvRow(number + 2, (str(number), "b")) for number in range(50)]


def test_a_quote_within_a_cell_is_a_character() -> None:
    assert rows('1, 5" card, 3\n') == [CsvRow(1, ("1", '5" card', "3"))]


def test_what_is_no_csv_is_refused() -> None:
    bomb = '"' + "x" * 1_000_000 + '"'
    found = rows(f'1, "a"b, 3\n2, {bomb}, 3\n3, \0, 3\n4, 5, 6\n')
    assert [row.line for row in found if isinstance(row, RefusedRow)] == [1, 2, 3]
    assert found[-1] == CsvRow(4, ("4", "5", "6"))
    assert all(len(row.reason) < 100 for row in found if isinstance(row, RefusedRow))


def test_many_open_quotes_do_not_pile_up() -> None:
    assert [row.line for row in rows('"a,\n' * 5_001)] == list(range(1, 5_002))


@given(st.lists(st.lists(st.text('ab"\n, ', max_size=4), min_size=1, max_size=4), min_size=1, max_size=6))
def test_every_row_begins_on_the_line_it_was_written_on(cells: list[list[str]]) -> None:
    text, lines, line = "", [], 1
    for row in cells:
        written = ",".join('"' + cell.replace('"', '""') + '"' for cell in row) + "\n"
        lines.append(line)
        line += written.count("\n")
        text += written
    assert rows(text) == [
        CsvRow(number, tuple(cell.strip() for cell in row)) for number, row in zip(lines, cells, strict=True)
    ]
