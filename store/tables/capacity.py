"""What hardware there is and who holds it. Written by the allocator service only.

Every interval is half-open and of microseconds UTC; `end_us` null means "still".
"""

from sqlalchemy import (
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
)

from store.tables.metadata import METADATA, instant, interval_check, one_of, row_id, text, unique_where, whole

# `inventory_us` is the instant of the last inventory report the service holds; null before the first.
nodes = Table(
    "nodes",
    METADATA,
    text("node"),
    instant("created_us"),
    instant("inventory_us", nullable=True),
    PrimaryKeyConstraint("node"),
)

# Stretches in which the node kept reporting; `end_us` is the last heartbeat of the stretch.
node_contacts = Table(
    "node_contacts",
    METADATA,
    text("node"),
    instant("start_us"),
    instant("end_us"),
    PrimaryKeyConstraint("node", "start_us"),
    ForeignKeyConstraint(["node"], ["nodes.node"]),
    CheckConstraint("end_us >= start_us", name="interval"),
)

# A card as it was over an interval; whatever changes of it begins the next period. `share_min_milli` is null on
# a card that is sold whole or in MIG instances; `offered_profiles` is comma separated, empty where MIG is off.
# `changed_us` is when the row was last written, by the database's clock, in every table of intervals: a report or
# record may speak of an hour that is long settled.
device_periods = Table(
    "device_periods",
    METADATA,
    row_id("device_period_id"),
    text("gpu_uuid"),
    text("node"),
    whole("device_index"),
    text("model"),
    text("sku"),
    whole("compute_units"),
    whole("vram_total_bytes"),
    whole("vram_reserved_bytes"),
    Column("mig_enabled", Boolean, nullable=False),
    text("offered_profiles"),
    whole("share_min_milli", nullable=True),
    whole("share_min_vram_bytes", nullable=True),
    instant("start_us"),
    instant("end_us", nullable=True),
    instant("changed_us"),
    ForeignKeyConstraint(["node"], ["nodes.node"]),
    UniqueConstraint("gpu_uuid", "start_us"),
    interval_check(),
    CheckConstraint("compute_units > 0", name="compute_units"),
    CheckConstraint("vram_reserved_bytes >= 0 AND vram_total_bytes > vram_reserved_bytes", name="vram"),
    CheckConstraint("(share_min_milli IS NULL) = (share_min_vram_bytes IS NULL)", name="share_grain"),
    CheckConstraint("share_min_milli IS NULL OR (share_min_milli BETWEEN 1 AND 1000)", name="share_min_milli"),
    CheckConstraint("NOT (mig_enabled AND share_min_milli IS NOT NULL)", name="sold_one_way"),
)
unique_where("uq_device_periods_open", device_periods.c.end_us.is_(None), device_periods.c.gpu_uuid)
Index("ix_device_periods_node", device_periods.c.node)
Index("ix_device_periods_changed_us", device_periods.c.changed_us)

# A GPU instance as it was over an interval; a UUID that comes back is a new row. Sizes are the hardware's own.
# A foreign instance was made by somebody else and cannot be granted until it is adopted.
mig_periods = Table(
    "mig_periods",
    METADATA,
    row_id("mig_period_id"),
    text("mig_uuid"),
    text("gpu_uuid"),
    whole("gi_id"),
    text("profile"),
    whole("start_slice"),
    whole("slices"),
    whole("sm_count"),
    whole("vram_bytes"),
    text("origin"),
    instant("start_us"),
    instant("end_us", nullable=True),
    instant("changed_us"),
    UniqueConstraint("mig_uuid", "start_us"),
    interval_check(),
    one_of("origin", "ours", "foreign", "adopted"),
    CheckConstraint("start_slice >= 0 AND slices > 0", name="placement"),
    CheckConstraint("sm_count > 0 AND vram_bytes > 0", name="size"),
)
unique_where("uq_mig_periods_open", mig_periods.c.end_us.is_(None), mig_periods.c.mig_uuid)
Index("ix_mig_periods_gpu_uuid", mig_periods.c.gpu_uuid)
Index("ix_mig_periods_changed_us", mig_periods.c.changed_us)

