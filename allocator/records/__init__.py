"""Allocation records of others as CSV: reading, checking, storing, writing them out again."""
