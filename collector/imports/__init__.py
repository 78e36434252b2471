"""Logs into the store: read twice, checked before, counted after."""
