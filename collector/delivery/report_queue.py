"""Inventory reports waiting for the allocator, in the queue's file: a restart does not lose a change."""

import threading
from typing import NamedTuple

import structlog

from collector.delivery.queue_file import QueueFile

# What nobody takes must not fill the disk: far more changes than a node sees.
_KEPT_REPORTS = 1_000

log = structlog.get_logger()


class Report(NamedTuple):
    """An inventory on its way to the allocator; a repeat is one that has not changed."""

    report: int
    body: bytes
    is_repeat: bool


class ReportQueue:
    """Reports in their order; safe to use from several threads.

    They are few, so all are in memory, and the file follows: one that a full disk does not take waits all the same,
    and is on the disk with the first report that it takes again.
    """

    def __init__(self, file: QueueFile) -> None:
        """Raises QueueDamagedError."""
        self._file = file
        self._lock = threading.Lock()
        rows = file.read("SELECT report, body, is_repeat FROM reports ORDER BY report")
        self._waiting: dict[int, Report] = {row[0]: Report(row[0], row[1], bool(row[2])) for row in rows}
        self._last = next(reversed(self._waiting), 0)
        # What the file does not know yet.
        self._unsaved: dict[int, Report] = {}
        self._gone: set[int] = set()

    def put(self, body: bytes, *, is_repeat: bool) -> None:
        """Keep a report. A repeat replaces the waiting repeat: only changes and the newest matter.

        Of the changes the newest 1,000 are kept.
        """
        with self._lock:
            if is_repeat:
                for old in [each.report for each in self._waiting.values() if each.is_repeat]:
                    self._drop(old)
            self._last += 1
            self._waiting[self._last] = self._unsaved[self._last] = Report(self._last, body, is_repeat)
            if dropped := list(self._waiting)[:-_KEPT_REPORTS]:
                for old in dropped:
                    self._drop(old)
                log.warning("oldest_reports_dropped", reports=len(dropped))
            self._write()

    def first(self) -> Report | None:
        """The oldest waiting report."""
        with self._lock:
            return next(iter(self._waiting.values()), None)

    def delete(self, report: int) -> None:
        """The allocator has taken the report, or never will."""
        with self._lock:
            self._drop(report)
            self._write()

    def _drop(self, report: int) -> None:
        if self._waiting.pop(report, None) is not None and self._unsaved.pop(report, None) is None:
            self._gone.add(report)

    def _write(self) -> None:
        def change() -> None:
            self._file.executemany("DELETE FROM reports WHERE report = ?", [(each,) for each in self._gone])
            self._file.executemany("INSERT INTO reports VALUES (?, ?, ?)", self._unsaved.values())

        if self._file.write(change):
            self._gone.clear()
            self._unsaved.clear()
