"""Limits of the embedding service."""

TEXT_BYTES = 16 * 1024
QUERY_BYTES = 4 * 1024
RESULTS, RESULTS_MAX = 5, 20
SOURCE_TYPES = 8
"""Source types that one call may name."""
BODY_BYTES = 1024 * 1024
PAGE = 500
"""Turns that are read at once."""
CATCH_UP_TURNS = 1_000
"""Changed turns that a table takes over by itself; beyond that, it is read as a whole."""
EMBED_WAIT_S = 2.0
"""So long an insertion waits for its vector; a text without one is embedded later."""
QUERY_WAIT_S = 5.0

USER_ROWS, USER_BYTES = 250_000, 2 * 1024**3
PROJECT_ROWS, PROJECT_BYTES = 2_500_000, 20 * 1024**3
"""Rows and bytes of all users of a server."""
INSERTS_PER_HOUR = 10_000
RECOUNT_MS = 3_600_000
"""Age from which a user's usage is counted again."""
RECOUNT_PAUSE_MS = 60_000
"""Age from which it is counted again before a refusal."""
PROJECT_COUNT_MS = 30_000
"""Age from which the usage of all users is read again."""
ROW_BYTES = 200
"""Bytes of a row beside its text and its vector."""

CACHE_MS = 5 * 60 * 1000
CACHE_USERS = 100
CACHE_BYTES, CACHE_USER_BYTES = 4 * 1024**3, 128 * 1024**2
LOAD_WAIT_S = 60.0
"""So long a search waits for the vectors of its user to be read."""

ALERT_CACHED_SEARCH_S = 0.010
"""A search in cached vectors that takes longer is worth an alert; 40,000 vectors take less."""
ALERT_LOAD_S = 10.0
ALERT_CACHE_SHARE = 0.9
SEARCH_BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
