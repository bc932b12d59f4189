"""Surfaces of a server beside the operations."""
