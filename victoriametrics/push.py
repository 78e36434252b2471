"""Puts samples into VictoriaMetrics and finds out whether they stayed there."""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self

from domain.clock import MICROSECONDS, Clock, SystemClock
from domain.errors import InputError, UnavailableError
from domain.period import format_instant
from domain.samples import SampleRun
from victoriametrics.connection import Connection
from victoriametrics.encode import encode
from victoriametrics.limits import LineLimits
from victoriametrics.metrics_page import MetricsPage
from victoriametrics.store_address import StoreAddress

# Below the 32 MiB that proxies before the server commonly take.
BODY_LIMIT_BYTES = 30 * 2**20
# The server's own bound where its build has no flag for it (lib/storage/storage.go).
DEFAULT_FUTURE_RETENTION = "2d"

PAGE_POLL_S = 0.1
PAGE_TIMEOUT_S = 5.0
# A smaller body takes one packet either way. Above it gzip takes a microsecond of a core for each 1.5 kB, and saves
# twelve times as much of a 1 Gbit/s line; on loopback it saves nothing.
_PACK_FROM_BYTES = 1_400
_PACK_LEVEL = 1
# What zlib calls a window of 32 kB within the frame of gzip.
_GZIP = 31
# What was pushed can be seen by then: after 3 to 4 s, or where it is the first of a series, up to 12.3 s, as measured
# of 1.112. Where new series were made it forgets what selectors have found, but only every 10 s, or a tenth later. A
# flush does not always make it do so.
VISIBLE_S = 15
# For how long what a server says of its limits is good: they move on as time does.
STATE_GOOD_S = 60


@dataclass(frozen=True, slots=True)
class ServerState:
    """What a server says of itself: when its process began, what its clock says, and what it keeps.

    All in seconds since 1970 by its own clock, `now_s` cut to whole ones. What it is sent of seconds outside `kept_s`
    or of lines above `limits` it takes and drops; what is inside `kept_s` has a minute to be sent.
    """

    started_s: int
    now_s: int
    kept_s: range
    limits: LineLimits


