"""Closing hours: what may be closed, in which order, and the digest that proves it from then on."""

from collections.abc import Callable, Iterable

import pytest
from sqlalchemy import insert, select, update

from domain.errors import ConflictError
from domain.period import HOUR_US
from meter.ledger.chain import ClosedWindow, hour_digest
from meter.ledger.closing_store import load_chain
from meter.ledger.ledger_store import load_windows
from meter.windows.backlog_store import find_windows
from meter.windows.closing import close_hours
from store.access import Principal
from store.database import Database
from store.tables.billing import windows
from store.tables.closing import hour_digests
from tests.meter.charges import make_charge
from tests.meter.fixture_types import At, Everything, MakeGrant, MakeRate, MakeRater, PutGrants, Recorded, UseOf
from tests.meter.hour import START_US, instant_us, stretch
from tests.meter.ledgers import add_card, add_node

Close = Callable[..., list[str]]


@pytest.fixture
def close(ledger: Database, operator: Principal) -> Close:
    """Closes what ends by an offset into the hour; gives the digests."""

    def closed(until: float) -> list[str]:
        return [each.digest for each in close_hours(ledger, operator, instant_us(until))]

    return closed


@pytest.fixture
def rated(
    ledger: Database,
    operator: Principal,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    make_rater: MakeRater,
    recorded: Recorded,
    use_of: UseOf,
    at: At,
) -> None:
    """Two hours of n1, in which acme holds GPU-1, have settled."""
    put_grants(make_grant(0, 7_200))
    observations = recorded(use_of(range(7_260)), 7_260)
    at(7_300)
    for hour in (0, 1):
        make_rater(observations).rate_window("n1", START_US + hour * HOUR_US, instant_us(7_300))
    find_windows(ledger, operator)


def _states(ledger: Database, operator: Principal) -> list[str]:
    with ledger.read() as connection:
        return [each.state for each in load_windows(connection, operator, stretch(0, 7_200))]


@pytest.mark.usefixtures("rated")
def test_hours_are_closed_the_oldest_first_and_chained(ledger: Database, operator: Principal, close: Close) -> None:
    assert close(3_599) == []
    (first,) = close(3_600)
    assert _states(ledger, operator) == ["closed", "settled"]
    (second,) = close(7_200)
    assert close(7_200) == []
    assert _states(ledger, operator) == ["closed", "closed"]
    with ledger.read() as connection:
        chain = load_chain(connection, operator)
    assert [(each.start_us, each.digest, each.previous_digest) for each in chain] == [
        (START_US, first, None),
        (START_US + HOUR_US, second, first),
    ]


@pytest.mark.usefixtures("rated")
def test_closing_at_once_or_hour_by_hour_is_the_same(ledger: Database, close: Close, everything: Everything) -> None:
    with ledger.write() as connection:
        before = set(connection.execute(select(windows)))
    together = close(7_200)
    after = everything()
    with ledger.write() as connection:
        connection.execute(hour_digests.delete())
        connection.execute(update(windows).where(windows.c.state == "closed").values(state="settled"))
        assert set(connection.execute(select(windows))) == before
    assert [*close(3_600), *close(7_200)] == together
    assert {name: rows for name, rows in everything().items() if name != "audit"} == {
        name: rows for name, rows in after.items() if name != "audit"
    }


@pytest.mark.usefixtures("rated")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"state": "open"}, "it has not settled"),
        ({"rated_us": None}, "it is to be rated again"),
        ({"residual_compute": None}, "its capacity is not known"),
        ({"residual_vram": 7}, "does not add up, by 0 compute-unit-seconds and 7 byte-seconds"),
        ({"unpriced_seconds": 5}, "5 seconds of use have no price"),
    ],
)
def test_what_cannot_be_vouched_for_is_not_closed_nor_any_hour_after_it(
    ledger: Database, close: Close, everything: Everything, changes: dict[str, object], why: str
) -> None:
    with ledger.write() as connection:
        connection.execute(update(windows).where(windows.c.start_us == START_US).values(**changes))
    before = everything()
    with pytest.raises(ConflictError, match=rf"^cannot close the hour '2026-03-01T10:00:00Z': n1: .*{why}"):
        close(7_200)
    assert everything() == before


