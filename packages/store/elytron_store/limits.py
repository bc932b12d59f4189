"""Bounds that several modules of the engines apply."""

BUSY_WAIT_S = 5.0
GROUP_BYTES = 16 * 1024 * 1024
QUEUE_BATCHES = 8_192
"""Maximum batches waiting for the writer; further callers wait for room."""
FORGET_EVERY = 10_000
"""Commits with an idempotency key between removals of expired records."""
WAL_LEAST_BYTES = 64 * 1024
"""The least size from which on commits move a WAL into the database file."""
UPLOAD_KEEP_MS = 24 * 3600 * 1000
"""Age at which a staged, unfinished blob counts as abandoned."""
MCP_WRITE_CHARS = 1024 * 1024
MCP_SHARD_CHARS = 8 * 1024 * 1024
"""Bounds on an MCP file server: the text that one call writes or reads, and the length of a file."""
POSTGRES_REPEATS = 3
"""Attempts at work that a server aborted without effect, such as for a deadlock."""
SECRET_SESSION_MS_MAX = 24 * 60 * 60 * 1000
"""The longest time for which a space that its user unlocked stays open in a process."""
SECRET_GRANT_MS_MAX = 24 * 60 * 60 * 1000
"""The longest time for which work in the background may open a space."""
SECRET_MAKING_MS = 30_000
"""Time after which a sealing that its process did not renew is taken for dead."""
