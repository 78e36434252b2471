"""What is closed, and how it was corrected since. Written by the meter only, and only added to."""

from sqlalchemy import CheckConstraint, ForeignKeyConstraint, Index, PrimaryKeyConstraint, Table

from store.tables.charge_columns import gap_classes_check, of_a_charge
from store.tables.metadata import METADATA, instant, row_id, text, whole

# A closed hour. Its digest is over its nodes in name order and the digest of the hour closed before.
hour_digests = Table(
    "hour_digests",
    METADATA,
    instant("start_us"),
    text("digest"),
    text("previous_digest", nullable=True),
    PrimaryKeyConstraint("start_us"),
)

# Of how many device-seconds of a closed window samples came after the close, as was last seen.
late_samples = Table(
    "late_samples",
    METADATA,
    text("node"),
    instant("start_us"),
    whole("seconds"),
    PrimaryKeyConstraint("node", "start_us"),
    ForeignKeyConstraint(["node", "start_us"], ["windows.node", "windows.start_us"]),
    CheckConstraint("seconds > 0", name="seconds"),
)

# What was said of a closed window later. `revision` is that of the evidence which the adjustments stand on; `digest` is
# over them, and over the digest of the correction before.
corrections = Table(
    "corrections",
    METADATA,
    row_id("correction_id"),
    text("node"),
    instant("start_us"),
    whole("revision"),
    text("evidence_digest"),
    text("reason"),
    text("principal"),
    instant("created_us"),
    text("digest"),
    text("previous_digest", nullable=True),
    ForeignKeyConstraint(["node", "start_us"], ["windows.node", "windows.start_us"]),
    CheckConstraint("length(reason) > 0", name="reason"),
)
Index("ix_corrections_window", corrections.c.start_us, corrections.c.node)

# By how much a closed charge is put right; what is not in the ledger, such as a grant that was recorded late, counts as
# a charge of nothing. Each number is the difference, so that charge and adjustments sum to what is owed.
adjustments = Table(
    "adjustments",
    METADATA,
    row_id("adjustment_id"),
    whole("correction_id"),
    text("charge_id"),
    *of_a_charge(),
    ForeignKeyConstraint(["correction_id"], ["corrections.correction_id"]),
    ForeignKeyConstraint(["rate_id"], ["rates.rate_id"]),
    ForeignKeyConstraint(["tenant"], ["tenants.tenant"]),
    gap_classes_check(),
    CheckConstraint("quantity_whole > 0", name="quantity"),
    CheckConstraint("rate_id IS NOT NULL OR amount_nano = 0", name="unpriced"),
)
Index("ix_adjustments_correction_id", adjustments.c.correction_id)
Index("ix_adjustments_charge_id", adjustments.c.charge_id)
Index("ix_adjustments_tenant_date", adjustments.c.tenant, adjustments.c.billing_date)
