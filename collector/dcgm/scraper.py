"""One dcgm-exporter over HTTP: its text as cards, asked for once per second by whichever card's thread comes first."""

import contextlib
from collections.abc import Iterator

import httpx

from collector.dcgm.cards import Scrape, scraped_cards
from collector.dcgm.fields import FIELD_OF_NAME
from collector.dcgm.once_a_second import OnceASecond
from collector.dcgm.text import dcgm_samples
from domain.clock import Clock
from domain.errors import UnavailableError
from domain.units import MIB
from domain.urls import without_credentials

# An answer counts for 0.8 s of its second; an exporter that hangs is asked again soon after.
_TIMEOUT_SECONDS = 2.0
# Less than the period at which such servers close what is idle; a connection is used every second.
_IDLE_SECONDS = 30.0
# A real text has some 300 bytes per card and field.
_BODY_BYTES_MAX = 16 * MIB
_SHOWN_CHARACTERS = 80
_NAMES = frozenset(FIELD_OF_NAME)


class DcgmScraper:
    """Scrapes over one keep-alive client; safe to use from several threads."""

    def __init__(self, url: str, clock: Clock) -> None:
        """`url` is that of the exporter (`http://127.0.0.1:9400`), of which `/metrics` is asked, or of the page itself.

        It may hold a user and password, which are not shown. `clock` measures how long an answer takes.
        """
        self._url = url if httpx.URL(url).path.strip("/") else f"{url.rstrip('/')}/metrics"
        self.shown = without_credentials(self._url)
        self._clock = clock
        limits = httpx.Limits(keepalive_expiry=_IDLE_SECONDS)
        self._client = httpx.Client(timeout=_TIMEOUT_SECONDS, trust_env=False, limits=limits)
        self._seconds = OnceASecond(lambda _: self.scrape())

    def of_second(self, second_s: int) -> Scrape:
        """The scrape of that second, the same one for all who ask; errors as of `scrape`, for all of them too."""
        return self._seconds.of_second(second_s)

    def scrape(self) -> Scrape:
        """What the exporter says now, of one card at least.

        Raises UnavailableError where it is away, hangs, answers with a failure, or tells of no card: it empties its
        list while it looks for cards anew.
        """
        with self._errors():
            text = self._text()
        scrape = scraped_cards(dcgm_samples(enumerate(text.split("\n"), start=1), _NAMES))
        if not scrape.cards:
            raise self._unusable(f"it tells of no card, and begins {' '.join(text[:_SHOWN_CHARACTERS].split())!r}")
        return scrape

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _text(self) -> str:
        until_s = self._clock.monotonic_s() + _TIMEOUT_SECONDS
        body = bytearray()
        with self._client.stream("GET", self._url) as response:
            if response.status_code != httpx.codes.OK:
                raise self._unusable(f"it answers {response.status_code}")
            for part in response.iter_bytes():
                body += part
                if len(body) > _BODY_BYTES_MAX:
                    raise self._unusable(f"it answers with more than {_BODY_BYTES_MAX} bytes")
                # The client's own limit is for each part of the answer.
                if self._clock.monotonic_s() > until_s:
                    raise self._unusable(f"its answer is not complete after {_TIMEOUT_SECONDS:.0f} s")
        # A byte of another encoding spoils its label, not the scrape.
        return body.decode("utf-8", "replace")

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.RequestError as error:
            raise self._unusable(str(error) or type(error).__name__) from error

    def _unusable(self, reason: str) -> UnavailableError:
        return UnavailableError(
            f"cannot read the cards from {self.shown!r}: {reason}; start dcgm-exporter there, or see its log"
        )
