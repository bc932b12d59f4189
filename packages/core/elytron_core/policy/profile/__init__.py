"""Profiles of persons: the facts that they show, and the words for them."""
