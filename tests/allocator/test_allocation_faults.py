"""A failure at any step of granting and releasing leaves no residue."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy import event

from allocator.allocation_store import create, release
from allocator.request import AllocationRequest
from domain.grants import GrantKind
from store.access import Principal, Role
from store.tables.access import audit
from store.tables.capacity import allocations, grants

if TYPE_CHECKING:
    from tests.allocator.conftest import Ledger, Service


class InjectedError(Exception):
    """What goes wrong in the middle."""


@contextmanager
def failing_statement(ledger: "Ledger", number: int) -> Iterator[list[str]]:
    """Let the statement of that number fail, BEGIN being the first; gives those that were reached."""
    reached: list[str] = []

    def count(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        reached.append(statement)
        if len(reached) == number:
            raise InjectedError(statement)

    event.listen(ledger.database.engine, "before_cursor_execute", count)
    try:
        yield reached
    finally:
        event.remove(ledger.database.engine, "before_cursor_execute", count)


def test_a_failure_at_any_step_of_granting_leaves_nothing(furnished: "Service", ledger: "Ledger") -> None:
    """HAMi #2308 (three of five exits skipped the rollback), KAI PR #847 (reservations left dangling)."""
    tables = (allocations, grants, audit)
    before = ledger.everything(*tables)
    principal = Principal("test", Role.TENANT, tenant="acme")
    request = AllocationRequest("acme", "lab", GrantKind.WHOLE, count=2)
    number = 1
    while True:
        with failing_statement(ledger, number) as reached:
            try:
                with ledger.database.write() as connection:
                    create(connection, principal, request, idempotency_key="k1")
            except InjectedError:
                pass
            else:
                break
        assert ledger.everything(*tables) == before, reached[-1]
        number += 1
    assert number > 8
    assert [len(ledger.rows(table)) for table in (allocations, grants)] == [1, 2]


def test_a_failure_after_the_last_step_leaves_nothing_either(furnished: "Service", ledger: "Ledger") -> None:
    tables = (allocations, grants, audit)
    before = ledger.everything(*tables)
    request = AllocationRequest("acme", "lab", GrantKind.WHOLE)

    def create_and_fail() -> None:
        with ledger.database.write() as connection:
            create(connection, Principal.local_operator(), request)
            raise InjectedError

    with pytest.raises(InjectedError):
        create_and_fail()
    assert ledger.everything(*tables) == before


def test_a_failure_at_any_step_of_releasing_releases_nothing(furnished: "Service", ledger: "Ledger") -> None:
    made = furnished.grant("acme", kind="whole", count=2)
    before = ledger.everything(grants, audit)
    number = 1
    while True:
        with failing_statement(ledger, number):
            try:
                with ledger.database.write() as connection:
                    release(connection, Principal.local_operator(), made["allocation"])
            except InjectedError:
                pass
            else:
                break
        assert ledger.everything(grants, audit) == before
        number += 1
    assert number > 4


def test_a_failure_in_the_service_is_a_problem_document_and_no_residue(furnished: "Service", ledger: "Ledger") -> None:
    before = ledger.everything(allocations, grants, audit)
    with failing_statement(ledger, 12):
        answer = furnished.ask("acme", kind="whole")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert "InjectedError" not in json.dumps(answer.json())
    assert ledger.everything(allocations, grants, audit) == before
