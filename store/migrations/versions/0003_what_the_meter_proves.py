"""what the meter proves: leases, corrections, daily sums, and what was left out of a window."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TEXT = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
SECONDS = ("granted_seconds", "measured_seconds", "bridged_seconds", "on_record_seconds", "free_seconds")
COUNTS = ("samples", "quarantined_samples")
NANO = 1_000_000_000


def upgrade() -> None:
    _replace_evidence("0, 0, NULL", *map(whole, COUNTS), sa.Column("skew_us", sa.BigInteger(), nullable=True))
    op.create_table(
        "window_leases",
        text("node"),
        whole("start_us"),
        text("holder"),
        whole("until_us"),
        sa.PrimaryKeyConstraint("node", "start_us", name=op.f("pk_window_leases")),
    )
    op.create_table(
        "late_samples",
        text("node"),
        whole("start_us"),
        whole("seconds"),
        sa.CheckConstraint("seconds > 0", name=op.f("ck_late_samples_seconds")),
        sa.ForeignKeyConstraint(
            ["node", "start_us"], ["windows.node", "windows.start_us"], name=op.f("fk_late_samples_node_start_us")
        ),
        sa.PrimaryKeyConstraint("node", "start_us", name=op.f("pk_late_samples")),
    )
    # Nothing wrote adjustments before, nor daily charges.
    op.drop_table("adjustments")
    op.drop_table("daily_charges")
    _create_corrections()
    _create_adjustments()
    _create_daily_charges()
    _sum_charges()


def downgrade() -> None:
    for table in ("daily_charges", "adjustments", "corrections", "late_samples", "window_leases"):
        op.drop_table(table)
    _replace_evidence("")
    op.create_table(
        "adjustments",
        sa.Column("adjustment_id", ROW_ID, sa.Identity(always=False), nullable=False),
        text("charge_id"),
        whole("amount_nano"),
        text("reason"),
        text("principal"),
        whole("created_us"),
        sa.CheckConstraint("amount_nano <> 0", name=op.f("ck_adjustments_amount")),
        sa.ForeignKeyConstraint(["charge_id"], ["charges.charge_id"], name=op.f("fk_adjustments_charge_id")),
        sa.PrimaryKeyConstraint("adjustment_id", name=op.f("pk_adjustments")),
    )
    op.create_index("ix_adjustments_charge_id", "adjustments", ["charge_id"])
    op.create_table(
        "daily_charges",
        *(text(name) for name in ("tenant", "project", "billing_date", "sku", "dimension", "currency")),
        whole("granted_seconds"),
        sa.Column("covered_seconds", sa.BigInteger(), nullable=True),
        whole("amount_nano"),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_daily_charges_tenant")),
        sa.PrimaryKeyConstraint("tenant", "project", "billing_date", "sku", "dimension", name=op.f("pk_daily_charges")),
    )


def text(name: str, *, nullable: bool = False) -> sa.Column[str]:
    return sa.Column(name, TEXT, nullable=nullable)


def whole(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False)


def _replace_evidence(values: str, *more: sa.Column[int]) -> None:
    """The table with further columns of these values, or without them."""
    op.execute("CREATE TABLE evidence_before AS SELECT * FROM evidence")
    op.drop_table("evidence")
    op.create_table(
        "evidence",
        text("node"),
        whole("start_us"),
        whole("revision"),
        text("path"),
        text("digest"),
        whole("size_bytes"),
        *more,
        sa.ForeignKeyConstraint(
            ["node", "start_us"], ["windows.node", "windows.start_us"], name=op.f("fk_evidence_node_start_us")
        ),
        sa.PrimaryKeyConstraint("node", "start_us", "revision", name=op.f("pk_evidence")),
    )
    columns = ", ".join(("node", "start_us", "revision", "path", "digest", "size_bytes"))
    added = f", {values}" if values else ""
    op.execute(f"INSERT INTO evidence SELECT {columns}{added} FROM evidence_before")  # noqa: S608 - our own words
    op.execute("DROP TABLE evidence_before")


def _create_corrections() -> None:
    op.create_table(
        "corrections",
        sa.Column("correction_id", ROW_ID, sa.Identity(always=False), nullable=False),
        text("node"),
        whole("start_us"),
        whole("revision"),
        text("evidence_digest"),
        text("reason"),
        text("principal"),
        whole("created_us"),
        text("digest"),
        text("previous_digest", nullable=True),
        sa.CheckConstraint("length(reason) > 0", name=op.f("ck_corrections_reason")),
        sa.ForeignKeyConstraint(
            ["node", "start_us"], ["windows.node", "windows.start_us"], name=op.f("fk_corrections_node_start_us")
        ),
        sa.PrimaryKeyConstraint("correction_id", name=op.f("pk_corrections")),
    )
    op.create_index("ix_corrections_window", "corrections", ["start_us", "node"])


def _create_adjustments() -> None:
    op.create_table(
        "adjustments",
        sa.Column("adjustment_id", ROW_ID, sa.Identity(always=False), nullable=False),
        whole("correction_id"),
        text("charge_id"),
        text("allocation"),
        whole("ordinal"),
        *(text(name) for name in ("tenant", "project", "sku", "dimension")),
        text("rate_id", nullable=True),
        text("billing_date"),
        *map(whole, SECONDS),
        sa.Column("covered_seconds", sa.BigInteger(), nullable=True),
        whole("quantity"),
        whole("quantity_whole"),
        text("currency"),
        whole("amount_nano"),
        sa.CheckConstraint(f"{SECONDS[0]} = {' + '.join(SECONDS[1:])}", name=op.f("ck_adjustments_gap_classes")),
        sa.CheckConstraint("quantity_whole > 0", name=op.f("ck_adjustments_quantity")),
        sa.CheckConstraint("rate_id IS NOT NULL OR amount_nano = 0", name=op.f("ck_adjustments_unpriced")),
        sa.ForeignKeyConstraint(
            ["correction_id"], ["corrections.correction_id"], name=op.f("fk_adjustments_correction_id")
        ),
        sa.ForeignKeyConstraint(["rate_id"], ["rates.rate_id"], name=op.f("fk_adjustments_rate_id")),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_adjustments_tenant")),
        sa.PrimaryKeyConstraint("adjustment_id", name=op.f("pk_adjustments")),
    )
    op.create_index("ix_adjustments_correction_id", "adjustments", ["correction_id"])
    op.create_index("ix_adjustments_charge_id", "adjustments", ["charge_id"])
    op.create_index("ix_adjustments_tenant_date", "adjustments", ["tenant", "billing_date"])


def _create_daily_charges() -> None:
    key = ("tenant", "billing_date", "project", "sku", "dimension", "rate_id", "quantity_whole", "currency")
    op.create_table(
        "daily_charges",
        *(whole(name) if name == "quantity_whole" else text(name) for name in key),
        *map(whole, ("charges", "adjustments", "granted_seconds", "covered_seconds", "coverable_seconds")),
        *map(whole, ("amount_wholes", "amount_nanos")),
        sa.CheckConstraint(
            "charges >= 0 AND adjustments >= 0 AND charges + adjustments > 0", name=op.f("ck_daily_charges_rows")
        ),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_daily_charges_tenant")),
        sa.PrimaryKeyConstraint(*key, name=op.f("pk_daily_charges")),
    )


def _sum_charges() -> None:
    """Of the charges that there are."""
    op.execute(
        f"""
        INSERT INTO daily_charges (tenant, billing_date, project, sku, dimension, rate_id, quantity_whole, currency,
            charges, adjustments, granted_seconds, covered_seconds, coverable_seconds, amount_wholes, amount_nanos)
        SELECT tenant, billing_date, project, sku, dimension, coalesce(rate_id, ''), quantity_whole, currency,
            count(*), 0, sum(granted_seconds), coalesce(sum(covered_seconds), 0),
            sum(CASE WHEN covered_seconds IS NULL THEN 0 ELSE granted_seconds END),
            sum(amount_nano / {NANO}), sum(amount_nano % {NANO})
        FROM charges
        GROUP BY tenant, billing_date, project, sku, dimension, coalesce(rate_id, ''), quantity_whole, currency
        """  # noqa: S608 - a number of our own
    )
