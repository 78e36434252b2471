"""Alembic's entry: runs in the connection that store/migrate.py hands over."""

from alembic import context

from store.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    # SQLite cannot alter a constraint in place; alembic then rebuilds the table.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
