"""The records of the kernel's log, each once, also over restarts of whoever reads them.

One read of /dev/kmsg is one record, `6,4711,98765432,-;text`, the second number of which counts them from the boot on
(Documentation/ABI/testing/dev-kmsg); the kernel keeps the newest. Any other file is read by lines. A place in the log
is the number of a record, or of a byte.
"""

import errno
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

# A record has no more than this (CONSOLE_EXT_LOG_MAX).
_READ_BYTES = 8_192
_RECORD = re.compile(rb"\d+,(\d+),[^;\n]*;[^\n]*")


class KernelRecords:
    """A log that is open; for one thread at a time."""

    def __init__(self, path: Path, heard_until: int | None) -> None:
        """`heard_until` is the place up to which it was heard before; None: what is in it now is not to be heard.

        Raises OSError.
        """
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        # A file may have been written in records' form, and holds several then.
        self._is_file = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        self._rest = b""
        self._end = 0
        self.heard_until = heard_until or 0
        """The place behind the last record that was heard."""
        self.lost = 0
        """How many records were overwritten before they were heard, so far."""
        if heard_until is None:
            try:
                self.skip()
            except OSError:
                self.close()
                raise

    def close(self) -> None:
        os.close(self._descriptor)

    @property
    def is_another(self) -> bool:
        """Whether this is not the log that was heard before: all of it was read, and it ends earlier."""
        return self._end < self.heard_until

    def skip(self) -> None:
        """Hear nothing of what is in it now. Raises OSError."""
        for _ in self._all():
            pass
        self.heard_until = self._end

    def unheard(self) -> Iterator[str]:
        """What is there and was not heard, which it is by now. Raises OSError."""
        for begin, text in self._all():
            if self._end > self.heard_until:
                self.lost += max(0, begin - self.heard_until)
                self.heard_until = self._end
                yield text

    def _all(self) -> Iterator[tuple[int, str]]:
        """What was not read yet, heard or not, each with the place where it begins; it ends at `_end`."""
        while (read := self._read()) is not None:
            if not self._is_file and (record := _RECORD.match(read)):
                self._end = int(record[1]) + 1
                yield self._end - 1, record[0].decode(errors="replace")
                continue
            *lines, self._rest = (self._rest + read).split(b"\n")
            for line in lines:
                begin, self._end = self._end, self._end + len(line) + 1
                yield begin, line.decode(errors="replace")

    def _read(self) -> bytes | None:
        """The next record, or a part of a file; None where there is nothing yet."""
        while True:
            try:
                return os.read(self._descriptor, _READ_BYTES) or None
            except BlockingIOError:
                return None
            except OSError as error:
                # What was next is overwritten; the next read is of what is left.
                if error.errno != errno.EPIPE:
                    raise
