"""Tokens: shown once, kept as a hash, good until they are not."""

import hashlib

import pytest
from sqlalchemy import select

from domain.errors import AccessError, InputError, NotFoundError
from store.access import Principal, Role, authenticate, create_token, list_tokens, revoke_token
from store.database import Database
from store.tables import METADATA
from store.tables.access import audit, tokens
from tests.databases import file_of, url_of

NOW_US = 1_772_359_200_000_000
DAY_US = 86_400_000_000


def _token(database: Database, principal: Principal, role: Role = Role.OPERATOR, **whose: str) -> tuple[str, str]:
    with database.write() as connection:
        made = create_token(connection, principal, role=role, now_us=NOW_US, expires_us=NOW_US + DAY_US, **whose)
    return made.token_id, made.secret


def _ask(database: Database, secret: str | None, now_us: int = NOW_US) -> Principal:
    with database.read() as connection:
        return authenticate(connection, secret, now_us=now_us)


@pytest.mark.parametrize(
    ("role", "whose"),
    [(Role.OPERATOR, {}), (Role.BILLING, {}), (Role.TENANT, {"tenant": "acme"}), (Role.NODE, {"node": "n1"})],
)
def test_a_token_lets_in_whom_it_was_made_for(
    two_tenants: Database, operator: Principal, role: Role, whose: dict[str, str]
) -> None:
    token_id, secret = _token(two_tenants, operator, role, **whose)
    assert _ask(two_tenants, secret) == Principal(token_id, role, **whose)


def _kept(database: Database) -> list[bytes]:
    """All that the database keeps, or all that can be read of it: every row, and SQLite's files as they lie."""
    with database.read() as connection:
        rows = [repr(connection.execute(select(table)).all()).encode() for table in METADATA.tables.values()]
    if database.engine.dialect.name != "sqlite":
        return rows
    file = file_of(url_of(database))
    return rows + [each.read_bytes() for each in file.parent.iterdir()]


def test_the_secret_is_nowhere_in_the_database(two_tenants: Database, operator: Principal) -> None:
    """Neither as text nor in parts; only its hash is."""
    _, secret = _token(two_tenants, operator)
    kept = _kept(two_tenants)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    assert any(digest.encode() in content for content in kept)
    for content in kept:
        assert secret.encode() not in content
        assert secret[:16].encode() not in content
        assert secret[-16:].encode() not in content


def test_a_secret_is_long_and_never_the_same(two_tenants: Database, operator: Principal) -> None:
    secrets = {_token(two_tenants, operator)[1] for _ in range(20)}
    assert len(secrets) == 20
    assert min(len(secret) for secret in secrets) >= 43  # 256 bits in base64


@pytest.mark.parametrize("secret", [None, "", "x", "' OR 1=1 --", "tok_"])
def test_no_token_and_an_unknown_one_are_turned_away(two_tenants: Database, secret: str | None) -> None:
    with pytest.raises(AccessError, match=r"^cannot let you in") as refused:
        _ask(two_tenants, secret)
    assert not refused.value.authenticated
    assert not secret or secret not in str(refused.value)


def test_the_hash_of_a_token_is_no_token(two_tenants: Database, operator: Principal) -> None:
    """Who reads the table, or a backup of it, cannot come in with what is there."""
    _, secret = _token(two_tenants, operator)
    with pytest.raises(AccessError, match="unknown"):
        _ask(two_tenants, hashlib.sha256(secret.encode()).hexdigest())


def test_a_token_is_good_up_to_its_end_and_not_at_it(two_tenants: Database, operator: Principal) -> None:
    _, secret = _token(two_tenants, operator)
    assert _ask(two_tenants, secret, NOW_US + DAY_US - 1)
    with pytest.raises(AccessError, match="the token expired at 2026-03-02T10:00:00Z; ask for a new one"):
        _ask(two_tenants, secret, NOW_US + DAY_US)


def test_a_revoked_token_is_good_no_more(two_tenants: Database, operator: Principal) -> None:
    token_id, secret = _token(two_tenants, operator)
    _, other = _token(two_tenants, operator)
    with two_tenants.write() as connection:
        revoke_token(connection, operator, token_id, now_us=NOW_US)
    with pytest.raises(AccessError, match="unknown or revoked"):
        _ask(two_tenants, secret)
    assert _ask(two_tenants, other)


@pytest.mark.parametrize("again", [True, False])
def test_what_does_not_run_cannot_be_revoked(two_tenants: Database, operator: Principal, again: bool) -> None:
    token_id, _ = _token(two_tenants, operator)
    with two_tenants.write() as connection:
        revoke_token(connection, operator, token_id, now_us=NOW_US)
        with pytest.raises(NotFoundError, match=r"^cannot revoke .*gputab token list"):
            revoke_token(connection, operator, token_id if again else "tok_nothing", now_us=NOW_US + 1)
        assert connection.execute(select(tokens.c.revoked_us)).scalars().all() == [NOW_US]


def test_the_list_tells_everything_but_the_hash(two_tenants: Database, operator: Principal) -> None:
    token_id, secret = _token(two_tenants, operator, Role.TENANT, tenant="acme")
    with two_tenants.read() as connection:
        (row,) = list_tokens(connection, operator)
    assert row._mapping["token_id"] == token_id
    assert row._mapping["tenant"] == "acme"
    assert "token_hash" not in row._mapping
    assert secret not in str(row)


def test_making_and_revoking_is_on_record_without_the_secret(two_tenants: Database, operator: Principal) -> None:
    token_id, secret = _token(two_tenants, operator, Role.NODE, node="n1")
    with two_tenants.write() as connection:
        revoke_token(connection, operator, token_id, now_us=NOW_US + 5)
        rows = connection.execute(select(audit).order_by(audit.c.audit_id)).all()
    assert [(row.at_us, row.principal, row.action, row.subject) for row in rows] == [
        (NOW_US, "local", "create token", f"{token_id} node n1"),
        (NOW_US + 5, "local", "revoke token", token_id),
    ]
    assert secret not in str(rows)


@pytest.mark.parametrize("role", [Role.TENANT, Role.BILLING, Role.NODE])
def test_only_an_operator_makes_tokens(two_tenants: Database, role: Role) -> None:
    with two_tenants.write() as connection, pytest.raises(AccessError) as refused:
        create_token(connection, Principal("p", role), role=Role.OPERATOR, now_us=NOW_US, expires_us=NOW_US + 1)
    assert refused.value.authenticated
    assert str(refused.value) == f"cannot do this with a {role} token: use one of role operator"


@pytest.mark.parametrize("expires_us", [2**58, 2**70])
def test_a_token_ends_within_the_calendar(two_tenants: Database, operator: Principal, expires_us: int) -> None:
    """One that ends beyond the year 9999 could not even be listed."""
    with two_tenants.write() as connection:
        with pytest.raises(InputError, match=r"^cannot make a token"):
            create_token(connection, operator, role=Role.OPERATOR, now_us=NOW_US, expires_us=expires_us)
        assert list_tokens(connection, operator) == []
