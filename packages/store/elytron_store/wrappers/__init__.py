"""Stores around a store."""
