"""The composition root of what needs the ledger: the database, and the meter over it."""

from collections.abc import Iterator
from contextlib import closing, contextmanager

from domain.clock import MICROSECONDS
from domain.period import HOUR_S, HOUR_US
from gputab.composition import clock, sample_store
from meter.evidence.evidence_store import evidence_store
from meter.evidence.stored_observations import StoredObservations
from meter.windows.observing import Observer, SettleRules
from meter.windows.windows import WindowRater
from settings.gputab import Settings
from store.access import Principal
from store.database import Database
from store.migrate import check
from victoriametrics.read import Reader


@contextmanager
def open_database(config: Settings) -> Iterator[Database]:
    """The ledger, refused unless it is at the newest migration."""
    with closing(Database(config.database_url)) as database:
        check(database)
        yield database


@contextmanager
def observer(
    config: Settings, database: Database, principal: Principal, *, accepts_skew: bool = False
) -> Iterator[Observer]:
    """What reads windows: the sample store and the evidence of the settings; `accepts_skew` as in `SettleRules`."""
    store = sample_store(config)
    with Reader(store) as reader:
        lookback_s = (config.settle_deadline_hours + 1) * HOUR_S
        observations = StoredObservations(store, reader, lookback_s=lookback_s, clock=clock())
        rules = SettleRules(
            grace_us=config.settle_grace_seconds * MICROSECONDS,
            deadline_us=config.settle_deadline_hours * HOUR_US,
            accepts_skew=accepts_skew,
        )
        yield Observer(database, principal, observations, evidence_store(config.evidence_path), rules)


@contextmanager
def window_rater(
    config: Settings, database: Database, principal: Principal, *, accepts_skew: bool = False
) -> Iterator[WindowRater]:
    """The meter over that."""
    with observer(config, database, principal, accepts_skew=accepts_skew) as its_observer:
        yield WindowRater(database, principal, its_observer)