device_states = Table(
    "device_states",
    METADATA,
    row_id("device_state_id"),
    text("gpu_uuid"),
    text("state"),
    text("reason"),
    instant("start_us"),
    instant("end_us", nullable=True),
    instant("changed_us"),
    interval_check(),
    one_of("state", "ok", "suspect", "draining", "failed"),
)
unique_where("uq_device_states_open", device_states.c.end_us.is_(None), device_states.c.gpu_uuid)
Index("ix_device_states_changed_us", device_states.c.changed_us)

# `source` is who said so: "service", or the name an import was given. `labels` is a JSON object.
allocations = Table(
    "allocations",
    METADATA,
    text("allocation"),
    text("tenant"),
    text("project"),
    text("source"),
    text("source_id", nullable=True),
    text("labels"),
    text("idempotency_key", nullable=True),
    text("request_digest", nullable=True),
    instant("created_us"),
    PrimaryKeyConstraint("allocation"),
    ForeignKeyConstraint(["tenant", "project"], ["projects.tenant", "projects.project"]),
    UniqueConstraint("tenant", "idempotency_key"),
    CheckConstraint("(idempotency_key IS NULL) = (request_digest IS NULL)", name="idempotency"),
)

# The part of an allocation on one device. Equal rows of one import are separate grants, told apart by `ordinal`.
# `gpu_uuid` null is a record-only grant: no device is known for it.
grants = Table(
    "grants",
    METADATA,
    text("allocation"),
    whole("ordinal"),
    text("node"),
    text("gpu_uuid", nullable=True),
    text("mig_uuid", nullable=True),
    whole("mig_start", nullable=True),
    text("kind"),
    text("model"),
    text("sku"),
    whole("compute_units"),
    whole("compute_units_total"),
    whole("vram_bytes"),
    instant("start_us"),
    instant("end_us", nullable=True),
    instant("changed_us"),
    PrimaryKeyConstraint("allocation", "ordinal"),
    ForeignKeyConstraint(["allocation"], ["allocations.allocation"]),
    interval_check(),
    one_of("kind", "whole", "mig", "share"),
    CheckConstraint("ordinal >= 0", name="ordinal"),
    CheckConstraint("compute_units >= 0 AND compute_units <= compute_units_total", name="compute_units"),
    CheckConstraint("compute_units_total > 0", name="compute_units_total"),
    CheckConstraint("kind <> 'whole' OR compute_units = compute_units_total", name="whole"),
    CheckConstraint("kind = 'mig' OR mig_uuid IS NULL", name="mig"),
    CheckConstraint("gpu_uuid IS NOT NULL OR mig_uuid IS NULL", name="device"),
    # The windows of node '' hold the grants without a device, and only those.
    CheckConstraint("gpu_uuid IS NULL OR node <> ''", name="node"),
    CheckConstraint("vram_bytes >= 0", name="vram_bytes"),
)
_OPEN = grants.c.end_us.is_(None)
unique_where("uq_grants_open_whole", _OPEN & (grants.c.kind == "whole"), grants.c.gpu_uuid)
unique_where("uq_grants_open_mig", _OPEN & (grants.c.kind == "mig"), grants.c.mig_uuid)
Index("ix_grants_gpu_uuid", grants.c.gpu_uuid)
Index("ix_grants_node_end_us", grants.c.node, grants.c.end_us)
Index("ix_grants_end_us", grants.c.end_us)
Index("ix_grants_changed_us", grants.c.changed_us)

# Capacity that is taken but not billed.
holds = Table(
    "holds",
    METADATA,
    row_id("hold_id"),
    text("gpu_uuid"),
    text("mig_uuid", nullable=True),
    text("allocation", nullable=True),
    text("reason"),
    whole("compute_units"),
    whole("vram_bytes"),
    instant("start_us"),
    instant("end_us", nullable=True),
    instant("changed_us"),
    ForeignKeyConstraint(["allocation"], ["allocations.allocation"]),
    interval_check(),
    one_of("reason", "reserved", "verifying", "releasing"),
    CheckConstraint("compute_units >= 0 AND vram_bytes >= 0", name="size"),
)
Index("ix_holds_gpu_uuid", holds.c.gpu_uuid)
Index("ix_holds_changed_us", holds.c.changed_us)

# What happened to a node or a card. `detail` is a JSON object.
events = Table(
    "events",
    METADATA,
    row_id("event_id"),
    instant("at_us"),
    text("node"),
    text("gpu_uuid", nullable=True),
    text("kind"),
    text("detail"),
)
Index("ix_events_at_us", events.c.at_us)
