"""Limits of lists, texts, waits, numbers and bodies that several modules apply."""

# Names and keys
SPACE_CHARS = 200
NAME_CHARS = 200
"""Limit for a scope part, a speaker, a tag, and a host's own turn id."""
KEY_CHARS = 96
COLLECTION_CHARS = 32
IDEMPOTENCY_KEY_CHARS = 200

# Time: 1900-01-01 to 2999-12-31, milliseconds since 1970
EARLIEST_MS = -2_208_988_800_000
LATEST_MS = 32_503_679_999_999
CLOCK_SKEW_MS = 60_000
"""Clock difference that is not reported."""
FUTURE_CLAIMS = 32
"""Maximum number of future claims that a report lists."""

# Texts
MESSAGE_CHARS = 1_000_000
QUERY_CHARS = 8_000
QUERY_TERMS = 64
TOPIC_CHARS = 200
FACT_CHARS = 4_000
SKILL_CHARS = 64_000
REASON_CHARS = 400
METADATA_CHARS = 16_384
LABEL_CHARS = 400
ATTRIBUTE_CHARS = 4_096
URI_CHARS = 2_048

# Lists
METADATA_KEYS = 1_000
MESSAGES_PER_TURN = 500
TURNS_PER_COMMIT = 1_000
WRITES_PER_REQUEST = 500
TAGS = 32
KEYWORDS = 16
CITATIONS = 32
AUDIT_EVENTS = 64
LAST_CONVERSATIONS = 10_000
"""Subjects for which a runtime remembers the last conversation."""
FACT_USES_KEPT = 10_000
LEARNING_RULES = 256
FACT_CITATIONS = 6
TOOL_OBSERVATIONS = 64
HOST_REFS = 32
OPAQUE_ITEMS = 64
"""Items that a host may store with the words of one turn."""
OPAQUE_ITEM_BYTES = 64 * 1024
OPAQUE_ITEMS_BYTES = 256 * 1024
ATTRIBUTES = 64
FILTER_VALUES = 100
CONDITION_TESTS = 256
"""Comparisons in a filter's conditions after expanding and, or and not."""
CONDITION_CHARS = 1_000
PAGE_MAX = 1_000
LEDGER_TURNS = 32
"""Default number of ledger turns to show: the last ones."""
RECALL_MAX = 1_000
RECALL_DEFAULT = 8
PROJECTED_SCORE = 0.2
"""The estimate that one of the best hits answers, from which a block shows them."""
RECALL_NEIGHBOURS = 10
"""Turns before, and after, each hit."""
RERANK_HITS = 50
PROJECTION_CHARS_MAX = 1_000_000
PROJECTION_CHARS_DEFAULT = 4_096

# Planes
GARDEN_DOCUMENTS = 16
"""Private documents of one conversation."""
CAPSULE_TEXT_CHARS = 600
CAPSULE_ITEM_CHARS = 240
CAPSULE_ITEMS = 8
CAPSULES_PER_CONVERSATION = 16
CAPSULES_PER_SPACE = 96
CAPSULE_BLOCK_CHARS = 900
EXECUTION_TEXT_CHARS = 600
EXECUTION_ITEM_CHARS = 240
EXECUTION_ITEMS = 4
SUMMARY_CHARS = 8_000
NOTE_CHARS = 32_000
CANDIDATE_TOPIC_CHARS = 40
FACT_LANGUAGE_BYTES = 256 * 1024
CANDIDATE_CITATIONS = 6
RECORD_NAMESPACE_PARTS = 8
RECORD_VALUE_BYTES = 256 * 1024
SNAPSHOT_FACTS_FULL = 48
PROFILE_LINES, PROFILE_LINES_MAX = 60, 200
"""Facts of a profile."""

# Store
DOCUMENT_BYTES = 8 * 1024 * 1024
BATCH_CHANGES = 4_096
IMPORT_CHANGES, IMPORT_BYTES = 262_144, 512 * 1024 * 1024
"""Limits of the one batch of an import: its changes, and the bytes of its documents."""
COMPACTION_RUNS = 1_000
BLOB_BYTES = 4 * 1024 * 1024 * 1024
BLOB_CHUNK_BYTES = 256 * 1024
SCAN_MAX = 2_000
JOURNAL_MAX = 10_000
ERASING_MS = 5_000
"""An open runtime completes another process's erasure that is unfinished after this time."""
IDEMPOTENCY_KEEP_MS = 7 * 24 * 3600 * 1000
PROBLEMS_MAX = 1_000

# Sealing
SEAL_BYTES = 128
"""Bytes that sealing may add to a document's body."""

