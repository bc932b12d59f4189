"""Bounds of the engines: what they group, keep at hand and wait for."""

BUSY_WAIT_S = 5.0
GROUP_BATCHES = 256
"""Number of waiting batches that one transaction takes."""
GROUP_BYTES = 16 * 1024 * 1024
GROUP_PUTS = 256
"""Number of documents from which on a group does not wait for more."""
QUEUE_BATCHES = 8_192
"""Number of batches that may wait for the writer; more callers wait for room."""
FORGET_EVERY = 10_000
"""Number of commits with an idempotency key after which expired records are removed."""
MEMO_LOOKS = 1_024
MEMO_DOCUMENTS = 2_048
MEMO_DOCUMENT_BYTES = 8_192
MEMO_SCANNED = 8
"""Bounds of an SQLite handle's cache of reads: looks and scans, documents, the largest of these, and how many of
them a scan may hold."""
MEMO_AT_ONCE = 64
"""Number of rows in memory that are read without waiting for a thread."""
MEMO_HELD_S = 0.002
MEMO_HELD_SHARE = 0.01
"""So long, and while a row is read, documents that may lie on a disk hold the event loop before a thread reads them;
once a disk was waited for so long, no more than this share of the time."""
IDLE_SHARE = 4
IDLE_LEAST = 64
"""A bounded store has journals compacted when its empty entries reach this part of the events that it may hold, and
this number at least."""
WAL_BYTES = 16 * 1024 * 1024
WAL_SHARE, WAL_LEAST_BYTES = 32, 64 * 1024
"""Size from which on commits move a WAL into the database file, and which its file keeps: by default, as a part of the
free room of its device at opening, and at least."""
RESERVE_BYTES = 64 * 1024 * 1024
"""Room that a store holds for erasures at most, unless its URL says another."""
VACUUM_BYTES = 256 * 1024 * 1024
"""Up to this size an erasure rebuilds an SQLite file in memory, above it table by table in the file."""
UPLOAD_KEEP_MS = 24 * 3600 * 1000
"""Time after which a staged, unfinished blob counts as abandoned."""
SEALS_PER_KEY = 2**28
"""Messages under one derived key: far below the 2^32 up to which random nonces are safe."""
SEALED_SPACES_OPEN = 4_096
"""Spaces whose keys a handle holds in memory."""
MCP_RETRY_S = (0.2, 0.5, 1.0, 2.0)
"""Waits before a call is repeated that an MCP file server calls retryable."""
MCP_CALL_S = 20.0
"""Time limit for an answer of an MCP file server."""
MCP_PATH_CHARS, MCP_PROJECT_CHARS = 512, 128
MCP_WRITE_CHARS = 1024 * 1024
MCP_LINE_BYTES = 768 * 1024 - 3
MCP_SHARD_CHARS = 8 * 1024 * 1024
"""Bounds on an MCP file server: the text that one call writes or reads, the bytes that one line of a log encodes, and
the length of a file."""
MCP_SHARDS = 64
"""Number of files from which on the log of a space is rewritten if half of them are enough."""
MCP_LIST = 256
MCP_SEARCH = 20
"""Number of entries, and of hits, that a call asks an MCP file server for."""
MCP_LEASE_MS = 60_000
MCP_LEASE_SKEW_MS = 10_000
"""Lease of a writer on an MCP file server, and the largest difference of two writers' clocks."""
MCP_LEASE_CHARS = 64 * 1024
"""A lease's file that is longer is given up for a new one."""
MCP_HELD_BYTES = 256 * 1024 * 1024
"""Bytes of spaces on an MCP file server that a handle keeps in memory."""
POSTGRES_CONNECTIONS, POSTGRES_CONNECTIONS_MAX = 16, 200
"""Number of connections that a handle keeps to a Postgres server at most, unless its URL says another."""
POSTGRES_WAIT_S = 1.5
"""Time limit of a connection to a Postgres server."""
POSTGRES_AGAIN_S = 0.25
"""Time after a failed connection in which calls are refused without trying another."""
POSTGRES_REPEATS = 3
"""Number of tries of what a server broke off without an effect, for a deadlock say."""
POSTGRES_LOG_ROUNDS = 8
"""Number of segments of a Postgres server's log that an erasure has it write over at most."""
POSTGRES_SILENT_S, POSTGRES_LOOK_S = 0.5, 3.0
"""Time after which the server of a statement without an answer is looked at, and then again while it answers others."""
POSTGRES_SILENT_WAIT_S = 1.2
"""Time in which a server that is looked at has to take a connection."""
POSTGRES_TRIAL_BYTES = 1024 * 1024
"""Bytes that are written, and taken back, to see whether a disk that was full has room again."""
POSTGRES_LONG_STEP_MS = 60_000
"""A limit on statements that is shorter endangers long steps."""
POSTGRES_CHECK_ROWS = 1_000
"""Number of rows that a check reads at once."""
SECRET_SESSION_MS, SECRET_SESSION_MS_MAX = 60 * 60 * 1000, 24 * 60 * 60 * 1000
"""Time for which a space that its user unlocked stays open in a process: by default, and at most."""
SECRET_GRANT_MS, SECRET_GRANT_MS_MAX = 8 * 60 * 60 * 1000, 24 * 60 * 60 * 1000
"""Time for which work in the background may open a space: by default, and at most."""
SECRET_ATTEMPTS, SECRET_ATTEMPTS_MS = 5, 15 * 60 * 1000
"""Wrong secrets that a caller may send without a delay, and the time after the latest in which they are counted."""
SECRET_DELAY_MS_MAX = 8_000
"""Delay of the next attempt of one caller at most: the right secret is never refused for longer."""
SECRET_CALLERS = 64
"""Callers whose wrong secrets of a space are counted apart; further ones are counted together."""
SECRET_MAKING_MS, SECRET_RENEWALS = 30_000, 3
"""Time after which a sealing that its process did not renew is taken for dead, and its renewals in that time."""
GATEWAY_ANSWER_BYTES = 512 * 1024 * 1024
"""An answer of a server that shares its store: a page of documents may have many large ones."""
