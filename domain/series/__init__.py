"""The catalogue of every series gputab writes or reads: name, unit, type, meaning, labels.

Base units, the unit in the name, ratios 0..1. No series name is written anywhere else. What a card cannot
measure is a missing series, never 0.
"""

from domain.series import card, collector, health, services
from domain.series.card import *  # noqa: F403 - the catalogue is one to those who use it
from domain.series.collector import *  # noqa: F403
from domain.series.health import *  # noqa: F403
from domain.series.series import DEVICE as DEVICE
from domain.series.series import GRANT as GRANT
from domain.series.series import OWNER as OWNER
from domain.series.series import Kind as Kind
from domain.series.series import Series as Series
from domain.series.services import *  # noqa: F403

CATALOGUE: dict[str, Series] = {
    series.name: series
    for part in (card, health, collector, services)
    for series in list(vars(part).values())
    if isinstance(series, Series)
}
