"""Capsules and snapshots."""
