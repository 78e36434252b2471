"""A window's life, from reading to ledger."""