# Reading from outside
JSON_BYTES = 16 * 1024 * 1024
JSON_DEPTH = 64
IMPORT_LINE_BYTES = 8 * 1024 * 1024
TRANSCRIPT_JSON_BYTES = 256 * 1024 * 1024
"""A transcript that is one JSON document and so is read as a whole; JSON Lines are bounded by line only."""
IMPORT_SKIPPED, IMPORT_OFFSETS = 100, 8
HTTP_BODY_BYTES = 1024 * 1024
HTTP_HEADER_BYTES = 32 * 1024
HTTP_BODY_WAIT_S = 30.0
"""Maximum time for receiving a request's body."""
HTTP_IDLE_S = 30
"""Time for which a server keeps an unused connection: far longer than clients do, see
`elytron_outbound.clients.REMOTE_IDLE_S`."""
HTTP_ARCHIVE_BYTES = 1024 * 1024 * 1024
"""An archive sent or fetched over HTTP."""

# Models and maintenance
MODEL_ATTEMPTS = 3
MODEL_ANSWER_CHARS = 200_000
"""Maximum bytes read of an answer."""
MODEL_ANSWER_TOKENS = 1_200
MODEL_STREAM_S = 1_800.0
MODEL_STREAM_BYTES = 64 * 1024 * 1024
"""Bytes of all events of an answer."""
MODEL_TOOL_CALLS = 128
MODEL_ITEMS = 4_096
"""Items, blocks or choices of one answer."""
EXTRACTION_CHARS = 12_000
"""Characters of a turn shown to an extraction; the rest is cut."""
SUMMARY_INPUT_CHARS = 40_000
MAINTAIN_TURNS = 64
"""Turns that one job, or one call of maintain, processes."""
JOBS_ACTIVE_OF_KIND = 512
JOBS_RUN_MAX = 256
JOB_ATTEMPTS = 8
JOB_WAIT_MAX_MS = 6 * 3600 * 1000
JOB_STALL_MS = 30 * 60 * 1000
"""A job overdue by this long indicates that no worker processes the queue."""

# Index
INDEX_CACHE_BYTES = 256 * 1024 * 1024
INDEX_CACHE_SPACES = 65_536
CLOSE_WAIT_S = 1.5
"""After this time, a closing runtime starts no further checkpoint of an index; after a third of it, it no longer stores
when facts were last used."""
VECTOR_DIMENSIONS = 8_192

# Embedding
EMBED_TEXT_CHARS = 8_000
"""Characters of a memory's text that are embedded; an encoder may read fewer."""
EMBED_PASSAGES = 32
"""Passages of a message that may be embedded beside it."""
EMBED_BATCH_TEXTS = 64
"""Texts per call of an embedder."""
EMBED_TEXTS_PER_CALL = 10_000
"""Texts processed by one call of `embed` or `switch_model`; the next call continues."""
MODEL_PACKAGE_BYTES = 1024 * 1024 * 1024
"""Largest file of a model's package or folder."""

# Serving
CALLS_PER_MINUTE = 12_000
"""Limit per user or device; operators and developers are not counted."""
WRONG_CREDENTIALS_PER_MINUTE = 60
"""Limit per address, or per IPv6 network, before requests are answered with a retry time."""
IDEMPOTENCY_WAIT_S = 5.0
"""How long a repeat waits for the first call under its key before it is rejected because that one still runs."""
ACCESS_KEYS_CACHED = 10_000
SHUTDOWN_S = 20
"""How long a server that shuts down waits for accepted calls."""

# Procedures, agent skills and tools
SKILLS_COMPARED = 1_000
"""Skills of the space that a new one is compared with, and that one pass examines."""
SKILLS_PER_OUTCOME = 32
OUTCOME_NOTE_CHARS = 160
TOOL_REGISTRIES = 32
"""Registries per space."""
TOOL_REASON_CHARS = 400

# Remote clients
REMOTE_CONNECT_S = 10.0
REMOTE_ANSWER_S = 60.0
"""How long a client waits for the next bytes of an answer."""
REMOTE_REPORT_BYTES = 64 * 1024 * 1024

# Streams
FRAME_BYTES = 1024 * 1024
FRAME_SEND_S = 20.0
"""Maximum time for sending one frame before its reader is considered gone."""
SUBSCRIPTIONS = 64
"""Default subscriptions of one WebSocket; profiles may differ."""
STREAM_RECHECK_S = 0.9
"""Interval at which a stream's credential is rechecked, so that revoking it ends the stream."""
EVENTS_POLL_S = 1.0
"""Interval at which the journal is read for other processes' commits; this process's own are sent at once."""
EVENTS_PAGE = 500
EVENTS_HEARTBEAT_S = 15.0
