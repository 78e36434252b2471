"""The panels on grants and money: what is held of what there is, and what it costs."""

from typing import Any

from dashboards.panel_kinds import StackedSeries, Stat, TimeSeries
from dashboards.panels import Field, Query
from dashboards.queries import (
    CARD,
    METER_NOW,
    NODE,
    NOW,
    ON_A_CARD,
    TENANT,
    expected,
    last,
    up,
)
from domain.series import (
    GPU_INFO,
    GPU_MEMORY_USED,
    GRANT_COMPUTE,
    GRANT_VRAM,
    METER_SPEND_RATE,
    Series,
)
from domain.watermarks import usable_bytes

_NO_GRANT = "no grant published"
_NO_GRANTS = "No grant and no card in this time. Is the allocator running?"
_NO_SPENDING = "Nothing is being spent, or the meter does not run (gputab meter run --follow)."
# The allocator publishes every 5 s.
_GRANT_STEP = "10s"


def granted_share(number: int, at: tuple[int, int, int, int]) -> Stat:
    """How much of the expected cards is granted."""
    return Stat(
        number,
        "Granted",
        "Compute that the chosen tenants hold, of all expected cards of the chosen nodes; capacity that is held "
        "without being billed is not in it. Nothing published is not 0: no grant is open, or the allocator does not "
        "reach the store.",
        at,
        [Query(f"sum({_on_nodes(GRANT_COMPUTE, expected())}) / count({expected()})", instant=True)],
        Field(_NO_GRANT, unit="percentunit", decimals=0),
    )


def spend_rate(number: int, at: tuple[int, int, int, int]) -> Stat:
    """What the chosen tenants spend, one number a currency."""
    return Stat(
        number,
        "Spend per hour",
        "What the chosen tenants spend an hour, at the rate of the hour that runs; a number for each currency, since "
        "currencies are not added up. An estimate: the ledger is what is billed.",
        at,
        [
            Query(
                f"sum by (currency) ({last(METER_SPEND_RATE, TENANT, METER_NOW)})", legend="{{currency}}", instant=True
            )
        ],
        Field("nothing rated", unit="locale", decimals=2),
    )


def compute(number: int, at: tuple[int, int, int, int]) -> StackedSeries:
    """Granted compute by tenant, under the cards there are."""
    there = f"count(group by (gpu_uuid) ({_seen()}))"
    return StackedSeries(
        number,
        "Compute granted, in cards",
        "What each tenant holds at each moment, in whole cards, on top of one another; the dashed lines are the cards "
        "that there are, as described in the day before, and those that are up. Above the first something is granted "
        "twice: tell the allocator's owner. Above the second a card that is granted does not answer.",
        at,
        [
            Query(f"sum by (tenant) ({_on_nodes(GRANT_COMPUTE, _seen())})", legend="{{tenant}}", min_step=_GRANT_STEP),
            Query(there, legend="cards there are", min_step=_GRANT_STEP),
            Query(f"sum({up()} == bool 1)", legend="cards up", min_step=_GRANT_STEP),
        ],
        Field(_NO_GRANTS, decimals=2, least=0, color_mode="palette-classic"),
        overrides=[_line("B"), _line("C")],
    )


def vram(number: int, at: tuple[int, int, int, int]) -> TimeSeries:
    """Granted, used and usable VRAM."""
    return TimeSeries(
        number,
        "VRAM granted, used and usable",
        "Granted to the chosen tenants; used by anybody and usable, on the cards of the chosen nodes that report. Used "
        "above granted, with all tenants chosen, is work outside of a grant, or a tenant above its own: the table of "
        "the fullest cards says where.",
        at,
        [
            Query(f"sum({_on_nodes(GRANT_VRAM, _seen())})", legend="granted", min_step=_GRANT_STEP),
            Query(f"sum({last(GPU_MEMORY_USED, CARD)})", legend="used", min_step=_GRANT_STEP),
            Query(f"sum({usable_bytes(CARD, NOW)})", legend="usable", min_step=_GRANT_STEP),
        ],
        Field(_NO_GRANTS, unit="bytes", decimals=1, least=0, color_mode="palette-classic"),
    )


def spending(number: int, at: tuple[int, int, int, int]) -> TimeSeries:
    """The spend rate of each tenant."""
    rate = f"sum by (tenant, currency) ({last(METER_SPEND_RATE, TENANT, METER_NOW)})"
    return TimeSeries(
        number,
        "Spend per hour by tenant",
        "What each chosen tenant spends an hour, at the rate of the hour that runs. For what was spent in a day or "
        "month ask the ledger: a sum over this picture would not be a bill.",
        at,
        [Query(rate, legend="{{tenant}}, {{currency}}", min_step=_GRANT_STEP)],
        Field(_NO_SPENDING, unit="locale", decimals=2, least=0, color_mode="palette-classic"),
    )


def _on_nodes(series: Series, known: str) -> str:
    """What tenants hold on the `known` cards: a grant does not say on which node it is."""
    return f"{last(series, f'{ON_A_CARD},{TENANT}')} and on (gpu_uuid) {known}"


def _seen() -> str:
    """The cards that described themselves in the day before each moment, not before the end of the range."""
    return last(GPU_INFO, NODE, "1d")


def _line(ref_id: str) -> dict[str, Any]:
    return {
        "matcher": {"id": "byFrameRefID", "options": ref_id},
        "properties": [
            {"id": "custom.stacking", "value": {"group": "A", "mode": "none"}},
            {"id": "custom.fillOpacity", "value": 0},
            {"id": "custom.lineStyle", "value": {"fill": "dash", "dash": [6, 4]}},
        ],
    }
