"""Publishes every open grant as series, every 5 s and at each change."""

import threading
from collections.abc import Callable

import structlog

from allocator.grant_series import GrantLabels, ended_runs, levels_of, open_runs
from domain.clock import MICROSECONDS
from domain.grants import Grant
from domain.period import Period
from domain.samples import SampleRun, SampleSink
from store.access import Principal
from store.capacity import load_grants
from store.database import Database, now_us

INTERVAL_S = 5
# How long before a round is due its wait for the second begins.
_ALIGNMENT_S = 0.5
# A store answers with a series' last value for five minutes after it; what ended longer ago needs no zero.
_LOOKBACK_US = 300 * MICROSECONDS
_log = structlog.get_logger(__name__)


class GrantPublisher:
    """A thread that tells the sink of every grant, of whatever source, that holds the present second.

    Stamps are whole seconds of the database's clock, and a grant is published for seconds that it holds, no
    others; the first one after it gets a zero, once. A sink that is down does no harm: it is logged once, and
    the next round says the same again.
    """

    def __init__(self, database: Database, sink: SampleSink, check_store: Callable[[], None]) -> None:
        """`check_store` raises where the store would bend samples; until it does not, none is sent."""
        self._database = database
        self._sink = sink
        self._check_store = check_store
        self._is_store_checked = False
        self._principal = Principal.local_operator()
        # What may have been published as open. None before the first round: what an earlier process published is
        # not known then, so grants that ended of late count as published.
        self._published: set[GrantLabels] | None = None
        self._failure: str | None = None
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="grant publisher", daemon=True)

    def start(self) -> None:
        """Begin publishing."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread, after the push it may be in."""
        self._stop.set()
        self._wake.set()
        self._thread.join()

    def changed(self) -> None:
        """Say that a grant began or ended: it is published with the next whole second."""
        self._wake.set()

    def publish(self) -> None:
        """One round: a sample of every series of every grant that holds the present second, and zeros."""
        self._check_once()
        with self._database.read() as connection:
            second = now_us(connection) // MICROSECONDS
            start_us = second * MICROSECONDS
            levels = levels_of(load_grants(connection, self._principal, Period(start_us, start_us + 1)))
            if self._published is None:
                recent = Period(start_us - _LOOKBACK_US, start_us)
                held = load_grants(connection, self._principal, recent)
                self._published = set(levels_of(filter(_has_end, held)))
        ended = sorted(self._published - levels.keys())
        # Before the push: one that fails half-way may have been taken all the same.
        self._published |= levels.keys()
        runs: list[SampleRun] = [run for labels, level in levels.items() for run in open_runs(labels, level, second)]
        runs += [run for labels in ended for run in ended_runs(labels, second)]
        if runs:
            self._sink.send(runs)
        self._published -= set(ended)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._wait_for_the_second()
                self.publish()
                self._recovered()
            except Exception as error:  # noqa: BLE001 - whatever went wrong, the next round must come
                self._failed(error)
            self._wake.wait(INTERVAL_S - _ALIGNMENT_S)
            self._wake.clear()

    def _wait_for_the_second(self) -> None:
        """Wait until a second begins: a grant that began within the present one does not hold it."""
        with self._database.read() as connection:
            to_next_second_us = -now_us(connection) % MICROSECONDS
        self._stop.wait(to_next_second_us / MICROSECONDS)

    def _check_once(self) -> None:
        """Check the store before the first sample goes to it."""
        if not self._is_store_checked:
            self._check_store()
            self._is_store_checked = True

    def _failed(self, error: Exception) -> None:
        """Say it once. A store that was away when we began, and answers now, may have to be refused for a reason."""
        said, self._failure = self._failure, str(error)
        if said is None or (not self._is_store_checked and said != self._failure):
            _log.warning("grants not published", error=self._failure, retried_each_s=INTERVAL_S)

    def _recovered(self) -> None:
        if self._failure is not None:
            _log.info("grants published again")
        self._failure = None


def _has_end(grant: Grant) -> bool:
    return grant.end_us is not None