class Pusher:
    """Pushes bodies made by `encode` over one keep-alive client; safe to repeat, since equal samples merge."""

    def __init__(self, address: StoreAddress | str, clock: Clock | None = None) -> None:
        """`clock` is only slept on; None is the machine's."""
        self._connection = Connection(address)
        self._clock = clock or SystemClock()
        self._terms: _Terms | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def limit_answers(self, seconds: float) -> None:
        """From now on wait at most that long for an answer, as a process must that is about to end."""
        self._connection.limit_answers(seconds)

    def push(self, body: bytes, packed: bytes | None = None) -> None:
        """Send JSON lines, in several requests where they are above 30 MiB.

        They travel as gzip where that pays; `packed` is the body as gzip, where the caller has it already.

        Returns when the server has taken them, which is before a query sees them (up to 10 s, or `flush`) and
        before they are on its disk (5 s). The server takes and drops lines it cannot hold: see `dropped_rows`.

        Raises UnavailableError where it cannot take them now (push the same body again), InputError where it
        never will, BodyTooLargeError where it takes no request of that size.
        """
        for chunk in _chunks(body):
            if self._connection.is_loopback or len(chunk) < _PACK_FROM_BYTES:
                self._connection.send("/api/v1/import", "push samples", chunk)
            else:
                content = packed if packed is not None and len(chunk) == len(body) else pack(chunk)
                self._connection.send("/api/v1/import", "push samples", content, "gzip")

    def send(self, runs: Iterable[SampleRun]) -> None:
        """Encode and push; what the store could not hold is refused before anything is sent."""
        self.push(encode(runs))

    def flush(self) -> None:
        """Make everything pushed so far visible to queries. Costs the server a small part: not for each second.

        What had found no series, or fewer, may find no more of them for up to `VISIBLE_S` all the same.
        """
        self._connection.get("/internal/force_flush", "flush samples")

    def dropped_rows(self) -> dict[str, int]:
        """How many rows the server has accepted and thrown away since it started, by reason.

        The difference of two calls covers everything pushed between them, by others as well. Takes up to
        about a second: the server shows its counters with that delay, so a page made after this call is
        waited for.
        """
        first = self._page()
        deadline_s = self._clock.monotonic_s() + PAGE_TIMEOUT_S
        # Each page counts the requests for it, so no two are equal: another text is a newer page.
        while (page := self._page()).text == first.text:
            if self._clock.monotonic_s() >= deadline_s:
                raise UnavailableError(
                    f"cannot count dropped rows: the /metrics page of {page.url!r} stands still; "
                    "let 'victoriametrics_url' point at the server itself, not at a cache"
                )
            self._clock.sleep_s(PAGE_POLL_S)
        return page.dropped_rows

    def state(self) -> ServerState:
        """What the server says of itself now. Costs it some 0.3 ms of a core, and 9 kB on the way.

        Raises UnavailableError, InputError where it calls the question unusable.
        """
        response = self._connection.get("/metrics", "read what the server says of itself")
        page = MetricsPage(self._connection.url, response.text)
        try:
            now_s = int(parsedate_to_datetime(response.headers["Date"]).timestamp())
        except (KeyError, ValueError) as error:
            raise UnavailableError(
                f"cannot tell the clock of VictoriaMetrics at {page.url!r}: its answer has no date; let "
                "'victoriametrics_url' point at the server itself"
            ) from error
        started_s = page.started_s
        # Flags stay as they are for as long as a process runs.
        if self._terms is None or self._terms.started_s != started_s:
            self._terms = _Terms.of(page)
        terms = self._terms
        return ServerState(started_s, now_s, terms.kept_s(now_s), terms.limits)

    def refuse_unkept(self, first_s: int, last_s: int, now_s: int) -> None:
        """Raise InputError where the server would take samples at these seconds and drop them.

        For an import to call before its first byte: the server keeps -retentionPeriod before `now_s` and two
        days (or -futureRetention) after it, and answers 204 to the rest.
        """
        page = self._page()
        kept_s = _Terms.of(page).kept_s(now_s, good_s=0)
        if first_s < kept_s.start:
            raise InputError(
                f"cannot store samples of {_show(first_s)!r}: VictoriaMetrics at {page.url!r} keeps nothing from "
                f"before {_show(kept_s.start)!r}; start it with a -retentionPeriod above "
                f"{page.flags['retentionPeriod']!r}"
            )
        if last_s >= kept_s.stop:
            raise InputError(
                f"cannot store samples of {_show(last_s)!r}: VictoriaMetrics at {page.url!r} takes nothing after "
                f"{_show(kept_s.stop - 1)!r}; check the unit and the zone of the times"
            )

    def _page(self) -> MetricsPage:
        response = self._connection.get("/metrics", "read what the server says of itself")
        return MetricsPage(self._connection.url, response.text)


@dataclass(frozen=True, slots=True)
class _Terms:
    """What the server process that began at `started_s` keeps, by its flags."""

    started_s: int
    retention_s: int
    future_s: int
    limits: LineLimits

    @classmethod
    def of(cls, page: MetricsPage) -> "_Terms":
        retention_s = int(page.duration_s("retentionPeriod"))
        future_s = int(page.duration_s("futureRetention", DEFAULT_FUTURE_RETENTION))
        return cls(page.started_s, retention_s, future_s, LineLimits.of(page.flags))

    def kept_s(self, now_s: int, good_s: int = STATE_GOOD_S) -> range:
        """Which seconds are kept from `now_s` until `good_s` later."""
        # The server's own clock is up to a second past `now_s`.
        return range(max(0, now_s + good_s + 1 - self.retention_s), now_s + self.future_s + 1)


def pack(body: bytes) -> bytes:
    """The body as gzip, at the level that costs least: text of labels and numbers shrinks twelvefold all the same."""
    packer = zlib.compressobj(_PACK_LEVEL, zlib.DEFLATED, _GZIP)
    return packer.compress(body) + packer.flush()


def _chunks(body: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(body):
        end = len(body)
        if end - start > BODY_LIMIT_BYTES:
            # Zero is "no newline there": a line longer than the limit goes whole and alone.
            end = body.rfind(b"\n", start, start + BODY_LIMIT_BYTES) + 1 or body.find(b"\n", start) + 1 or end
        yield body[start:end]
        start = end


def _show(second: int) -> str:
    try:
        return format_instant(second * MICROSECONDS)
    except OverflowError:
        return str(second)
