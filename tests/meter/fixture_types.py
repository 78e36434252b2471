"""What the fixtures of conftest.py are to a type checker."""

from collections.abc import Callable
from typing import Any

import polars as pl

from domain.grants import Grant
from domain.prices import PriceBook, Rate
from meter.evidence.evidence import Evidence
from meter.evidence.observations import RecordedObservations
from meter.rating.charges import Charge
from meter.windows.observing import Observer
from meter.windows.windows import WindowRater, WindowResult
from store.database import Database

At = Callable[[float], int]
Bill = Callable[..., list[Charge]]
Everything = Callable[[], dict[str, Any]]
MakeBook = Callable[..., dict[str, PriceBook]]
MakeGrant = Callable[..., Grant]
MakeObserver = Callable[..., Observer]
MakeRate = Callable[..., Rate]
MakeRater = Callable[..., WindowRater]
MakeSamples = Callable[..., pl.DataFrame]
Observe = Callable[..., Evidence]
OpenLedger = Callable[..., Database]
PassAt = Callable[..., WindowResult]
PutGrants = Callable[..., None]
Recorded = Callable[..., RecordedObservations]
UseOf = Callable[..., list[Any]]
