"""Bounds of the engines: what they group, keep at hand and wait for."""

BUSY_WAIT_S = 5.0
GROUP_BATCHES = 256
"""Maximum batches in one transaction."""
GROUP_BYTES = 16 * 1024 * 1024
GROUP_PUTS = 256
"""Number of documents from which a group does not wait for more."""
QUEUE_BATCHES = 8_192
"""Maximum batches waiting for the writer; further callers wait for room."""
FORGET_EVERY = 10_000
"""Commits with an idempotency key between removals of expired records."""
MEMO_LOOKS = 1_024
MEMO_DOCUMENTS = 2_048
MEMO_DOCUMENT_BYTES = 8_192
MEMO_SCANNED = 8
"""Limits of an SQLite handle's read cache: lookups and scans, documents, the largest of these, and how many of them a
scan may contain."""
MEMO_AT_ONCE = 64
"""Number of in-memory rows that are read without a thread."""
MEMO_HELD_S = 0.002
MEMO_HELD_SHARE = 0.01
"""How long reads that may touch a disk may hold the event loop before a thread takes over; after one such wait, at most
this share of the time."""
IDLE_SHARE = 4
IDLE_LEAST = 64
"""A bounded store compacts journals when its empty entries reach this share of its event limit, and at least this
number."""
WAL_BYTES = 16 * 1024 * 1024
WAL_SHARE, WAL_LEAST_BYTES = 32, 64 * 1024
"""Size from which commits checkpoint a WAL, and which its file keeps: by default, as a share of the free room of its
device at opening, and at least."""
RESERVE_BYTES = 64 * 1024 * 1024
"""Maximum room reserved for erasures, unless the URL says otherwise."""
VACUUM_BYTES = 256 * 1024 * 1024
"""Up to this size an erasure rebuilds an SQLite file in memory, above it table by table in the file."""
UPLOAD_KEEP_MS = 24 * 3600 * 1000
"""Age at which a staged, unfinished blob counts as abandoned."""
SEALS_PER_KEY = 2**28
"""Messages under one derived key: far below the 2^32 up to which random nonces are safe."""
SEALED_SPACES_OPEN = 4_096
"""Spaces whose keys a handle caches."""
MCP_RETRY_S = (0.2, 0.5, 1.0, 2.0)
"""Delays before repeating calls that an MCP file server calls retryable."""
MCP_CALL_S = 20.0
"""Timeout for an answer of an MCP file server."""
MCP_PATH_CHARS, MCP_PROJECT_CHARS = 512, 128
MCP_WRITE_CHARS = 1024 * 1024
MCP_LINE_BYTES = 768 * 1024 - 3
MCP_SHARD_CHARS = 8 * 1024 * 1024
"""Limits on an MCP file server: the text that one call writes or reads, the bytes that one line of a log encodes, and
the length of a file."""
MCP_SHARDS = 64
"""Number of files from which the log of a space is rewritten if half of them suffice."""
MCP_LIST = 256
MCP_SEARCH = 20
"""Number of entries, and of hits, that a call requests from an MCP file server."""
MCP_LEASE_MS = 60_000
MCP_LEASE_SKEW_MS = 10_000
"""Lease of a writer on an MCP file server, and the largest difference of two writers' clocks."""
MCP_LEASE_CHARS = 64 * 1024
"""A longer lease file is replaced by a new one."""
MCP_HELD_BYTES = 256 * 1024 * 1024
"""Bytes of spaces on an MCP file server that a handle caches."""
POSTGRES_CONNECTIONS, POSTGRES_CONNECTIONS_MAX = 16, 200
"""Maximum connections of a handle to a Postgres server, unless its URL says otherwise."""
POSTGRES_WAIT_S = 1.5
"""Timeout for connecting to a Postgres server."""
POSTGRES_AGAIN_S = 0.25
"""After a failed connection, calls fail without trying another for this time."""
POSTGRES_REPEATS = 3
"""Attempts at work that a server aborted without effect, such as for a deadlock."""
POSTGRES_LOG_ROUNDS = 8
"""Maximum segments of a Postgres server's log that an erasure makes it overwrite."""
POSTGRES_SILENT_S, POSTGRES_LOOK_S = 0.5, 3.0
"""Time after which an unanswered statement's server is probed, and again while it answers others."""
POSTGRES_SILENT_WAIT_S = 1.2
"""Time within which a probed server must accept a connection."""
POSTGRES_TRIAL_BYTES = 1024 * 1024
"""Bytes written, and rolled back, to see whether a full disk has room again."""
POSTGRES_LONG_STEP_MS = 60_000
"""A shorter statement timeout endangers long steps."""
POSTGRES_CHECK_ROWS = 1_000
"""Number of rows that a check reads at once."""
SECRET_SESSION_MS, SECRET_SESSION_MS_MAX = 60 * 60 * 1000, 24 * 60 * 60 * 1000
"""How long a space that its user unlocked stays open in a process: by default, and at most."""
SECRET_GRANT_MS, SECRET_GRANT_MS_MAX = 8 * 60 * 60 * 1000, 24 * 60 * 60 * 1000
"""How long background work may open a space: by default, and at most."""
SECRET_ATTEMPTS, SECRET_ATTEMPTS_MS = 5, 15 * 60 * 1000
"""Wrong secrets that a caller may send without a delay, and how long after the latest they count."""
SECRET_DELAY_MS_MAX = 8_000
"""Maximum delay of one caller's next attempt: the right secret is never rejected for longer."""
SECRET_CALLERS = 64
"""Callers whose wrong secrets of a space are counted separately; further ones are counted together."""
SECRET_MAKING_MS, SECRET_RENEWALS = 30_000, 3
"""Time after which a sealing that its process did not renew is considered dead, and its renewals in that time."""
GATEWAY_ANSWER_BYTES = 512 * 1024 * 1024
"""Limit of an answer from a server that shares its store: a page of documents may have many large ones."""
