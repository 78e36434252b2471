"""What tenants owe, out of the ledger."""
