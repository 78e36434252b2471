"""Which windows there are: each hour in which a card stood or something was held, found once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
from sqlalchemy import Connection, select

from domain.errors import AccessError
from domain.period import HOUR_US
from meter.windows.backlog_store import find_windows
from store.access import Principal, Role
from store.database import Database
from store.tables.billing import windows
from tests.meter.backlogs import Backlog
from tests.meter.fixture_types import At, MakeGrant, OpenLedger, PutGrants
from tests.meter.hour import HOUR_S, stretch
from tests.meter.ledgers import end_cards


def test_every_hour_in_which_a_card_stood_or_something_was_held_has_a_window(
    backlog: Backlog, put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """The hours between busy stretches have none; a record without a device is of node '', whatever node it names."""
    put_grants(
        make_grant(-4 * 3_600 + 10, -4 * 3_600 + 20),
        make_grant(-3_600, -3_599.5, allocation="a2", node="n2", gpu_uuid="GPU-9"),
        make_grant(-10, 3_600, allocation="a3", node="n5", gpu_uuid=None),
    )
    assert backlog.find(3_600) == [(-4, "n1"), (-1, ""), (-1, "n2"), (0, ""), (0, "n1")]
    assert backlog.find(3_600.001) == [(-4, "n1"), (-1, ""), (-1, "n2"), (0, ""), (0, "n1"), (1, "n1")]


def test_hours_that_have_not_begun_are_not_found(
    backlog: Backlog, put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """Neither of what stands for ever nor of what is booked ahead."""
    put_grants(make_grant(2 * 3_600 + 5, None, node="n2", gpu_uuid="GPU-9"))
    assert backlog.find(0) == []
    assert backlog.find(0.001) == [(0, "n1")]
    assert backlog.find(2 * 3_600 + 5) == [(0, "n1"), (1, "n1"), (2, "n1")]
    assert backlog.find(2 * 3_600 + 5.001) == [(0, "n1"), (1, "n1"), (2, "n1"), (2, "n2")]


def test_what_goes_on_is_found_hour_by_hour_and_after_a_long_pause(
    backlog: Backlog, put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """A meter that was off for days finds every hour of them."""
    put_grants(make_grant(0, 5 * 3_600, node="n2", gpu_uuid="GPU-9"), make_grant(0, 1, allocation="a2", gpu_uuid=None))
    for hour in range(3):
        assert backlog.find(hour * 3_600 + 60)[-1] == (hour, "n2")
    found = backlog.find(50 * 3_600)
    assert [hour for hour, node in found if node == "n2"] == list(range(5))
    assert [hour for hour, node in found if node == "n1"] == list(range(50))
    assert [hour for hour, node in found if node == ""] == [0]


def test_a_time_of_zero_is_a_time(backlog: Backlog, put_grants: PutGrants, make_grant: MakeGrant) -> None:
    """A trace that counts from 0 has its first hours in 1970."""
    put_grants(replace(make_grant(0, 1, gpu_uuid=None, node=""), start_us=0, end_us=HOUR_US + 1))
    assert [hour + HOUR_S // 3_600 for hour, _ in backlog.find(0)] == [0, 1]


def test_a_record_of_long_ago_is_found_when_it_is_written(
    backlog: Backlog, put_grants: PutGrants, make_grant: MakeGrant
) -> None:
    """An import of last month, long after the meter has passed that month."""
    backlog.find(40 * 3_600)
    put_grants(make_grant(-700 * 3_600, -698 * 3_600, gpu_uuid=None))
    assert backlog.find(40 * 3_600 + 5)[:3] == [(-700, ""), (-699, ""), (0, "n1")]


def test_a_record_that_took_long_to_commit_is_found(
    backlog: Backlog, put_grants: PutGrants, make_grant: MakeGrant, at: At
) -> None:
    """It was stamped before the meter last looked, and could be seen only after that."""
    backlog.find(40 * 3_600)
    put_grants(make_grant(-7_200, -3_600, gpu_uuid=None), changed_us=at(40 * 3_600 - 300))
    assert (-2, "") in backlog.find(40 * 3_600 + 5)


class _NeverWrites(Database):
    """A ledger that nobody may write to."""

    @contextmanager
    def write(self) -> Iterator[Connection]:
        raise AssertionError("nothing was to be written")
        yield


def test_where_nothing_is_new_nothing_is_written_and_nothing_is_due_again(
    ledger: Database,
    operator: Principal,
    backlog: Backlog,
    put_grants: PutGrants,
    make_grant: MakeGrant,
    at: At,
    open_ledger: OpenLedger,
) -> None:
    """However often the meter looks; it does not even take the write lock."""
    put_grants(make_grant(0, 7_000), make_grant(100, 3_700, allocation="a2", gpu_uuid=None))
    at(4 * 3_600 - 900)
    put_grants(make_grant(100, 3_700, allocation="a3", gpu_uuid="GPU-2"))
    end_cards(ledger, 4 * 3_600)
    backlog.settle(4 * 3_600 + 100)
    with ledger.read() as connection:
        before = connection.execute(select(windows)).all()
    quiet = open_ledger(_NeverWrites)
    for offset in (100, 105, 700, 1_300, 100_000):
        at(4 * 3_600 + offset)
        find_windows(quiet, operator)
        assert backlog.due() == []
    with ledger.read() as connection:
        assert connection.execute(select(windows)).all() == before


def test_many_meters_that_look_at_once_find_each_window_once(
    open_ledger: OpenLedger, operator: Principal, put_grants: PutGrants, make_grant: MakeGrant, backlog: Backlog, at: At
) -> None:
    put_grants(*(make_grant(0, 3_600 * n, allocation=f"a{n}", node=f"m{n}", gpu_uuid=f"GPU-m{n}") for n in range(6)))
    at(6 * 3_600)
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda database: find_windows(database, operator), [open_ledger() for _ in range(8)]))
    assert len(backlog.due()) == len(set(backlog.due())) == 6 + sum(range(6))


@pytest.mark.parametrize(
    ("start", "end", "hours"),
    [
        (0, 3_600, [0]),
        (3_599.999999, 3_600.000001, [0, 1]),
        (3_600, 7_200, [1]),
        (-9_000, 1, [0]),
        (1_800, 1_800, []),
        (0, 0, []),
        (7_200, 99_999, [2]),
    ],
)
def test_windows_are_those_whose_hour_the_period_touches(
    backlog: Backlog, start: float, end: float, hours: list[int]
) -> None:
    """One without an instant touches none."""
    backlog.find(3 * 3_600)
    assert [hour for hour, _ in backlog.touched(stretch(start, end))] == hours


@pytest.mark.parametrize("role", [Role.TENANT, Role.NODE])
def test_windows_are_found_for_staff_only(ledger: Database, role: Role) -> None:
    with pytest.raises(AccessError, match="use one of role operator or billing"):
        find_windows(ledger, Principal("p", role, tenant="acme" if role is Role.TENANT else None))
