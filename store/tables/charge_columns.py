"""The columns that a charge and what adjusts it have in common."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import CheckConstraint, Column

from store.tables.metadata import text, whole


def of_a_charge() -> Iterator[Column[Any]]:
    """New columns for a table of either, in their order: whose it is, what it is for, and what it comes to."""
    yield text("allocation")
    yield whole("ordinal")
    for name in ("tenant", "project", "sku", "dimension"):
        yield text(name)
    yield text("rate_id", nullable=True)
    yield text("billing_date")
    for name in ("granted_seconds", "measured_seconds", "bridged_seconds", "on_record_seconds", "free_seconds"):
        yield whole(name)
    yield whole("covered_seconds", nullable=True)
    yield whole("quantity")
    yield whole("quantity_whole")
    yield text("currency")
    yield whole("amount_nano")


def gap_classes_check() -> CheckConstraint:
    """The classes of the seconds sum to those granted."""
    return CheckConstraint(
        "granted_seconds = measured_seconds + bridged_seconds + on_record_seconds + free_seconds", name="gap_classes"
    )
