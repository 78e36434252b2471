"""all tables of the first release."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit",
        sa.Column(
            "audit_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(always=False), nullable=False
        ),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("action", sa.Text(), nullable=False),
        sa.Column("subject", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("audit_id", name=op.f("pk_audit")),
    )
    op.create_table(
        "device_states",
        sa.Column(
            "device_state_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            sa.Identity(always=False),
            nullable=False,
        ),
        sa.Column("gpu_uuid", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=True),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("state IN ('ok', 'suspect', 'draining', 'failed')", name=op.f("ck_device_states_state")),
        sa.CheckConstraint("end_us IS NULL OR end_us >= start_us", name=op.f("ck_device_states_interval")),
        sa.PrimaryKeyConstraint("device_state_id", name=op.f("pk_device_states")),
    )
    with op.batch_alter_table("device_states", schema=None) as batch_op:
        batch_op.create_index("ix_device_states_changed_us", ["changed_us"], unique=False)
        batch_op.create_index(
            "uq_device_states_open",
            ["gpu_uuid"],
            unique=True,
            sqlite_where=sa.text("end_us IS NULL"),
            postgresql_where=sa.text("end_us IS NULL"),
        )

    op.create_table(
        "events",
        sa.Column(
            "event_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(always=False), nullable=False
        ),
        sa.Column("at_us", sa.BigInteger(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("gpu_uuid", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("event_id", name=op.f("pk_events")),
    )
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.create_index("ix_events_at_us", ["at_us"], unique=False)

    op.create_table(
        "hour_digests",
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("previous_digest", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("start_us", name=op.f("pk_hour_digests")),
    )
    op.create_table(
        "mig_periods",
        sa.Column(
            "mig_period_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            sa.Identity(always=False),
            nullable=False,
        ),
        sa.Column("mig_uuid", sa.Text(), nullable=False),
        sa.Column("gpu_uuid", sa.Text(), nullable=False),
        sa.Column("gi_id", sa.BigInteger(), nullable=False),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("start_slice", sa.BigInteger(), nullable=False),
        sa.Column("slices", sa.BigInteger(), nullable=False),
        sa.Column("sm_count", sa.BigInteger(), nullable=False),
        sa.Column("vram_bytes", sa.BigInteger(), nullable=False),
        sa.Column("origin", sa.Text(), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=True),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("origin IN ('ours', 'foreign', 'adopted')", name=op.f("ck_mig_periods_origin")),
        sa.CheckConstraint("end_us IS NULL OR end_us >= start_us", name=op.f("ck_mig_periods_interval")),
        sa.CheckConstraint("sm_count > 0 AND vram_bytes > 0", name=op.f("ck_mig_periods_size")),
        sa.CheckConstraint("start_slice >= 0 AND slices > 0", name=op.f("ck_mig_periods_placement")),
        sa.PrimaryKeyConstraint("mig_period_id", name=op.f("pk_mig_periods")),
        sa.UniqueConstraint("mig_uuid", "start_us", name=op.f("uq_mig_periods_mig_uuid_start_us")),
    )
    with op.batch_alter_table("mig_periods", schema=None) as batch_op:
        batch_op.create_index("ix_mig_periods_changed_us", ["changed_us"], unique=False)
        batch_op.create_index("ix_mig_periods_gpu_uuid", ["gpu_uuid"], unique=False)
        batch_op.create_index(
            "uq_mig_periods_open",
            ["mig_uuid"],
            unique=True,
            sqlite_where=sa.text("end_us IS NULL"),
            postgresql_where=sa.text("end_us IS NULL"),
        )

    op.create_table(
        "nodes",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("inventory_us", sa.BigInteger(), nullable=True),
        sa.PrimaryKeyConstraint("node", name=op.f("pk_nodes")),
    )
    op.create_table(
        "price_books",
        sa.Column("book", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("bridge_seconds", sa.BigInteger(), nullable=False),
        sa.Column("host_unreachable", sa.Text(), nullable=False),
        sa.Column("collector_down", sa.Text(), nullable=False),
        sa.Column("never_ready", sa.Text(), nullable=False),
        sa.CheckConstraint("collector_down IN ('free', 'on_record')", name=op.f("ck_price_books_collector_down")),
        sa.CheckConstraint("host_unreachable IN ('free', 'on_record')", name=op.f("ck_price_books_host_unreachable")),
        sa.CheckConstraint("never_ready IN ('free', 'on_record')", name=op.f("ck_price_books_never_ready")),
        sa.CheckConstraint("bridge_seconds >= 0", name=op.f("ck_price_books_bridge_seconds")),
        sa.CheckConstraint("length(currency) = 3 AND upper(currency) = currency", name=op.f("ck_price_books_currency")),
        sa.PrimaryKeyConstraint("book", name=op.f("pk_price_books")),
    )
    op.create_table(
        "tenants",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("billing_zone", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("length(currency) = 3 AND upper(currency) = currency", name=op.f("ck_tenants_currency")),
        sa.PrimaryKeyConstraint("tenant", name=op.f("pk_tenants")),
    )
    op.create_table(
        "windows",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("rated_until_us", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("evidence_digest", sa.Text(), nullable=True),
        sa.Column("residual_compute", sa.BigInteger(), nullable=True),
        sa.Column("residual_vram", sa.BigInteger(), nullable=True),
        sa.Column("unpriced_seconds", sa.BigInteger(), nullable=False),
        sa.Column("found_us", sa.BigInteger(), nullable=False),
        sa.Column("rated_us", sa.BigInteger(), nullable=True),
        sa.CheckConstraint(
            "state <> 'closed' OR (coalesce(residual_compute, 1) = 0 AND coalesce(residual_vram, 1) = 0 AND unpriced_seconds = 0)",
            name=op.f("ck_windows_closed"),
        ),
        sa.CheckConstraint("state = 'open' OR evidence_digest IS NOT NULL", name=op.f("ck_windows_settled")),
        sa.CheckConstraint("state IN ('open', 'settled', 'closed')", name=op.f("ck_windows_state")),
        sa.CheckConstraint(
            "rated_until_us BETWEEN start_us AND start_us + 3600000000", name=op.f("ck_windows_rated_until_us")
        ),
        sa.CheckConstraint("start_us % 3600000000 = 0", name=op.f("ck_windows_hour")),
        sa.PrimaryKeyConstraint("node", "start_us", name=op.f("pk_windows")),
    )
    with op.batch_alter_table("windows", schema=None) as batch_op:
        batch_op.create_index("ix_windows_found_us", ["found_us"], unique=False)
        batch_op.create_index("ix_windows_start_us", ["start_us"], unique=False)
        batch_op.create_index("ix_windows_state", ["state", "rated_us"], unique=False)

    op.create_table(
        "daily_charges",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("billing_date", sa.Text(), nullable=False),
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("dimension", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("granted_seconds", sa.BigInteger(), nullable=False),
        sa.Column("covered_seconds", sa.BigInteger(), nullable=True),
        sa.Column("amount_nano", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_daily_charges_tenant")),
        sa.PrimaryKeyConstraint("tenant", "project", "billing_date", "sku", "dimension", name=op.f("pk_daily_charges")),
    )
    op.create_table(
        "device_periods",
        sa.Column(
            "device_period_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            sa.Identity(always=False),
            nullable=False,
        ),
        sa.Column("gpu_uuid", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("device_index", sa.BigInteger(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("compute_units", sa.BigInteger(), nullable=False),
        sa.Column("vram_total_bytes", sa.BigInteger(), nullable=False),
        sa.Column("vram_reserved_bytes", sa.BigInteger(), nullable=False),
        sa.Column("mig_enabled", sa.Boolean(), nullable=False),
        sa.Column("offered_profiles", sa.Text(), nullable=False),
        sa.Column("share_min_milli", sa.BigInteger(), nullable=True),
        sa.Column("share_min_vram_bytes", sa.BigInteger(), nullable=True),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=True),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "(share_min_milli IS NULL) = (share_min_vram_bytes IS NULL)", name=op.f("ck_device_periods_share_grain")
        ),
        sa.CheckConstraint(
            "NOT (mig_enabled AND share_min_milli IS NOT NULL)", name=op.f("ck_device_periods_sold_one_way")
        ),
        sa.CheckConstraint("compute_units > 0", name=op.f("ck_device_periods_compute_units")),
        sa.CheckConstraint("end_us IS NULL OR end_us >= start_us", name=op.f("ck_device_periods_interval")),
        sa.CheckConstraint(
            "share_min_milli IS NULL OR (share_min_milli BETWEEN 1 AND 1000)",
            name=op.f("ck_device_periods_share_min_milli"),
        ),
        sa.CheckConstraint(
            "vram_reserved_bytes >= 0 AND vram_total_bytes > vram_reserved_bytes", name=op.f("ck_device_periods_vram")
        ),
        sa.ForeignKeyConstraint(["node"], ["nodes.node"], name=op.f("fk_device_periods_node")),
        sa.PrimaryKeyConstraint("device_period_id", name=op.f("pk_device_periods")),
        sa.UniqueConstraint("gpu_uuid", "start_us", name=op.f("uq_device_periods_gpu_uuid_start_us")),
    )
    with op.batch_alter_table("device_periods", schema=None) as batch_op:
        batch_op.create_index("ix_device_periods_changed_us", ["changed_us"], unique=False)
        batch_op.create_index("ix_device_periods_node", ["node"], unique=False)
        batch_op.create_index(
            "uq_device_periods_open",
            ["gpu_uuid"],
            unique=True,
            sqlite_where=sa.text("end_us IS NULL"),
            postgresql_where=sa.text("end_us IS NULL"),
        )

    op.create_table(
        "evidence",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(
            ["node", "start_us"], ["windows.node", "windows.start_us"], name=op.f("fk_evidence_node_start_us")
        ),
        sa.PrimaryKeyConstraint("node", "start_us", "revision", name=op.f("pk_evidence")),
    )
    op.create_table(
        "invoices",
        sa.Column("invoice_id", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("first_date", sa.Text(), nullable=False),
        sa.Column("last_date", sa.Text(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("total_nano", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("last_date >= first_date", name=op.f("ck_invoices_period")),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_invoices_tenant")),
        sa.PrimaryKeyConstraint("invoice_id", name=op.f("pk_invoices")),
        sa.UniqueConstraint("tenant", "first_date", name=op.f("uq_invoices_tenant_first_date")),
    )
    op.create_table(
        "node_contacts",
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("end_us >= start_us", name=op.f("ck_node_contacts_interval")),
        sa.ForeignKeyConstraint(["node"], ["nodes.node"], name=op.f("fk_node_contacts_node")),
        sa.PrimaryKeyConstraint("node", "start_us", name=op.f("pk_node_contacts")),
    )
    op.create_table(
        "projects",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_projects_tenant")),
        sa.PrimaryKeyConstraint("tenant", "project", name=op.f("pk_projects")),
    )
    op.create_table(
        "rates",
        sa.Column("rate_id", sa.Text(), nullable=False),
        sa.Column("book", sa.Text(), nullable=False),
        sa.Column("dimension", sa.Text(), nullable=False),
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("project", sa.Text(), nullable=True),
        sa.Column("price", sa.Text(), nullable=False),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("basis", sa.Text(), nullable=True),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=True),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("(dimension = 'vram') = (basis IS NOT NULL)", name=op.f("ck_rates_basis")),
        sa.CheckConstraint("end_us IS NULL OR end_us >= start_us", name=op.f("ck_rates_interval")),
        sa.CheckConstraint("project IS NULL OR tenant IS NOT NULL", name=op.f("ck_rates_project")),
        sa.ForeignKeyConstraint(["book"], ["price_books.book"], name=op.f("fk_rates_book")),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_rates_tenant")),
        sa.PrimaryKeyConstraint("rate_id", name=op.f("pk_rates")),
    )
    with op.batch_alter_table("rates", schema=None) as batch_op:
        batch_op.create_index("ix_rates_book", ["book"], unique=False)

    op.create_table(
        "tenant_books",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("book", sa.Text(), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.ForeignKeyConstraint(["book"], ["price_books.book"], name=op.f("fk_tenant_books_book")),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_tenant_books_tenant")),
        sa.PrimaryKeyConstraint("tenant", "start_us", name=op.f("pk_tenant_books")),
    )
    op.create_table(
        "tokens",
        sa.Column("token_id", sa.Text(), nullable=False),
        sa.Column("token_hash", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=True),
        sa.Column("node", sa.Text(), nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.Column("expires_us", sa.BigInteger(), nullable=False),
        sa.Column("revoked_us", sa.BigInteger(), nullable=True),
        sa.CheckConstraint("(role = 'node') = (node IS NOT NULL)", name=op.f("ck_tokens_node_role")),
        sa.CheckConstraint("(role = 'tenant') = (tenant IS NOT NULL)", name=op.f("ck_tokens_tenant_role")),
        sa.CheckConstraint("role IN ('tenant', 'billing', 'operator', 'node')", name=op.f("ck_tokens_role")),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_tokens_tenant")),
        sa.PrimaryKeyConstraint("token_id", name=op.f("pk_tokens")),
        sa.UniqueConstraint("token_hash", name=op.f("uq_tokens_token_hash")),
    )
    op.create_table(
        "allocations",
        sa.Column("allocation", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("source", sa.Text(), nullable=False),
        sa.Column("source_id", sa.Text(), nullable=True),
        sa.Column("labels", sa.Text(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("request_digest", sa.Text(), nullable=True),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint(
            "(idempotency_key IS NULL) = (request_digest IS NULL)", name=op.f("ck_allocations_idempotency")
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "project"], ["projects.tenant", "projects.project"], name=op.f("fk_allocations_tenant_project")
        ),
        sa.PrimaryKeyConstraint("allocation", name=op.f("pk_allocations")),
        sa.UniqueConstraint("tenant", "idempotency_key", name=op.f("uq_allocations_tenant_idempotency_key")),
    )
    op.create_table(
        "charges",
        sa.Column("charge_id", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("window_start_us", sa.BigInteger(), nullable=False),
        sa.Column("allocation", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("project", sa.Text(), nullable=False),
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("dimension", sa.Text(), nullable=False),
        sa.Column("rate_id", sa.Text(), nullable=True),
        sa.Column("billing_date", sa.Text(), nullable=False),
        sa.Column("granted_seconds", sa.BigInteger(), nullable=False),
        sa.Column("measured_seconds", sa.BigInteger(), nullable=False),
        sa.Column("bridged_seconds", sa.BigInteger(), nullable=False),
        sa.Column("on_record_seconds", sa.BigInteger(), nullable=False),
        sa.Column("free_seconds", sa.BigInteger(), nullable=False),
        sa.Column("covered_seconds", sa.BigInteger(), nullable=True),
        sa.Column("quantity", sa.BigInteger(), nullable=False),
        sa.Column("quantity_whole", sa.BigInteger(), nullable=False),
        sa.Column("currency", sa.Text(), nullable=False),
        sa.Column("amount_nano", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("amount_nano >= 0", name=op.f("ck_charges_amount")),
        sa.CheckConstraint(
            "covered_seconds IS NULL OR covered_seconds BETWEEN 0 AND granted_seconds", name=op.f("ck_charges_coverage")
        ),
        sa.CheckConstraint(
            "granted_seconds = measured_seconds + bridged_seconds + on_record_seconds + free_seconds",
            name=op.f("ck_charges_gap_classes"),
        ),
        sa.CheckConstraint("quantity >= 0 AND quantity_whole > 0", name=op.f("ck_charges_quantity")),
        sa.CheckConstraint("rate_id IS NOT NULL OR amount_nano = 0", name=op.f("ck_charges_unpriced")),
        sa.ForeignKeyConstraint(
            ["node", "window_start_us"],
            ["windows.node", "windows.start_us"],
            name=op.f("fk_charges_node_window_start_us"),
        ),
        sa.ForeignKeyConstraint(["rate_id"], ["rates.rate_id"], name=op.f("fk_charges_rate_id")),
        sa.ForeignKeyConstraint(["tenant"], ["tenants.tenant"], name=op.f("fk_charges_tenant")),
        sa.PrimaryKeyConstraint("charge_id", name=op.f("pk_charges")),
    )
    with op.batch_alter_table("charges", schema=None) as batch_op:
        batch_op.create_index("ix_charges_allocation", ["allocation"], unique=False)
        batch_op.create_index("ix_charges_tenant_date", ["tenant", "billing_date"], unique=False)
        batch_op.create_index("ix_charges_window", ["window_start_us", "node"], unique=False)

    op.create_table(
        "adjustments",
        sa.Column(
            "adjustment_id",
            sa.BigInteger().with_variant(sa.Integer(), "sqlite"),
            sa.Identity(always=False),
            nullable=False,
        ),
        sa.Column("charge_id", sa.Text(), nullable=False),
        sa.Column("amount_nano", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("principal", sa.Text(), nullable=False),
        sa.Column("created_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("amount_nano <> 0", name=op.f("ck_adjustments_amount")),
        sa.ForeignKeyConstraint(["charge_id"], ["charges.charge_id"], name=op.f("fk_adjustments_charge_id")),
        sa.PrimaryKeyConstraint("adjustment_id", name=op.f("pk_adjustments")),
    )
    with op.batch_alter_table("adjustments", schema=None) as batch_op:
        batch_op.create_index("ix_adjustments_charge_id", ["charge_id"], unique=False)

    op.create_table(
        "grants",
        sa.Column("allocation", sa.Text(), nullable=False),
        sa.Column("ordinal", sa.BigInteger(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("gpu_uuid", sa.Text(), nullable=True),
        sa.Column("mig_uuid", sa.Text(), nullable=True),
        sa.Column("mig_start", sa.BigInteger(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("sku", sa.Text(), nullable=False),
        sa.Column("compute_units", sa.BigInteger(), nullable=False),
        sa.Column("compute_units_total", sa.BigInteger(), nullable=False),
        sa.Column("vram_bytes", sa.BigInteger(), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=True),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("gpu_uuid IS NULL OR node <> ''", name=op.f("ck_grants_node")),
        sa.CheckConstraint("kind <> 'whole' OR compute_units = compute_units_total", name=op.f("ck_grants_whole")),
        sa.CheckConstraint("kind = 'mig' OR mig_uuid IS NULL", name=op.f("ck_grants_mig")),
        sa.CheckConstraint("kind IN ('whole', 'mig', 'share')", name=op.f("ck_grants_kind")),
        sa.CheckConstraint(
            "compute_units >= 0 AND compute_units <= compute_units_total", name=op.f("ck_grants_compute_units")
        ),
        sa.CheckConstraint("compute_units_total > 0", name=op.f("ck_grants_compute_units_total")),
        sa.CheckConstraint("end_us IS NULL OR end_us >= start_us", name=op.f("ck_grants_interval")),
        sa.CheckConstraint("gpu_uuid IS NOT NULL OR mig_uuid IS NULL", name=op.f("ck_grants_device")),
        sa.CheckConstraint("ordinal >= 0", name=op.f("ck_grants_ordinal")),
        sa.CheckConstraint("vram_bytes >= 0", name=op.f("ck_grants_vram_bytes")),
        sa.ForeignKeyConstraint(["allocation"], ["allocations.allocation"], name=op.f("fk_grants_allocation")),
        sa.PrimaryKeyConstraint("allocation", "ordinal", name=op.f("pk_grants")),
    )
    with op.batch_alter_table("grants", schema=None) as batch_op:
        batch_op.create_index("ix_grants_changed_us", ["changed_us"], unique=False)
        batch_op.create_index("ix_grants_end_us", ["end_us"], unique=False)
        batch_op.create_index("ix_grants_gpu_uuid", ["gpu_uuid"], unique=False)
        batch_op.create_index("ix_grants_node_end_us", ["node", "end_us"], unique=False)
        batch_op.create_index(
            "uq_grants_open_mig",
            ["mig_uuid"],
            unique=True,
            sqlite_where=sa.text("end_us IS NULL AND kind = 'mig'"),
            postgresql_where=sa.text("end_us IS NULL AND kind = 'mig'"),
        )
        batch_op.create_index(
            "uq_grants_open_whole",
            ["gpu_uuid"],
            unique=True,
            sqlite_where=sa.text("end_us IS NULL AND kind = 'whole'"),
            postgresql_where=sa.text("end_us IS NULL AND kind = 'whole'"),
        )

    op.create_table(
        "holds",
        sa.Column(
            "hold_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(always=False), nullable=False
        ),
        sa.Column("gpu_uuid", sa.Text(), nullable=False),
        sa.Column("mig_uuid", sa.Text(), nullable=True),
        sa.Column("allocation", sa.Text(), nullable=True),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("compute_units", sa.BigInteger(), nullable=False),
        sa.Column("vram_bytes", sa.BigInteger(), nullable=False),
        sa.Column("start_us", sa.BigInteger(), nullable=False),
        sa.Column("end_us", sa.BigInteger(), nullable=True),
        sa.Column("changed_us", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("reason IN ('reserved', 'verifying', 'releasing')", name=op.f("ck_holds_reason")),
        sa.CheckConstraint("compute_units >= 0 AND vram_bytes >= 0", name=op.f("ck_holds_size")),
        sa.CheckConstraint("end_us IS NULL OR end_us >= start_us", name=op.f("ck_holds_interval")),
        sa.ForeignKeyConstraint(["allocation"], ["allocations.allocation"], name=op.f("fk_holds_allocation")),
        sa.PrimaryKeyConstraint("hold_id", name=op.f("pk_holds")),
    )
    with op.batch_alter_table("holds", schema=None) as batch_op:
        batch_op.create_index("ix_holds_changed_us", ["changed_us"], unique=False)
        batch_op.create_index("ix_holds_gpu_uuid", ["gpu_uuid"], unique=False)

    op.create_table(
        "invoice_charges",
        sa.Column("invoice_id", sa.Text(), nullable=False),
        sa.Column("charge_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["charge_id"], ["charges.charge_id"], name=op.f("fk_invoice_charges_charge_id")),
        sa.ForeignKeyConstraint(["invoice_id"], ["invoices.invoice_id"], name=op.f("fk_invoice_charges_invoice_id")),
        sa.PrimaryKeyConstraint("invoice_id", "charge_id", name=op.f("pk_invoice_charges")),
        sa.UniqueConstraint("charge_id", name=op.f("uq_invoice_charges_charge_id")),
    )


def downgrade() -> None:
    op.drop_table("invoice_charges")
    with op.batch_alter_table("holds", schema=None) as batch_op:
        batch_op.drop_index("ix_holds_gpu_uuid")
        batch_op.drop_index("ix_holds_changed_us")

    op.drop_table("holds")
    with op.batch_alter_table("grants", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_grants_open_whole",
            sqlite_where=sa.text("end_us IS NULL AND kind = 'whole'"),
            postgresql_where=sa.text("end_us IS NULL AND kind = 'whole'"),
        )
        batch_op.drop_index(
            "uq_grants_open_mig",
            sqlite_where=sa.text("end_us IS NULL AND kind = 'mig'"),
            postgresql_where=sa.text("end_us IS NULL AND kind = 'mig'"),
        )
        batch_op.drop_index("ix_grants_node_end_us")
        batch_op.drop_index("ix_grants_gpu_uuid")
        batch_op.drop_index("ix_grants_end_us")
        batch_op.drop_index("ix_grants_changed_us")

    op.drop_table("grants")
    with op.batch_alter_table("adjustments", schema=None) as batch_op:
        batch_op.drop_index("ix_adjustments_charge_id")

    op.drop_table("adjustments")
    with op.batch_alter_table("charges", schema=None) as batch_op:
        batch_op.drop_index("ix_charges_window")
        batch_op.drop_index("ix_charges_tenant_date")
        batch_op.drop_index("ix_charges_allocation")

    op.drop_table("charges")
    op.drop_table("allocations")
    op.drop_table("tokens")
    op.drop_table("tenant_books")
    with op.batch_alter_table("rates", schema=None) as batch_op:
        batch_op.drop_index("ix_rates_book")

    op.drop_table("rates")
    op.drop_table("projects")
    op.drop_table("node_contacts")
    op.drop_table("invoices")
    op.drop_table("evidence")
    with op.batch_alter_table("device_periods", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_device_periods_open", sqlite_where=sa.text("end_us IS NULL"), postgresql_where=sa.text("end_us IS NULL")
        )
        batch_op.drop_index("ix_device_periods_node")
        batch_op.drop_index("ix_device_periods_changed_us")

    op.drop_table("device_periods")
    op.drop_table("daily_charges")
    with op.batch_alter_table("windows", schema=None) as batch_op:
        batch_op.drop_index("ix_windows_state")
        batch_op.drop_index("ix_windows_start_us")
        batch_op.drop_index("ix_windows_found_us")

    op.drop_table("windows")
    op.drop_table("tenants")
    op.drop_table("price_books")
    op.drop_table("nodes")
    with op.batch_alter_table("mig_periods", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_mig_periods_open", sqlite_where=sa.text("end_us IS NULL"), postgresql_where=sa.text("end_us IS NULL")
        )
        batch_op.drop_index("ix_mig_periods_gpu_uuid")
        batch_op.drop_index("ix_mig_periods_changed_us")

    op.drop_table("mig_periods")
    op.drop_table("hour_digests")
    with op.batch_alter_table("events", schema=None) as batch_op:
        batch_op.drop_index("ix_events_at_us")

    op.drop_table("events")
    with op.batch_alter_table("device_states", schema=None) as batch_op:
        batch_op.drop_index(
            "uq_device_states_open", sqlite_where=sa.text("end_us IS NULL"), postgresql_where=sa.text("end_us IS NULL")
        )
        batch_op.drop_index("ix_device_states_changed_us")

    op.drop_table("device_states")
    op.drop_table("audit")
