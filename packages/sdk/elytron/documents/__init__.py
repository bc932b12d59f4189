"""Typed documents, and the change set that writes them."""
