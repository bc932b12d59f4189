"""Limits of the console: sessions, page requests, and smoke checks."""

from typing import Final

SESSION_S: Final = 12 * 3_600.0
"""Lifetime of a session; it ends earlier with its key."""
BODY_BYTES: Final = 1024 * 1024
SPACES_COUNTED: Final = 2_000
