"""Who is asking, and what they may see. The one place where a tenant filter is made."""

import hashlib
import secrets
from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import ColumnElement, Connection, Row, insert, literal, select, true, update
from sqlalchemy.sql import ColumnExpressionArgument

from domain.errors import AccessError, InputError, NotFoundError
from domain.period import CALENDAR_END_US, format_instant
from store.tables.access import audit, tokens

_TOKEN_BYTES = 32


class Role(StrEnum):
    """What a token is for."""

    TENANT = "tenant"
    BILLING = "billing"
    OPERATOR = "operator"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Principal:
    """The authenticated asker; every query takes one first.

    `tenant` is set for the role tenant and `node` for the role node, and for no other.
    """

    name: str
    role: Role
    tenant: str | None = None
    node: str | None = None

    @classmethod
    def local_operator(cls) -> "Principal":
        """Whoever can open the database file itself: a command on the operator's own machine."""
        return cls(name="local", role=Role.OPERATOR)

    def require(self, *roles: Role) -> None:
        """Raise AccessError unless the principal has one of the roles."""
        if self.role not in roles:
            wanted = " or ".join(roles)
            raise AccessError(f"cannot do this with a {self.role} token: use one of role {wanted}", authenticated=True)

    def require_tenant(self, tenant: str) -> None:
        """Raise NotFoundError for a tenant that is not the principal's own: not even its existence is told."""
        if self.role is Role.NODE or (self.role is Role.TENANT and tenant != self.tenant):
            raise NotFoundError(f"cannot find the tenant {tenant!r}: check the name and the token")

    def sees(self, column: ColumnExpressionArgument[str]) -> ColumnElement[bool]:
        """The SQL condition that keeps rows of tenants the principal may see; `column` holds the tenant."""
        if self.role is Role.TENANT:
            return literal(self.tenant) == column
        self.require(Role.BILLING, Role.OPERATOR)
        return true()


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token at its creation: the only time its secret is known."""

    token_id: str
    secret: str


def create_token(
    connection: Connection,
    principal: Principal,
    *,
    role: Role,
    now_us: int,
    expires_us: int,
    tenant: str | None = None,
    node: str | None = None,
) -> NewToken:
    """Make a token good until `expires_us`; its secret is returned and only its hash is kept."""
    principal.require(Role.OPERATOR)
    if expires_us >= CALENDAR_END_US:
        raise InputError("cannot make a token that is good beyond the year 9999: choose fewer days")
    secret = secrets.token_urlsafe(_TOKEN_BYTES)
    token_id = f"tok_{secrets.token_hex(6)}"
    connection.execute(
        insert(tokens).values(
            token_id=token_id,
            token_hash=_hash(secret),
            role=role,
            tenant=tenant,
            node=node,
            created_us=now_us,
            expires_us=expires_us,
        )
    )
    record(connection, principal, "create token", f"{token_id} {role} {tenant or node or ''}".strip(), now_us)
    return NewToken(token_id, secret)


def revoke_token(connection: Connection, principal: Principal, token_id: str, *, now_us: int) -> None:
    """End a token now; NotFoundError if there is none of that id that still runs."""
    principal.require(Role.OPERATOR)
    ended = connection.execute(
        update(tokens).where(tokens.c.token_id == token_id, tokens.c.revoked_us.is_(None)).values(revoked_us=now_us)
    )
    if ended.rowcount == 0:
        raise NotFoundError(f"cannot revoke {token_id!r}: no such token runs; see `gputab token list`")
    record(connection, principal, "revoke token", token_id, now_us)


def list_tokens(connection: Connection, principal: Principal) -> list[Row[tuple[object, ...]]]:
    """Every token without its hash, oldest first."""
    principal.require(Role.OPERATOR)
    columns = [column for column in tokens.c if column is not tokens.c.token_hash]
    return list(connection.execute(select(*columns).order_by(tokens.c.created_us, tokens.c.token_id)))


def authenticate(connection: Connection, secret: str | None, *, now_us: int) -> Principal:
    """The principal of a bearer token; AccessError if it is absent, unknown, revoked or expired."""
    if not secret:
        raise AccessError("cannot let you in without a token: set GPUTAB_TOKEN", authenticated=False)
    row = connection.execute(select(tokens).where(tokens.c.token_hash == _hash(secret))).one_or_none()
    if row is None or row.revoked_us is not None:
        raise AccessError("cannot let you in: the token is unknown or revoked; ask for a new one", authenticated=False)
    if row.expires_us <= now_us:
        raise AccessError(
            f"cannot let you in: the token expired at {format_instant(row.expires_us)}; ask for a new one",
            authenticated=False,
        )
    return Principal(name=row.token_id, role=Role(row.role), tenant=row.tenant, node=row.node)


def record(connection: Connection, principal: Principal, action: str, subject: str, now_us: int) -> None:
    """Write who did what into the audit trail."""
    connection.execute(insert(audit).values(at_us=now_us, principal=principal.name, action=action, subject=subject))


def _hash(secret: str) -> str:
    # A random 256-bit secret cannot be guessed, so one fast hash protects it as well as a slow one.
    return hashlib.sha256(secret.encode()).hexdigest()
