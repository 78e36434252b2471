"""The text of a log file: read once, decoded, and split into numbered lines."""

import codecs
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from domain.errors import InputError

# A log is read whole, and its rows take several times the room of its text.
BYTES_MAX = 2**30
_PROGRESS_LINES = 5_000
_BEGINNING_BYTES = 2**12
# Control characters: text has next to none, what is packed is full of them. NUL is what a power cut leaves in a log,
# and an escape colours what a terminal shows.
_CONTROL = re.compile(rb"[\x01-\x08\x0e-\x1a\x1c-\x1f]")
_CONTROL_PERCENT_MAX = 1
_UTF_16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}

# Told how many characters were gone through, and how many there are.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class LogText:
    """A log as text, and the path that it is called by in messages."""

    path: Path
    text: str
    on_progress: Progress

    def lines(self) -> Iterator[tuple[int, str]]:
        """Each line with its number, from 1, without its line end, which is a line feed with or without a return.

        What else Unicode ends lines with is a character of its line, as it is for whoever counts them in an editor.
        """
        for number, begin, end in self._bounds():
            if number % _PROGRESS_LINES == 0:
                self.on_progress(begin, len(self.text))
            yield number, self.text[begin:end].removesuffix("\r")
        self.on_progress(len(self.text), len(self.text))

    def first_lines(self, count: int) -> list[str]:
        """The first `count` lines that are not blank."""
        found: list[str] = []
        for _, begin, end in self._bounds():
            if len(found) == count:
                break
            if line := self.text[begin:end].strip():
                found.append(line)
        return found

    def _bounds(self) -> Iterator[tuple[int, int, int]]:
        begin = number = 0
        while begin < len(self.text):
            end = self.text.find("\n", begin)
            end = len(self.text) if end < 0 else end
            number += 1
            yield number, begin, end
            begin = end + 1


def read_log_text(path: Path, on_progress: Progress) -> LogText:
    """The text of the file, as it is now, without a byte order mark.

    UTF-16 is known by its mark; what is no UTF-8 is Latin-1. Where no line ends with a line feed, a return ends one.
    Raises InputError for what is no regular file, which is
    not opened, cannot be read, is empty or above `BYTES_MAX`, or holds no text.
    """
    try:
        found = path.stat()
        if stat.S_ISDIR(found.st_mode):
            raise InputError(f"cannot read the log {str(path)!r}: it is a folder; name the files in it")
        # A pipe would be waited for, and a device may have no end.
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"cannot read the log {str(path)!r}: it is no regular file; write it to a file first")
        if found.st_size > BYTES_MAX:
            raise InputError(
                f"cannot read the log {str(path)!r}: it has more than {BYTES_MAX:,} bytes; split it at line ends"
            )
        with path.open("rb") as file:
            content = file.read(BYTES_MAX)
    except OSError as error:
        raise InputError(f"cannot read the log {str(path)!r}: {error.strerror}; check the path") from error
    except ValueError as error:
        raise InputError(f"cannot read the log {str(path)!r}: {error}; check the path") from error
    if not content.strip():
        raise InputError(f"cannot read the log {str(path)!r}: it is empty; give one that holds readings")
    text = _decode(path, content)
    return LogText(path, text if "\n" in text else text.replace("\r", "\n"), on_progress)


def _decode(path: Path, content: bytes) -> str:
    encoding = _UTF_16.get(content[:2])
    if encoding is not None:
        # A writer that was killed may leave half of a character.
        return content[2:].decode(encoding, errors="replace")
    beginning = content[:_BEGINNING_BYTES]
    if len(_CONTROL.findall(beginning)) * 100 > len(beginning) * _CONTROL_PERCENT_MAX:
        raise InputError(
            f"cannot read the log {str(path)!r}: it holds no text; unpack it, or save the spreadsheet as CSV"
        )
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")
