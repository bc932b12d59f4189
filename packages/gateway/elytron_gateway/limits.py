"""Limits of the Memory Gateway."""

ITEMS = 100
"""Content items of one message."""
TOP_K = 100
TOP_K_DEFAULT = 8
SEARCH_CHARS = 1_000_000
"""Total characters of one search's results."""
UPSTREAM_ANSWER_BYTES = 16 * 1024 * 1024
RESOURCE_BYTES = 50 * 1024 * 1024
TIMEOUT_S = 120.0
TIMEOUT_MAX_S = 3_600.0
