"""Sources that remember: what they still know of seconds in which no collector asked."""

from collections.abc import Iterator
from typing import NamedTuple, Protocol, runtime_checkable

import structlog

from collector.source import Source
from collector.workers import Workers
from domain.errors import UnavailableError
from domain.samples import DeviceReading

# As long as the first second after a restart may be put off for those before it.
_PATIENCE_SECONDS = 5.0

log = structlog.get_logger()


class PastSecond(NamedTuple):
    """A second in which nobody asked, and what is still known of it: readings of cards and MIG instances."""

    second_s: int
    readings: list[DeviceReading]


@runtime_checkable
class RemembersSeconds(Protocol):
    """A source that can tell of seconds in which nobody asked, up to the one that it is now."""

    def missed(self, from_s: int, until_s: int) -> Iterator[PastSecond]:
        """The seconds of [from_s, until_s) of which something is known, in rising order.

        Readings are as `Source.read` would have given them then. A second of which nothing is known is left out, and
        stays a hole. Raises UnavailableError where nothing can be asked now.
        """
        ...


def remembered(source: Source, from_s: int, until_s: int) -> list[PastSecond]:
    """As `missed_seconds`, but all at once, and nothing where the source takes longer than 5 s."""
    asking: Workers[str, range, list[PastSecond]] = Workers(
        lambda _, seconds: list(missed_seconds(source, seconds.start, seconds.stop)), "remember"
    )
    told = asking.ask_all({"missed seconds": range(from_s, until_s)}, _PATIENCE_SECONDS)
    asking.close()
    for failure in told.failures.values():
        raise failure
    if told.late:
        reason = f"the source has not answered for {_PATIENCE_SECONDS:.0f} s"
        log.warning("missed_seconds_not_told", from_s=from_s, until_s=until_s, reason=reason)
    return [second for seconds in told.answers.values() for second in seconds]


def missed_seconds(source: Source, from_s: int, until_s: int) -> Iterator[PastSecond]:
    """What the source still knows of these seconds; nothing where it remembers none, or cannot tell now: logged."""
    if not isinstance(source, RemembersSeconds):
        return
    try:
        yield from source.missed(from_s, until_s)
    except UnavailableError as error:
        log.warning("missed_seconds_not_told", from_s=from_s, until_s=until_s, reason=str(error))
