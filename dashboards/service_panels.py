"""The panels on gputab itself: how far the meter is, what it cannot account for, and how the collectors are."""

from dashboards.panel_kinds import Column, Table, TimeSeries
from dashboards.panels import Field, Query, Step
from dashboards.queries import METER_NOW, NODE, last, of
from domain.series import (
    COLLECTOR_CLOCK_SKEW,
    COLLECTOR_COMPLETE_UNTIL,
    COLLECTOR_GARBAGE,
    COLLECTOR_HOLES,
    COLLECTOR_LATENESS,
    COLLECTOR_MISSED,
    COLLECTOR_QUEUED,
    COLLECTOR_REFUSED,
    METER_LAG,
    METER_OLDEST_OPEN,
    METER_RESIDUAL_COMPUTE,
    METER_RESIDUAL_VRAM,
    METER_UNPRICED,
    Series,
)

_NO_METER = "The meter has published nothing in this time. Is it running (gputab meter run --follow)?"
_NO_COLLECTOR = "No collector has published anything in this time. Is one running on the chosen nodes?"
_DAY = "1d"
_ANY = (Step(None, "text"), Step(1, "red"))
# While a collector stands by, another tells of the node.
_NOT_STANDING_BY = f'{NODE},reason!="stood_by"'


def meter_lag(number: int, at: tuple[int, int, int, int]) -> TimeSeries:
    """How old the last rated second is."""
    return TimeSeries(
        number,
        "Meter lag",
        "Age of the last second that the meter has rated, by node. It grows while a node delivers nothing, or while "
        "the meter is slower than time. A line that ends: the meter is down, or nothing is due for the node.",
        at,
        [Query(last(METER_LAG, NODE, METER_NOW), legend="{{node}}", min_step="5s")],
        Field(_NO_METER, unit="s", decimals=1, least=0, color_mode="palette-classic"),
    )


def accounts(number: int, at: tuple[int, int, int, int]) -> Table:
    """What the meter cannot account for or price."""
    series = (METER_RESIDUAL_COMPUTE, METER_RESIDUAL_VRAM, METER_UNPRICED)
    found = [f"sum by (node) ({last(each, NODE, METER_NOW)})" for each in series]
    wrong = Field("", unit="short", decimals=0, steps=(Step(None, "red"), Step(0, "text"), Step(1, "red")))
    return Table(
        number,
        "Accounts of the meter",
        "The first two must be 0: capacity of the last rated window that is in none of the states granted, held, "
        "idle, stranded, drained, lost and reserved, or in two. Unpriced seconds block the close of their window: add "
        "a rate to the price book.",
        at,
        [*found, f"sum by (node) ({last(METER_OLDEST_OPEN, NODE, METER_NOW)}) * 1000"],
        [
            Column("node", "Node"),
            Column("Value #A", "Compute unaccounted for, unit-seconds", wrong),
            Column("Value #B", "VRAM unaccounted for, byte-seconds", wrong),
            Column("Value #C", "Unpriced seconds", Field("", unit="short", decimals=0, steps=_ANY)),
            Column("Value #D", "Oldest open window", Field("", unit="dateTimeFromNow")),
        ],
        _NO_METER,
    )


def delivery(number: int, at: tuple[int, int, int, int]) -> TimeSeries:
    """How old the newest second is that is complete in the store."""
    return TimeSeries(
        number,
        "Age of the newest complete second",
        "Every second before it was delivered, or is recorded as a hole. It rises with the time when a collector is "
        "down or cannot reach the store; what it has sampled by then waits on its disk and comes later.",
        at,
        [
            Query(
                # The mark is at the end of the newest second, which may not be over.
                f"clamp_min(time() - max by (node) ({last(COLLECTOR_COMPLETE_UNTIL, NODE, _DAY)}), 0)",
                legend="{{node}}",
                min_step="5s",
            )
        ],
        Field(_NO_COLLECTOR, unit="s", decimals=0, least=0, color_mode="palette-classic"),
    )


def collectors(number: int, at: tuple[int, int, int, int]) -> Table:
    """What each collector says of itself: now, and in the range."""
    lateness = f"max by (node) (max_over_time({of(COLLECTOR_LATENESS, NODE)}[$__range]))"
    count = Field("", unit="short", decimals=0, steps=_ANY)
    return Table(
        number,
        "Collectors",
        "Counts are of the whole range. Holes: seconds that a collector has not, but for those that it stood by. "
        "Missed reads: seconds in which one card gave no answer in time: look at that card. Refused: seconds that the "
        "store would not keep, set aside on the node's disk. Garbage: readings that no card can have. A clock 2 s off "
        "keeps windows from settling.",
        at,
        [
            _increase(COLLECTOR_HOLES, _NOT_STANDING_BY),
            _counted(COLLECTOR_MISSED),
            _increase(COLLECTOR_REFUSED),
            _counted(COLLECTOR_GARBAGE),
            f"max by (node) ({last(COLLECTOR_QUEUED, NODE)})",
            lateness,
            f"max by (node) ({last(COLLECTOR_CLOCK_SKEW, NODE)})",
        ],
        [
            Column("node", "Node"),
            Column("Value #A", "Holes", count),
            Column("Value #B", "Missed reads", count),
            Column("Value #C", "Refused", count),
            Column("Value #D", "Garbage", count),
            Column("Value #E", "Seconds waiting", Field("", unit="short", decimals=0)),
            Column("Value #F", "Latest tick", Field("", unit="s", decimals=3)),
            Column("Value #G", "Clock skew", Field("", unit="s", decimals=3)),
        ],
        _NO_COLLECTOR,
    )


def _increase(series: Series, selector: str = NODE) -> str:
    return f"sum by (node) (increase({of(series, selector)}[$__range]))"


def _counted(series: Series) -> str:
    """The increase of a counter that begins with its first event: before it, a collector that is there counts 0."""
    return f"{_increase(series)} or {_increase(COLLECTOR_HOLES)} * 0"
