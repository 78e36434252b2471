"""`gputab tenant` and `gputab token`."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from domain.clock import SystemClock
from domain.errors import AccessError
from domain.period import parse_instant
from store.access import Principal, Role, authenticate
from store.database import Database
from store.tenants import load_projects

Gputab = Callable[..., Any]
YEAR_US = 365 * 86_400_000_000


def test_a_tenant_is_listed_as_it_was_made(gputab: Gputab, ledger: str) -> None:
    gputab("tenant", "create", "globex", "--currency", "USD")
    listed = gputab("tenant", "list", "--format", "json")
    assert (listed.code, listed.err) == (0, "")
    assert listed.data == {
        "rows": [
            {"tenant": "acme", "zone": "Asia/Shanghai", "currency": "CNY", "book": "retail"},
            {"tenant": "globex", "zone": "UTC", "currency": "USD", "book": None},
        ]
    }
    table = gputab("tenant", "list").out
    assert all(word in table for word in ("billing zone", "acme", "Asia/Shanghai", "globex"))


@pytest.mark.parametrize(
    ("words", "code", "problem"),
    [
        ("create acme --currency CNY", 2, "cannot create the tenant 'acme': there is one of that name"),
        ("create Acme --currency CNY", 2, "cannot use 'Acme' as a tenant"),
        ("create initech --currency yuan", 2, "cannot use 'yuan' as a currency"),
        ("create initech --currency CNY --zone Mars/Base", 2, "cannot find the time zone 'Mars/Base'"),
        ("create initech --currency CNY --project ok --project NotOk", 2, "cannot use 'NotOk' as a project"),
        ("assign nobody retail", 2, "cannot find the tenant 'nobody'"),
        ("assign acme nothing", 2, "cannot find the price book 'nothing': load it with `gputab prices load`"),
        ("assign acme retail --from 2025-01-01T00:00:00Z", 2, "cannot assign the book 'retail' to 'acme' before"),
        ("assign acme retail --from 2027-01-01", 2, "cannot use the naive time '2027-01-01'"),
        ("assign globex retail", 2, "cannot rate the tenant 'globex' in USD by the book 'retail' in CNY"),
    ],
)
def test_a_mistake_is_one_line_and_writes_nothing(
    gputab: Gputab, ledger: str, words: str, code: int, problem: str
) -> None:
    gputab("tenant", "create", "globex", "--currency", "USD")
    before = gputab("tenant", "list", "--format", "json").out
    refused = gputab("tenant", *words.split())
    assert (refused.code, refused.out) == (code, "")
    assert refused.line.startswith(f"gputab: {problem}")
    assert gputab("tenant", "list", "--format", "json").out == before


def _projects(ledger: str) -> set[tuple[str, str]]:
    with closing(Database(ledger)) as database, database.read() as connection:
        return load_projects(connection, Principal.local_operator())


def test_a_project_is_added_once(gputab: Gputab, ledger: str) -> None:
    """Again, it stays as it is."""
    for _ in range(2):
        added = gputab("tenant", "project", "acme", "speech")
        assert (added.code, added.out, added.line) == (0, "", "'acme' has the project 'speech'")
    assert _projects(ledger) == {("acme", "vision"), ("acme", "speech")}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("nobody speech", "cannot find the tenant 'nobody'"),
        ("acme Speech!", "cannot use 'Speech!' as a project"),
    ],
)
def test_a_project_needs_a_tenant_and_a_name(gputab: Gputab, ledger: str, words: str, problem: str) -> None:
    refused = gputab("tenant", "project", *words.split())
    assert (refused.code, refused.out) == (2, "")
    assert refused.line.startswith(f"gputab: {problem}")
    assert _projects(ledger) == {("acme", "vision")}


def test_a_book_is_assigned_from_now_on_unless_it_is_said(gputab: Gputab, ledger: str) -> None:
    said = gputab("tenant", "assign", "acme", "retail")
    assert said.code == 0
    at = said.line.removeprefix("'acme' is rated by 'retail' from ").removesuffix(" on")
    assert abs(parse_instant(at) - SystemClock().now_us()) < 60_000_000


def _principal(ledger: str, secret: str) -> Principal:
    with closing(Database(ledger)) as database, database.read() as connection:
        return authenticate(connection, secret, now_us=SystemClock().now_us())


def test_a_token_is_printed_once_and_lets_its_owner_in(gputab: Gputab, ledger: str) -> None:
    """The secret is all that is on stdout, so that it can be put into a file."""
    made = gputab("token", "create", "tenant", "--tenant", "acme", "--days", "30")
    assert made.code == 0
    secret = made.out.removesuffix("\n")
    assert secret not in made.err
    assert _principal(ledger, secret).tenant == "acme"
    (row,) = gputab("token", "list", "--format", "json").data["rows"]
    assert (row["role"], row["for"], row["revoked"]) == ("tenant", "acme", None)
    assert set(row) == {"token_id", "role", "for", "expires", "revoked"}
    assert abs(parse_instant(row["expires"]) - SystemClock().now_us() - 30 * 86_400_000_000) < 60_000_000

    assert gputab("token", "revoke", row["token_id"]).code == 0
    with pytest.raises(AccessError):
        _principal(ledger, secret)
    listed = gputab("token", "list", "--format", "json")
    assert listed.data["rows"][0]["revoked"] is not None
    assert secret not in listed.out
    assert gputab("token", "revoke", row["token_id"]).line.startswith(f"gputab: cannot revoke '{row['token_id']}'")


@pytest.mark.parametrize("role", list(Role))
def test_a_role_has_its_tenant_or_node_and_no_other(gputab: Gputab, ledger: str, role: Role) -> None:
    needed = {Role.TENANT: ["--tenant", "acme"], Role.NODE: ["--node", "n1"]}
    for words in ([], ["--tenant", "acme"], ["--node", "n1"], ["--tenant", "acme", "--node", "n1"]):
        made = gputab("token", "create", role, *words)
        assert made.code == (0 if words == needed.get(role, []) else 2)
        assert bool(made.out) == (made.code == 0)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ("tenant --tenant nobody", 2),
        ("root", 2),
        ("operator --days 0", 2),
        ("operator --days 3000000", 2),
        ("operator --days 99999999999", 2),
    ],
)
def test_a_token_that_makes_no_sense_is_not_made(gputab: Gputab, ledger: str, words: str, code: int) -> None:
    """Among them one that is good for longer than there is a calendar: it could not even be listed."""
    refused = gputab("token", "create", *words.split())
    assert (refused.code, refused.out) == (code, "")
    assert gputab("token", "list", "--format", "json").data == {"rows": []}
