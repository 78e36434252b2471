"""Windows whose evidence is in a bucket: settled, proved, killed amid, and without their bucket."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Connection

from meter.ledger.leases_store import LEASE_S
from meter.windows.verifying import Verifier
from meter.windows.windows import Outcome
from store.access import Principal
from store.database import Database
from tests.meter.fixture_types import At, MakeObserver, OpenLedger, PassAt, Recorded, UseOf
from tests.meter.hour import DONE, TAIL, stretch
from tests.meter.ledgers import gpu_seconds
from tests.meter.s3.s3_server import S3Server

Versions = Callable[[], list[str]]
Refusal = Callable[[Callable[[], object]], str]


@pytest.mark.usefixtures("granted")
def test_a_window_settles_on_a_bucket_and_is_proved_from_it(
    ledger: Database,
    operator: Principal,
    pass_at: PassAt,
    make_observer: MakeObserver,
    recorded: Recorded,
    use_of: UseOf,
    versions: Versions,
) -> None:
    """Again without the samples, which have expired by then; late ones make a second file beside the first."""
    result = pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    assert result.outcome is Outcome.SETTLED
    assert gpu_seconds(ledger) == 1_000 + TAIL
    assert len(versions()) == 1
    assert pass_at(recorded([], DONE), 3_800).kept_frozen
    assert len(versions()) == 1
    pass_at(recorded(use_of(range(1_500)), DONE), 3_900)
    assert len(versions()) == len({*versions()}) == 2
    verifier = Verifier(ledger, operator, make_observer(recorded([])))
    (window,) = verifier.windows(stretch(0, 3_600))
    assert list(verifier.verify_window(window)) == []


@pytest.mark.usefixtures("granted")
def test_evidence_in_a_bucket_that_was_exchanged_is_found(
    ledger: Database,
    operator: Principal,
    server: S3Server,
    bucket: str,
    pass_at: PassAt,
    make_observer: MakeObserver,
    recorded: Recorded,
    use_of: UseOf,
    versions: Versions,
) -> None:
    pass_at(recorded(use_of(range(1_000)), DONE), 3_700)
    (key,) = versions()
    server.client().put_object(Bucket=bucket, Key=key, Body=b"other")
    verifier = Verifier(ledger, operator, make_observer(recorded([])))
    (window,) = verifier.windows(stretch(0, 3_600))
    assert [each.what.split(" 's3")[0] for each in verifier.verify_window(window)] == ["cannot read the evidence"]


class _DiesAtLedger(Database):
    """A process that is killed after its evidence was written and before the ledger is: it got as far as its lease."""

    _has_lease = False

    @contextmanager
    def write(self) -> Iterator[Connection]:
        if self._has_lease:
            raise KeyboardInterrupt
        self._has_lease = True
        with super().write() as connection:
            yield connection


@pytest.mark.usefixtures("granted")
@pytest.mark.parametrize("later", [1_500, 1_600])
def test_a_kill_between_bucket_and_ledger_costs_only_the_pass(
    ledger: Database,
    open_ledger: OpenLedger,
    pass_at: PassAt,
    recorded: Recorded,
    use_of: UseOf,
    at: At,
    versions: Versions,
    later: int,
) -> None:
    """What was written is taken as it is, or lies there unused where more is known by then."""
    at(3_700)
    with pytest.raises(KeyboardInterrupt):
        pass_at(recorded(use_of(range(1_500)), DONE), 3_700, database=open_ledger(_DiesAtLedger))
    assert gpu_seconds(ledger) == 0
    assert len(versions()) == 1
    at(3_700 + LEASE_S)
    result = pass_at(recorded(use_of(range(later)), DONE), 3_900)
    assert result.window is not None
    assert (result.outcome, result.window.revision) == (Outcome.SETTLED, 1)
    assert gpu_seconds(ledger) == later + TAIL
    assert len(versions()) == (1 if later == 1_500 else 2)


@pytest.mark.usefixtures("granted")
def test_a_bucket_that_is_not_there_leaves_its_window_open(
    ledger: Database,
    pass_at: PassAt,
    recorded: Recorded,
    use_of: UseOf,
    server: S3Server,
    bucket: str,
    refusal: Refusal,
) -> None:
    """Until it is: nothing was charged that nobody could prove."""
    samples = recorded(use_of(range(1_000)), DONE)
    server.client().delete_bucket(Bucket=bucket)
    assert "there is no bucket" in refusal(lambda: pass_at(samples, 3_700))
    assert gpu_seconds(ledger) == 0
    server.client().create_bucket(Bucket=bucket)
    assert pass_at(samples, 3_800).outcome is Outcome.SETTLED
    assert gpu_seconds(ledger) == 1_000 + TAIL
