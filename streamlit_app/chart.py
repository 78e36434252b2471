"""The picture of a breakdown: a stacked bar a day. The one file that knows Plotly."""

from datetime import date

import plotly.graph_objects as go

from domain.money import NANO
from streamlit_app.amounts import shown
from streamlit_app.breakdown import Breakdown

# Told apart on white and on black, and none of them the red of an error.
_COLOURS = ("#0f9488", "#60a5fa", "#f59e0b", "#8b5cf6", "#ec4899", "#84cc16", "#0369a1", "#a16207", "#67e8f9")
GROUPS_MAX = len(_COLOURS)
_OTHERS_COLOUR = "#9ca3af"
_HEIGHT_PIXELS = 330


def spend_chart(breakdown: Breakdown, *, zone: str, draft_from: date) -> go.Figure:
    """Bars of the largest groups and of all others together; hatched from the first day that has not settled.

    `zone` names whose days they are. Heights are floats and nothing is read from them: what a bar says when it is
    pointed at is exact text.
    """
    drawn = breakdown.largest(GROUPS_MAX)
    figure = go.Figure()
    hatches = ["/" if date.fromisoformat(day) >= draft_from else "" for day in drawn.days]
    for group, colour in zip(drawn.groups, (*_COLOURS, _OTHERS_COLOUR), strict=False):
        amounts_nano = [drawn.cells_nano.get((day, group)) for day in drawn.days]
        figure.add_bar(
            name=group,
            x=drawn.days,
            y=[None if nano is None else nano / NANO for nano in amounts_nano],
            customdata=["" if nano is None else shown(nano, drawn.currency) for nano in amounts_nano],
            hovertemplate="%{customdata} " + drawn.currency,
            marker={
                "color": colour if group in breakdown.groups else _OTHERS_COLOUR,
                "pattern": {"shape": hatches, "fillmode": "replace", "solidity": 0.6},
            },
        )
    figure.update_layout(
        barmode="stack",
        bargap=0.25,
        height=_HEIGHT_PIXELS,
        margin={"l": 0, "r": 0, "t": 8, "b": 0},
        hovermode="x unified",
        # A single group has a name, too.
        showlegend=True,
        legend={"orientation": "h", "yanchor": "bottom", "y": 1.02, "xanchor": "left", "x": 0, "traceorder": "normal"},
        xaxis={
            # Days are names here: as times they would be drawn in the browser's zone, a day off for some.
            "type": "category",
            "categoryorder": "array",
            "categoryarray": drawn.days,
            "autotickangles": [0, -45, -90],
            "title": f"billing day, {zone}",
        },
        yaxis={"title": drawn.currency, "rangemode": "tozero", "tickformat": ",~f"},
    )
    return figure
