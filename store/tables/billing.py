"""Prices, windows and money. Written by the meter only.

No clock and no sequence column is part of a charge: rating the same evidence again gives the same rows.
Amounts are integer nano-units of the row's currency.
"""

from sqlalchemy import (
    CheckConstraint,
    ForeignKeyConstraint,
    Index,
    PrimaryKeyConstraint,
    Table,
    UniqueConstraint,
)

from store.tables.charge_columns import gap_classes_check, of_a_charge
from store.tables.metadata import METADATA, instant, interval_check, one_of, text, whole

# A book's currency and gap rules never change: other rules are another book.
price_books = Table(
    "price_books",
    METADATA,
    text("book"),
    text("currency"),
    whole("bridge_seconds"),
    text("host_unreachable"),
    text("collector_down"),
    text("never_ready"),
    PrimaryKeyConstraint("book"),
    CheckConstraint("length(currency) = 3 AND upper(currency) = currency", name="currency"),
    CheckConstraint("bridge_seconds >= 0", name="bridge_seconds"),
    one_of("host_unreachable", "free", "on_record"),
    one_of("collector_down", "free", "on_record"),
    one_of("never_ready", "free", "on_record"),
)

# `rate_id` hashes all but the end, the one thing about a rate that may still be said later. `price` is the exact
# decimal as it was quoted. `changed_us` is when the row was last written.
rates = Table(
    "rates",
    METADATA,
    text("rate_id"),
    text("book"),
    text("dimension"),
    text("sku"),
    text("tenant", nullable=True),
    text("project", nullable=True),
    text("price"),
    text("unit"),
    text("basis", nullable=True),
    instant("start_us"),
    instant("end_us", nullable=True),
    instant("changed_us"),
    PrimaryKeyConstraint("rate_id"),
    ForeignKeyConstraint(["book"], ["price_books.book"]),
    ForeignKeyConstraint(["tenant"], ["tenants.tenant"]),
    interval_check(),
    CheckConstraint("project IS NULL OR tenant IS NOT NULL", name="project"),
    CheckConstraint("(dimension = 'vram') = (basis IS NOT NULL)", name="basis"),
)
Index("ix_rates_book", rates.c.book)

# (UTC hour, node); node '' holds the grants without a device. Rated up to `rated_until_us`; residuals are null
# before the first rating, or where the node's capacity is unknown. `found_us` is when the meter learned that there is
# something to rate; `rated_us` when it read what it last rated, null before the first time.
windows = Table(
    "windows",
    METADATA,
    text("node"),
    instant("start_us"),
    text("state"),
    instant("rated_until_us"),
    whole("revision"),
    text("evidence_digest", nullable=True),
    whole("residual_compute", nullable=True),
    whole("residual_vram", nullable=True),
    whole("unpriced_seconds"),
    instant("found_us"),
    instant("rated_us", nullable=True),
    PrimaryKeyConstraint("node", "start_us"),
    one_of("state", "open", "settled", "closed"),
    CheckConstraint("start_us % 3600000000 = 0", name="hour"),
    CheckConstraint("rated_until_us BETWEEN start_us AND start_us + 3600000000", name="rated_until_us"),
    CheckConstraint("state = 'open' OR evidence_digest IS NOT NULL", name="settled"),
    # coalesce(..., 1): capacity that is not known blocks the close as surely as capacity that does not add up.
    CheckConstraint(
        "state <> 'closed' OR (coalesce(residual_compute, 1) = 0 AND coalesce(residual_vram, 1) = 0 "
        "AND unpriced_seconds = 0)",
        name="closed",
    ),
)
Index("ix_windows_start_us", windows.c.start_us)
Index("ix_windows_found_us", windows.c.found_us)
Index("ix_windows_state", windows.c.state, windows.c.rated_us)

# One revision of a window's frozen evidence; older ones stay. `digest` is SHA-256 of the file's content. It was made of
# `samples` readings, without `quarantined_samples` that no card can have made; `skew_us` is how far the node's clock
# was off at most, null: not measured.
evidence = Table(
    "evidence",
    METADATA,
    text("node"),
    instant("start_us"),
    whole("revision"),
    text("path"),
    text("digest"),
    whole("size_bytes"),
    whole("samples"),
    whole("quarantined_samples"),
    whole("skew_us", nullable=True),
    PrimaryKeyConstraint("node", "start_us", "revision"),
    ForeignKeyConstraint(["node", "start_us"], ["windows.node", "windows.start_us"]),
)

