"""A log file as text: encodings, lines, and what is no text."""

import os
from pathlib import Path

import pytest

from collector.logs import log_text
from collector.logs.log_text import read_log_text
from domain.errors import InputError

TEXT = "Temp (°C), name\n45, ünder\n"


def ignore(_done: int, _total: int) -> None:
    pass


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1"])
def test_every_usual_encoding_gives_the_same_text(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "gpu.csv"
    file.write_bytes(TEXT.encode(encoding))
    assert read_log_text(file, ignore).text == TEXT


def test_utf_16_of_the_other_byte_order_is_read_too(tmp_path: Path) -> None:
    file = tmp_path / "gpu.csv"
    file.write_bytes(b"\xfe\xff" + TEXT.encode("utf-16-be"))
    assert read_log_text(file, ignore).text == TEXT


def test_half_a_character_at_the_end_loses_that_character_only(tmp_path: Path) -> None:
    file = tmp_path / "gpu.csv"
    file.write_bytes(TEXT.encode("utf-16")[:-1])
    assert read_log_text(file, ignore).text[:-1] == TEXT[:-1]


def test_lines_are_counted_as_an_editor_counts_them(tmp_path: Path) -> None:
    """A form feed, a vertical tab and the separators of Unicode and Latin-1 end no line."""
    file = tmp_path / "gpu.csv"
    file.write_bytes("a\r\n\nb\x0bc\u2028d\x85e\rf\ng".encode())
    assert list(read_log_text(file, ignore).lines()) == [(1, "a"), (2, ""), (3, "b\x0bc\u2028d\x85e\rf"), (4, "g")]


def test_a_return_alone_ends_lines_where_nothing_else_does(tmp_path: Path) -> None:
    file = tmp_path / "gpu.csv"
    file.write_bytes(b"a\rb\r\rc")
    assert list(read_log_text(file, ignore).lines()) == [(1, "a"), (2, "b"), (3, ""), (4, "c")]


def test_the_first_lines_are_those_that_say_something(tmp_path: Path) -> None:
    file = tmp_path / "gpu.csv"
    file.write_text("\n  \na \n\nb\nc\n")
    assert read_log_text(file, ignore).first_lines(2) == ["a", "b"]


def test_progress_is_told_every_5_000_lines_and_ends_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "gpu.csv"
    file.write_text("aa\n" * 12_000)
    seen: list[tuple[int, int]] = []
    list(read_log_text(file, lambda done, total: seen.append((done, total))).lines())
    assert seen == [(3 * 4_999, 36_000), (3 * 9_999, 36_000), (36_000, 36_000)]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "it is empty; give one that holds readings"),
        (b" \n\r\n\t", "it is empty"),
        (b"PK\x03\x04\x14\x00\x06\x00\x08\x00\x00\x00!\x00", "it holds no text; unpack it, or save the spreadsheet"),
        (b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03", "it holds no text"),
        (b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00\x3e\x00\x01\x02\x03\x04", "it holds no text"),
    ],
)
def test_what_holds_no_text_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "gpu.csv"
    file.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_log_text(file, ignore)


def test_what_is_no_file_is_refused_without_opening_it(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for path, reason in (
        (tmp_path, "it is a folder; name the files in it"),
        (pipe, "it is no regular file; write it to a file first"),
        (Path("/dev/zero"), "it is no regular file"),
        (tmp_path / "missing.csv", "No such file or directory; check the path"),
        (tmp_path / "loop", "check the path"),
        (tmp_path / ("x" * 300), "File name too long; check the path"),
        (Path("a\0b"), "check the path"),
    ):
        with pytest.raises(InputError, match=reason) as refused:
            read_log_text(path, ignore)
        assert str(refused.value).startswith(f"cannot read the log {str(path)!r}: ")


def test_what_would_not_fit_in_memory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "gpu.csv"
    with file.open("wb") as sparse:
        sparse.truncate(log_text.BYTES_MAX + 1)
    with pytest.raises(InputError, match="split it at line ends"):
        read_log_text(file, ignore)
