"""Stored memories found, linked and versioned."""