# Which meter is at work on a window, and until when at the latest; gone when it is done. `holder` is another text each
# time, so that a meter which was overtaken cannot write what it read before.
window_leases = Table(
    "window_leases",
    METADATA,
    text("node"),
    instant("start_us"),
    text("holder"),
    instant("until_us"),
    PrimaryKeyConstraint("node", "start_us"),
)

# Money for one grant x dimension x rate x window, cut at the tenant's midnight. `charge_id` hashes that key.
# `rate_id` null is an unpriced row, with amount 0 and its quantity kept. `quantity` counts compute-unit-seconds
# of which `quantity_whole` are one GPU-second, or byte-seconds with `quantity_whole` 1. Of `granted_seconds`,
# the gap classes sum to the whole; `covered_seconds` (those with a valid sample) is null where there is no
# device. `currency` is the tenant's.
charges = Table(
    "charges",
    METADATA,
    text("charge_id"),
    text("node"),
    instant("window_start_us"),
    *of_a_charge(),
    PrimaryKeyConstraint("charge_id"),
    ForeignKeyConstraint(["node", "window_start_us"], ["windows.node", "windows.start_us"]),
    ForeignKeyConstraint(["rate_id"], ["rates.rate_id"]),
    ForeignKeyConstraint(["tenant"], ["tenants.tenant"]),
    gap_classes_check(),
    CheckConstraint("covered_seconds IS NULL OR covered_seconds BETWEEN 0 AND granted_seconds", name="coverage"),
    CheckConstraint("quantity >= 0 AND quantity_whole > 0", name="quantity"),
    CheckConstraint("amount_nano >= 0", name="amount"),
    CheckConstraint("rate_id IS NOT NULL OR amount_nano = 0", name="unpriced"),
)
Index("ix_charges_window", charges.c.window_start_us, charges.c.node)
Index("ix_charges_allocation", charges.c.allocation)
Index("ix_charges_tenant_date", charges.c.tenant, charges.c.billing_date)

# A frozen set of charges of one tenant and period.
invoices = Table(
    "invoices",
    METADATA,
    text("invoice_id"),
    text("tenant"),
    text("first_date"),
    text("last_date"),
    text("currency"),
    whole("total_nano"),
    PrimaryKeyConstraint("invoice_id"),
    ForeignKeyConstraint(["tenant"], ["tenants.tenant"]),
    UniqueConstraint("tenant", "first_date"),
    CheckConstraint("last_date >= first_date", name="period"),
)

invoice_charges = Table(
    "invoice_charges",
    METADATA,
    text("invoice_id"),
    text("charge_id"),
    PrimaryKeyConstraint("invoice_id", "charge_id"),
    ForeignKeyConstraint(["invoice_id"], ["invoices.invoice_id"]),
    ForeignKeyConstraint(["charge_id"], ["charges.charge_id"]),
    UniqueConstraint("charge_id"),
)

# Sums of charges and adjustments for screens, written with them. `rate_id` is '' for unpriced use. Of
# `coverable_seconds` a device is known. An amount is `amount_wholes` and `amount_nanos` of the currency: a sum of some
# ten large amounts in nano-units is beyond 64 bits.
daily_charges = Table(
    "daily_charges",
    METADATA,
    text("tenant"),
    text("billing_date"),
    text("project"),
    text("sku"),
    text("dimension"),
    text("rate_id"),
    whole("quantity_whole"),
    text("currency"),
    whole("charges"),
    whole("adjustments"),
    whole("granted_seconds"),
    whole("covered_seconds"),
    whole("coverable_seconds"),
    whole("amount_wholes"),
    whole("amount_nanos"),
    PrimaryKeyConstraint(
        "tenant", "billing_date", "project", "sku", "dimension", "rate_id", "quantity_whole", "currency"
    ),
    ForeignKeyConstraint(["tenant"], ["tenants.tenant"]),
    CheckConstraint("charges >= 0 AND adjustments >= 0 AND charges + adjustments > 0", name="rows"),
)
