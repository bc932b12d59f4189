"""Spaces as files, and from store to store."""
