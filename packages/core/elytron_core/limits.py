"""Every bound has its name here: lists, texts, waits, numbers, bodies."""

# Names and keys
SPACE_CHARS = 200
NAME_CHARS = 200
"""A scope part, a speaker, a tag, a host's own turn id."""
KEY_CHARS = 96
COLLECTION_CHARS = 32
IDEMPOTENCY_KEY_CHARS = 200

# Time: 1900-01-01 to 2999-12-31, milliseconds since 1970
EARLIEST_MS = -2_208_988_800_000
LATEST_MS = 32_503_679_999_999

# Texts
MESSAGE_CHARS = 1_000_000
QUERY_CHARS = 8_000
QUERY_TERMS = 64
TOPIC_CHARS = 200
FACT_CHARS = 4_000
SKILL_CHARS = 64_000
REASON_CHARS = 400
METADATA_BYTES = 16_384

# Lists
MESSAGES_PER_TURN = 500
TURNS_PER_COMMIT = 1_000
WRITES_PER_REQUEST = 500
TAGS = 32
KEYWORDS = 16
CITATIONS = 32
FILTER_VALUES = 100
PAGE_MAX = 1_000
RECALL_MAX = 1_000
RECALL_DEFAULT = 8
PROJECTION_CHARS_MAX = 1_000_000
PROJECTION_CHARS_DEFAULT = 4_096
RECENT_MESSAGES_MAX = 200
RECENT_MESSAGES_DEFAULT = 8

# Store
DOCUMENT_BYTES = 8 * 1024 * 1024
BATCH_CHANGES = 4_096
BLOB_BYTES = 4 * 1024 * 1024 * 1024
BLOB_CHUNK_BYTES = 256 * 1024
SCAN_MAX = 2_000
JOURNAL_MAX = 10_000
STORE_BUSY_WAIT_S = 30.0
STORE_GROUP_BATCHES = 256
"""How many waiting batches one transaction takes."""
STORE_GROUP_BYTES = 16 * 1024 * 1024
STORE_QUEUE_BATCHES = 8_192
"""How many batches may wait for the writer; more callers wait for room."""
STORE_FORGET_EVERY = 10_000
"""After so many commits with an idempotency key the expired records are looked for."""
STORE_WAL_BYTES = 64 * 1024 * 1024
STORE_VACUUM_BYTES = 256 * 1024 * 1024
"""Up to this size an erasure rebuilds an SQLite file in memory, above it table by table in the file."""
STORE_UPLOAD_KEEP_MS = 24 * 3600 * 1000
"""How long an unfinished blob may stay staged before it counts as abandoned."""
IDEMPOTENCY_KEEP_MS = 7 * 24 * 3600 * 1000
PROBLEMS_MAX = 1_000

# Sealing
SEAL_BYTES = 64
"""What sealing may add to a document's body."""
SEALS_PER_KEY = 2**28
"""Messages under one derived key: far below the 2^32 up to which random nonces are safe."""
SEALED_SPACES_OPEN = 4_096
"""Spaces whose keys a handle holds in memory."""

# Reading from outside
JSON_BYTES = 16 * 1024 * 1024
JSON_DEPTH = 64
IMPORT_LINE_BYTES = 8 * 1024 * 1024
TRANSCRIPT_JSON_BYTES = 256 * 1024 * 1024
"""A transcript that is one JSON document and so is read as a whole; JSON Lines have no bound but the line's."""
HTTP_BODY_BYTES = 1024 * 1024
ARCHIVE_BYTES = 8 * 1024 * 1024 * 1024

# Index
INDEX_CACHE_BYTES = 256 * 1024 * 1024
VECTOR_DIMENSIONS = 8_192
