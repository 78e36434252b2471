"""Saved pages of dcgm-exporter, one after another in a file, as a log.

A page has no time of its own, unless whoever saved it wrote times into its lines, as a time-series database does when
it gives them away. A page ends where its first line comes again.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from collector.dcgm.cards import ScrapedCard, scraped_cards
from collector.dcgm.fields import FIELD_OF_NAME
from collector.dcgm.text import DcgmSample, dcgm_samples
from collector.logs.log import Log, LogCard, LogOptions, LogRow, RefusedRow
from collector.logs.log_text import LogText
from collector.logs.scrape_times import ScrapeTimes
from domain.errors import InputError

_NAMES = frozenset(FIELD_OF_NAME)
_LINE = re.compile(r"(?:# (?:HELP|TYPE) )?dcgm_\w+[ {\t]", re.IGNORECASE)
# Before it there may be comments, and what a terminal showed of the command.
_LOOKED_AT_LINES = 20


def is_dcgm_scrapes(text: LogText) -> bool:
    """Whether one of the first lines is a field of DCGM."""
    return any(_LINE.match(line) for line in text.first_lines(_LOOKED_AT_LINES))


def read_dcgm_scrapes(text: LogText, options: LogOptions) -> Log:
    """A row for each card and MIG instance of each page, at the instant of the page.

    Lines with times of their own make a page per instant. Else the first page is of `options.start_us`, and each that
    follows `options.step_us` later. Raises InputError where these are needed and not said, and where some of the
    lines have times and others have none, but for the last one, which may be cut.
    """
    times = ScrapeTimes()
    pages = [list(dcgm_samples(page, _NAMES)) for page in _pages(times.without_times(text.lines()))]
    samples = [sample for page in pages for sample in page]
    if any(sample.line in times.written for sample in samples):
        return _by_instant(text, samples, times, options)
    if samples:
        _refuse_unknown_times(text, options, len(pages))
    start_us, step_us = options.start_us or 0, options.step_us or 0
    return _log({start_us + number * step_us: page for number, page in enumerate(pages)}, ())


def _pages(lines: Iterable[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """The lines of each page: a new one begins where a comment on a field, or a series, comes again."""
    page: list[tuple[int, str]] = []
    seen: set[str] = set()
    for number, line in lines:
        head, brace, _ = line.rpartition("}")
        # A comment is all of its line; what has no labels is its name.
        series = line if line.startswith("#") else head + brace or line.partition(" ")[0]
        if series in seen and series.strip():
            yield page
            page, seen = [], set()
        page.append((number, line))
        seen.add(series)
    if page:
        yield page


def _by_instant(text: LogText, samples: Sequence[DcgmSample], times: ScrapeTimes, options: LogOptions) -> Log:
    """Each instant as a page of its own, whatever the order of the lines."""
    pages: dict[int, list[DcgmSample]] = defaultdict(list)
    refused: list[RefusedRow] = []
    for sample in samples:
        if sample.line not in times.written:
            _refuse_timeless(text, sample, samples)
            refused.append(
                RefusedRow(sample.line, sample.problem or f"{sample.name}: no time, where other lines have one")
            )
            continue
        try:
            pages[times.instant_us(sample.line)].append(sample)
        except ValueError as error:
            refused.append(RefusedRow(sample.line, f"{sample.name}: {error}"))
    given = [name for name, said in (("--start", options.start_us), ("--step", options.step_us)) if said is not None]
    notes = (f"its lines have times of their own, {' and '.join(given)} did not count",) if given else ()
    return _log(dict(sorted(pages.items())), refused, notes)


def _refuse_timeless(text: LogText, sample: DcgmSample, samples: Sequence[DcgmSample]) -> None:
    """Raise InputError for a good line without a time that is not just the last one, which was cut."""
    if sample.problem is None and sample is not samples[-1]:
        raise InputError(
            f"cannot read the log {str(text.path)!r}: line {sample.line} has no time, where other lines have one; put "
            "pages with times and pages without into files of their own"
        )


def _refuse_unknown_times(text: LogText, options: LogOptions, pages: int) -> None:
    lacking = [] if options.start_us is not None else ["--start with the instant of the first page"]
    if options.step_us is None and pages > 1:
        lacking.append("--step with the time from one to the next")
    if lacking:
        told = f"its {pages:,} pages have" if pages > 1 else "its page has"
        raise InputError(f"cannot read the log {str(text.path)!r}: {told} no times; give {' and '.join(lacking)}")


def _log(pages: Mapping[int, Iterable[DcgmSample]], refused: Iterable[RefusedRow], notes: tuple[str, ...] = ()) -> Log:
    rows: list[LogRow] = []
    all_refused = list(refused)
    for time_us, page in pages.items():
        scrape = scraped_cards(page)
        all_refused += scrape.refused
        for card in scrape.cards:
            rows += _rows(card, time_us)
    return Log(tuple(rows), tuple(sorted(all_refused)), notes)


def _rows(card: ScrapedCard, time_us: int) -> Iterator[LogRow]:
    index = None if card.index is None else str(card.index)
    for device in (card.itself, *card.instances):
        if device.values or device.parts:
            named = LogCard(index, card.gpu_uuid, device.mig_uuid, card.model, card.hostname)
            yield LogRow(device.line, time_us, named, device.values, device.parts)