@pytest.mark.usefixtures("rated")
def test_one_window_that_cannot_be_closed_keeps_its_hour_open_and_not_those_before(
    ledger: Database, operator: Principal, close: Close
) -> None:
    with ledger.write() as connection:
        row = connection.execute(select(windows).where(windows.c.start_us == START_US + HOUR_US)).mappings().one()
        connection.execute(insert(windows).values(**{**row, "node": "n2", "state": "open", "evidence_digest": None}))
    with pytest.raises(ConflictError, match=r"n2: it has not settled \(see `gputab meter status`\); mend"):
        close(7_200)
    assert _states(ledger, operator) == ["closed", "settled", "open"]


@pytest.mark.usefixtures("rated")
def test_what_was_said_since_the_rating_keeps_an_hour_open(
    close: Close, put_grants: PutGrants, make_grant: MakeGrant, at: At
) -> None:
    """A grant that came to light a moment ago is rated first."""
    at(7_400)
    put_grants(make_grant(0, 60, allocation="late", gpu_uuid="GPU-2"))
    with pytest.raises(ConflictError, match="it is to be rated again"):
        close(7_200)


@pytest.mark.usefixtures("rated")
def test_a_closed_hour_gets_no_new_window(ledger: Database, operator: Principal, close: Close, at: At) -> None:
    """A node that reports late that it was there then: capacity that nobody held, and no money."""
    close(7_200)
    at(7_400)
    add_node(ledger, "n2")
    add_card(ledger, "GPU-9", 0, node="n2", changed_us=at(7_400))
    at(11_000)
    find_windows(ledger, operator)
    with ledger.read() as connection:
        found = [(each.node, each.start_us) for each in load_windows(connection, operator) if each.node == "n2"]
    assert found == [("n2", START_US + 2 * HOUR_US), ("n2", START_US + 3 * HOUR_US)]


def test_the_digest_is_of_everything_that_was_closed_whatever_its_order() -> None:
    charges = [make_charge(), make_charge(allocation="a2")]
    one, two = ClosedWindow("n1", 1, "d1", charges), ClosedWindow("n2", 1, "d2", [])
    digest = hour_digest(START_US, [one, two], "before")
    assert digest == hour_digest(START_US, [two, ClosedWindow("n1", 1, "d1", charges[::-1])], "before")
    dearer = make_charge(allocation="a2", amount_nano=1)
    others: Iterable[str] = (
        hour_digest(START_US + HOUR_US, [one, two], "before"),
        hour_digest(START_US, [one, two], None),
        hour_digest(START_US, [one], "before"),
        hour_digest(START_US, [one, ClosedWindow("n2", 2, "d2", [])], "before"),
        hour_digest(START_US, [one, ClosedWindow("n2", 1, "d3", [])], "before"),
        hour_digest(START_US, [ClosedWindow("n1", 1, "d1", charges[:1]), two], "before"),
        hour_digest(
            START_US,
            [ClosedWindow("n1", 1, "d1", [charges[0], dearer]), two],
            "before",
        ),
    )
    assert len({digest, *others}) == 8


def test_no_part_of_a_charge_is_left_out_of_the_digest(make_rate: MakeRate) -> None:
    charge = make_charge()
    digests = {hour_digest(START_US, [ClosedWindow("n1", 1, "d", [charge])], None)}
    for name in charge.__dataclass_fields__:
        value = getattr(charge, name)
        other = make_rate().rate_id if value is None else value + 1 if isinstance(value, int) else f"{value}x"
        changed = make_charge(**{name: other})
        digests.add(hour_digest(START_US, [ClosedWindow("n1", 1, "d", [changed])], None))
    assert len(digests) == 1 + len(charge.__dataclass_fields__)
