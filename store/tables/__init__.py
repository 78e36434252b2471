"""All tables, by who writes them; importing this package registers every one with the metadata."""

from store.tables import access, billing, capacity, closing
from store.tables.metadata import METADATA

__all__ = ["METADATA", "access", "billing", "capacity", "closing"]
