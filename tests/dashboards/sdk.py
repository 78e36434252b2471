"""The official types of Grafana: what is left of a dashboard that went through them.

They never refuse: what they do not know they drop, and what is of another shape they change.
"""

import json
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins

with warnings.catch_warnings():
    # The module recommends the schema that Grafana does not load from a file.
    warnings.simplefilter("ignore", DeprecationWarning)
    from grafana_foundation_sdk.models.dashboard import Dashboard

register_default_plugins()


def round_trip(dashboard: Mapping[str, Any]) -> dict[str, Any]:
    """The dashboard as the types write what they read of it."""
    written: dict[str, Any] = json.loads(JSONEncoder().encode(Dashboard.from_json(dict(dashboard))))
    return written


def lost(before: object, after: object, place: str = "") -> Iterator[str]:
    """Whatever is not, or not the same, afterwards; what was added is a default and no loss."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for key, value in before.items():
            if key not in after:
                yield f"{place}.{key}: dropped"
            else:
                yield from lost(value, after[key], f"{place}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from lost(old, new, f"{place}[{index}]")
    elif type(before) is not type(after) or before != after:
        yield f"{place}: {before!r} became {after!r}"
