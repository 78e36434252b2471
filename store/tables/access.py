"""Who there is and what each may do. Written by store/access.py and store/tenants.py only."""

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, PrimaryKeyConstraint, Table, UniqueConstraint

from store.tables.metadata import METADATA, instant, one_of, row_id, text

# A tenant's currency and zone never change: its charges carry both.
tenants = Table(
    "tenants",
    METADATA,
    text("tenant"),
    text("billing_zone"),
    text("currency"),
    instant("created_us"),
    PrimaryKeyConstraint("tenant"),
    CheckConstraint("length(currency) = 3 AND upper(currency) = currency", name="currency"),
)

# The book a tenant is rated by, from an instant on; append-only. `changed_us` is when that was said.
tenant_books = Table(
    "tenant_books",
    METADATA,
    text("tenant"),
    text("book"),
    instant("start_us"),
    instant("changed_us"),
    PrimaryKeyConstraint("tenant", "start_us"),
    ForeignKeyConstraint(["tenant"], ["tenants.tenant"]),
    ForeignKeyConstraint(["book"], ["price_books.book"]),
)

projects = Table(
    "projects",
    METADATA,
    text("tenant"),
    text("project"),
    instant("created_us"),
    PrimaryKeyConstraint("tenant", "project"),
    ForeignKeyConstraint(["tenant"], ["tenants.tenant"]),
)

# `token_hash` is SHA-256 of a 256-bit random token; the token itself is shown once and kept nowhere.
tokens = Table(
    "tokens",
    METADATA,
    text("token_id"),
    text("token_hash"),
    text("role"),
    text("tenant", nullable=True),
    text("node", nullable=True),
    instant("created_us"),
    instant("expires_us"),
    instant("revoked_us", nullable=True),
    PrimaryKeyConstraint("token_id"),
    UniqueConstraint("token_hash"),
    ForeignKeyConstraint(["tenant"], ["tenants.tenant"]),
    one_of("role", "tenant", "billing", "operator", "node"),
    CheckConstraint("(role = 'tenant') = (tenant IS NOT NULL)", name="tenant_role"),
    CheckConstraint("(role = 'node') = (node IS NOT NULL)", name="node_role"),
)

audit = Table(
    "audit",
    METADATA,
    row_id("audit_id"),
    instant("at_us"),
    text("principal"),
    text("action"),
    text("subject"),
)
