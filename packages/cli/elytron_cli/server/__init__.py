"""Surfaces that a server offers in addition to the operations."""
