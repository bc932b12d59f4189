"""Wrappers around a store."""
