"""Lookup, links and versions of stored memories."""
