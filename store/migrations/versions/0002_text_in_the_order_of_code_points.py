"""text in the order of code points, as Python and SQLite have it, whatever language PostgreSQL was set up with."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# The tables of 0001.
TABLES = (
    *("adjustments", "allocations", "audit", "charges", "daily_charges", "device_periods", "device_states", "events"),
    *("evidence", "grants", "holds", "hour_digests", "invoice_charges", "invoices", "mig_periods", "node_contacts"),
    *("nodes", "price_books", "projects", "rates", "tenant_books", "tenants", "tokens", "windows"),
)


def upgrade() -> None:
    _collate("C")


def downgrade() -> None:
    _collate("default")


def _collate(collation: str) -> None:
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    for table in TABLES:
        columns = sa.inspect(connection).get_columns(table)
        names = [column["name"] for column in columns if isinstance(column["type"], sa.Text)]
        changes = ", ".join(f'ALTER COLUMN {name} TYPE text COLLATE "{collation}"' for name in names)
        if changes:
            op.execute(f"ALTER TABLE {table} {changes}")
