"""What is on a page that AppTest has run."""

import json
from datetime import date
from typing import Any, cast

from streamlit.testing.v1 import AppTest


def words(page: AppTest) -> str:
    """All text of the page, one element a line."""
    kinds = (page.title, page.header, page.subheader, page.caption, page.markdown, page.info, page.warning, page.error)
    return "\n".join(element.value for kind in kinds for element in kind)


def figures(page: AppTest) -> list[Any]:
    """Tables, charts and downloads: whatever holds an amount."""
    return [*page.dataframe, *charts(page), *page.get("download_button"), *page.subheader]


def charts(page: AppTest) -> list[Any]:
    """Each chart as Plotly gets it."""
    return [json.loads(chart.proto.spec) for chart in page.get("plotly_chart")]


def table(page: AppTest, number: int = 0) -> list[dict[str, Any]]:
    """A table's rows: the billing day, the sum, and groups by their number; amounts are decimals, None where empty."""
    rows = page.dataframe[number].value.to_dict("records")
    return [{name: None if value != value else value for name, value in row.items()} for row in rows]


def days(page: AppTest) -> tuple[date, date]:
    """The first and last day that the page is of."""
    first, last = cast("tuple[date, date]", page.date_input[0].value)
    return first, last
