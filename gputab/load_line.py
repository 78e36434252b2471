"""How busy a card was over time, as a line of characters."""

from domain.period import Period
from gputab.log_usage import CardUsage

_LEVELS = "▁▂▃▄▅▆▇█"
_UNKNOWN = "·"


def load_line(usage: CardUsage, period: Period, cells: int) -> str:
    """The period in that many equal parts, each the mean load of what is known of it; a dot where nothing is.

    Idle is the lowest block, and only a part that was busy throughout is the highest.
    """
    # In whole numbers: a microsecond is `cells` units long, and a part as many units as the period has microseconds.
    part = max(1, period.end_us - period.start_us)
    known = [0] * cells
    busy = [0.0] * cells
    for held in usage.held:
        if held.busy_ratio is None:
            continue
        begin = max(0, (held.start_us - period.start_us) * cells)
        end = min(part * cells, (held.end_us - period.start_us) * cells)
        while begin < end:
            cell = begin // part
            until = min(end, (cell + 1) * part)
            known[cell] += until - begin
            busy[cell] += (until - begin) * float(held.busy_ratio)
            begin = until
    return "".join(
        _LEVELS[int(busy[cell] / known[cell] * (len(_LEVELS) - 1))] if known[cell] else _UNKNOWN
        for cell in range(cells)
    )
