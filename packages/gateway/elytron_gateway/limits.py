"""Limits of the Memory Gateway."""

ID_CHARS = 128
"""Length of a user's, app's or project's id."""
SESSION_CHARS = 180
MESSAGES = 500
ITEMS = 100
"""Content items of one message."""
TOP_K = 100
TOP_K_DEFAULT = 8
SEARCH_CHARS = 1_000_000
"""Total characters of one search's results."""
UPSTREAM_ANSWER_BYTES = 16 * 1024 * 1024
EDITS = 10_000
"""Overrides and tombstones per space."""
RESOURCES = 10_000
"""Resources per space."""
RESOURCE_BYTES = 50 * 1024 * 1024
RESOURCE_TEXT_CHARS = 20_000_000
RESOURCE_CHUNK_CHARS = 1_200
RESOURCE_CHUNKS = 20_000
EXTRACTIONS, EXTRACTION_CPU_S, EXTRACTION_WAIT_S = 2, 30, 60.0
EXTRACTION_MEMORY_BYTES = 1024 * 1024 * 1024
SPACES = 1_000
"""Apps and projects per user."""
TELL_MESSAGES = 500
"""Messages sent to an upstream at once."""
TELL_BYTES = 1024 * 1024
"""Total bytes of their text; a single message may have more."""
TELL_S = 150.0
"""Timeout for sending one waiting addition upstream; a sender's lease is longer."""
HOLD_MS = 180_000
CATCH_UP_S = 30.0
"""Interval between searches for additions that an upstream has not received."""
TIMEOUT_S = 120.0
TIMEOUT_MAX_S = 3_600.0
HEALTH_S = 3.0
"""Timeout of an upstream's health check."""
