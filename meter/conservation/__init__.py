"""Capacity: which state each second of it is in."""
