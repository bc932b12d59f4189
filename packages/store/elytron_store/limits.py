"""Bounds that several modules of the engines apply."""

BUSY_WAIT_S = 5.0
GROUP_BYTES = 16 * 1024 * 1024
QUEUE_BATCHES = 8_192
"""Number of batches that may wait for the writer; more callers wait for room."""
FORGET_EVERY = 10_000
"""Number of commits with an idempotency key after which expired records are removed."""
WAL_LEAST_BYTES = 64 * 1024
"""The least size from which on commits move a WAL into the database file."""
UPLOAD_KEEP_MS = 24 * 3600 * 1000
"""Time after which a staged, unfinished blob counts as abandoned."""
MCP_WRITE_CHARS = 1024 * 1024
MCP_SHARD_CHARS = 8 * 1024 * 1024
"""Bounds on an MCP file server: the text that one call writes or reads, and the length of a file."""
POSTGRES_REPEATS = 3
"""Number of tries of what a server broke off without an effect, for a deadlock say."""
SECRET_SESSION_MS_MAX = 24 * 60 * 60 * 1000
"""The longest time for which a space that its user unlocked stays open in a process."""
SECRET_GRANT_MS_MAX = 24 * 60 * 60 * 1000
"""The longest time for which work in the background may open a space."""
SECRET_MAKING_MS = 30_000
"""Time after which a sealing that its process did not renew is taken for dead."""
