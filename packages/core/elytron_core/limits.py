"""Named limits of lists, texts, waits, numbers and bodies."""

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
PINNED_STORES = 1_024
"""Sealed store locations that a key file remembers; the oldest is dropped first."""
LAST_CONVERSATIONS = 10_000
"""Subjects for which a runtime remembers the last conversation."""
FACT_USES_KEPT = 10_000
LEARNING_RULES = 256
TOMBSTONE_SENTENCES = 64
FACT_CITATIONS = 6
TIER_L1_DAYS, TIER_L2_DAYS = 1, 7
"""Days that a fact of the day, and of the week, holds."""
TOOL_OBSERVATIONS = 64
HOST_REFS = 32
OPAQUE_ITEMS = 64
"""Items that a host may store with the words of one turn."""
OPAQUE_ITEM_BYTES = 64 * 1024
OPAQUE_ITEMS_BYTES = 256 * 1024
ATTRIBUTES = 64
REDACTION_ITEMS = 5_000
"""Redactions that one report names; its audit counts all."""
DERIVED_REFS_SHOWN = 1_000
ALIASED_SUBJECTS = 256
"""Subjects per chat alias; the one that committed longest ago is dropped first."""
FILTER_VALUES = 100
CONDITION_TESTS = 256
"""Comparisons in a filter's conditions after expanding and, or and not."""
CONDITION_CHARS = 1_000
PAGE_MAX = 1_000
PAGE_ASKED = 1_000_000
"""Largest page of a transcript that a request may ask for; a page has at most `PAGE_MAX` turns."""
LEDGER_TURNS = 32
"""Default number of ledger turns to show: the last ones."""
RECALL_MAX = 1_000
RECALL_DEFAULT = 8
RECALL_NEEDED, RECALL_NEEDED_TOKENS = 100, 2_000
"""Maximum hits, and default tokens, of a recall that returns as much as the question needs."""
PROJECTED_SCORE, FOUND_SCORE = 0.2, 0.65
"""Minimum estimate that one of the best hits answers for a block to show them, and that the first one answers for
recall to report `found`."""
RECALL_NEIGHBOURS = 10
"""Turns before, and after, each hit."""
WHY_NOT_IDS = 20
RERANK_HITS = 50
RERANK_TEXT_CHARS = 4_000
RERANK_WAIT_S = 10.0
PROJECTION_CHARS_MAX = 1_000_000
PROJECTION_CHARS_DEFAULT = 4_096
WISHES_READ = 48
"""Number of latest messages with standing wishes that are read for a block, and the same number that mention a change.
"""
RECENT_MESSAGES_MAX = 200
RECENT_MESSAGES_DEFAULT = 8

# Planes
GARDEN_BYTES, GARDEN_DOCUMENTS = 8 * 1024, 16
"""Size of one private document, and number of documents per conversation."""
CAPSULE_TEXT_CHARS = 600
CAPSULE_ITEM_CHARS = 240
CAPSULE_ITEMS = 8
CAPSULES_PER_CONVERSATION = 16
CAPSULES_PER_SPACE = 96
CAPSULES_CONSIDERED = 12
CAPSULES_SELECTED = 3
CAPSULE_BLOCK_CHARS = 900
EXECUTION_TEXT_CHARS = 600
EXECUTION_ITEM_CHARS = 240
EXECUTION_ITEMS = 4
SUMMARY_CHARS = 8_000
NOTE_CHARS = 32_000
MOUNT_CHARS = 600
CANDIDATES_WAITING = 1_000
"""Open candidates per space; further ones are refused."""
CANDIDATE_FACT_BYTES = 240
CANDIDATE_TOPIC_CHARS = 40
FACT_LANGUAGES = 8
FACT_LANGUAGE_BYTES = 256 * 1024
FACT_FORMS, PHRASES, PHRASE_CHARS = 256, 512, 400
PHRASE_EXPANDED_CHARS = 16_000
"""A phrase with the parts that it names."""
CANDIDATE_KEYWORDS = 8
CANDIDATE_KEYWORD_CHARS = 24
CANDIDATE_CITATIONS = 6
CANDIDATE_CITATION_CHARS = 96
RECORD_NAMESPACE_PARTS = 8
RECORD_VALUE_BYTES, RECORD_VALUE_DEPTH = 256 * 1024, 32
RECORD_TEXT_CHARS = 32_000
RECORD_FIELDS = 64
"""Scalars of a record's value that conditions can name."""
RECORD_VERSIONS, RECORD_HISTORY_BYTES = 32, 1024 * 1024
"""Stored earlier versions of a record, and their total bytes; the oldest are dropped first."""
RECORD_TTL_S = 10 * 366 * 24 * 3600
RECORD_OFFSET = 100_000
SNAPSHOT_FACTS_BOOTSTRAP, SNAPSHOT_FACTS_FULL = 16, 48
PROFILE_LINES, PROFILE_LINES_MAX = 60, 200
"""Facts of a profile."""
PROFILE_CHARS = 12_000
PROFILE_SENTENCES, PROFILE_GROUNDS, PROFILE_SENTENCE_CHARS = 40, 16, 600
"""A written profile's sentences, the facts behind one sentence, and the length of one sentence."""
FACTS_STANDING = 96
"""Maximum standing facts of a block; further ones are only recalled."""

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
SCAN_PAGE = 250
"""Documents or entries read at once while walking a space: larger reads delay other threads."""
ERASING_MS = 5_000
"""An open runtime completes another process's erasure that is unfinished after this time."""
WORK_STEP_S = 0.001
"""Upkeep that takes longer yields to other tasks: a recall passes through the event loop several times."""
IDEMPOTENCY_KEEP_MS = 7 * 24 * 3600 * 1000
PROBLEMS_MAX = 1_000

# Sealing
SEAL_BYTES = 128
"""Bytes that sealing may add to a document's body."""

# Reading from outside
JSON_BYTES = 16 * 1024 * 1024
JSON_DEPTH = 64
JSON_KEYS, JSON_VALUES = 10_000, 500_000
"""Keys of one object, and values of a document; above `JSON_BYTES`, one value per 16 allowed bytes."""
CREDENTIAL_BYTES, DECODED_AT_ONCE_BYTES = 64 * 1024, 128 * 1024
"""Bytes of a body that are read before its sender is known, and the size from which a body is decoded in a thread."""
IMPORT_LINE_BYTES, IMPORT_FILES = 8 * 1024 * 1024, 400
IMPORT_SKIPPED, IMPORT_OFFSETS, IMPORT_CANDIDATES = 100, 8, 20
TRANSCRIPT_JSON_BYTES = 256 * 1024 * 1024
"""A transcript that is one JSON document and so is read whole; JSON Lines are bounded only by line."""
ZIP_UNPACKED_BYTES = 1024 * 1024 * 1024
"""Total bytes of all transcripts in a ZIP file."""
HTTP_BODY_BYTES = 1024 * 1024
HTTP_HEADER_BYTES = 32 * 1024
HTTP_BODY_WAIT_S = 30.0
"""Maximum time for receiving a request's body."""
HTTP_SILENT_S, HTTP_HEAD_S = 5.0, 10.0
"""Maximum wait for the first byte of a connection, and for the head of a request."""
HTTP_IDLE_S = 30
"""How long a server keeps an idle connection open: far longer than clients do, see `REMOTE_IDLE_S`."""
HTTP_UPLOAD_WAIT_S = 300.0
"""Maximum time for receiving a form with files, with no pause longer than the body timeout."""
HTTP_ARCHIVE_BYTES = 1024 * 1024 * 1024
"""An archive sent or fetched over HTTP."""
ARCHIVE_BYTES = 8 * 1024 * 1024 * 1024
ERASURES_LINES = 1_000_000
"""Spaces and erased memories in one erasures file."""
ERASURES_LINE_BYTES = 4_096
HTTP_STORE_BODY_BYTES = 64 * 1024 * 1024
"""A batch of documents that a remote runtime sends to its store."""

# Models and maintenance
MODEL_CALLS_PER_DAY = 2_000
MODEL_TOKENS_PER_DAY = 5_000_000
MODEL_TIMEOUT_S = 60.0
MODEL_ATTEMPTS = 3
MODEL_ANSWER_CHARS = 200_000
"""Maximum bytes read of an answer."""
MODEL_ANSWER_TOKENS = 1_200
MODEL_OUTPUT_TOKENS = 8_192
"""Default output tokens if the dialect requires a number and the request has none."""
MODEL_CONNECT_S = 10.0
MODEL_DRAIN_S = 0.2
"""How long to wait for a connection's end after the model has said that it is done."""
MODEL_SILENCE_S = 120.0
"""Maximum silence within an answer; some models think for long before they write."""
MODEL_STREAM_S = 1_800.0
MODEL_EVENT_BYTES = 8 * 1024 * 1024
MODEL_STREAM_BYTES = 64 * 1024 * 1024
"""Size of one event of an answer, and of all of them."""
MODEL_REFUSAL_BYTES = 64 * 1024
"""Maximum bytes read of a refusal."""
MODEL_BACKOFF_S, MODEL_BACKOFF_MAX_S = 0.5, 8.0
MODEL_RETRY_AFTER_S = 30
"""Maximum delay requested by a server that is honoured."""
MODEL_TOOL_CALLS = 128
MODEL_ITEMS = 4_096
"""Items, blocks or choices of one answer."""
MODEL_NAME_CHARS = 200
EXTRACTION_ITEMS = 4
EXTRACTION_CHARS = 12_000
"""Characters of a turn shown to an extraction; the rest is cut."""
SUMMARY_INPUT_CHARS = 40_000
MESSAGE_SHOWN_CHARS = 4_000
"""Characters of one message shown to a summary."""
EXTRACTION_CONTEXT = 4
"""Earlier messages given to an extraction as context."""
EXTRACTION_KNOWN = 24
"""Standing facts shown to an extraction, so that it reuses their topics."""
MAINTAIN_TURNS = 64
"""Turns that one job, or one call of maintain, processes."""
MAINTAIN_BEYOND = 1_024
JOBS_ACTIVE = 256
JOBS_ACTIVE_OF_KIND = 512
JOBS_KEPT = 512
"""Finished jobs that remain listed."""
JOBS_RUN_MAX = 256
JOB_ATTEMPTS = 8
JOB_PAYLOAD_CHARS = 4_096
JOB_LEASE_MS = 10 * 60 * 1000
JOB_WAIT_MS = 15 * 1000
JOB_WAIT_MAX_MS = 6 * 3600 * 1000
JOB_STALL_MS = 30 * 60 * 1000
"""A job overdue by this long indicates that no worker processes the queue."""
SPENDING_DAYS = 31
WORKER_PAUSE_S = 2.0
CASSETTE_CALLS = 10_000

# Index
READINGS_KEPT = 2_048
READING_BYTES = 8_192
"""Turns and facts that a runtime caches as parsed values, and the largest cached one."""
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
EMBED_PASSAGES_OF_DOCUMENT = 512
"""Passages embedded per message in addition to the whole, and per document."""
EMBED_BATCH_TEXTS = 64
"""Texts per call of an embedder."""
EMBED_TEXTS_PER_CALL = 10_000
"""Texts processed by one call of `embed` or `switch_model`; the next call continues."""
EMBED_QUERY_WAIT_S = 2.0
"""How long recall waits for a query's vector before it continues with words only."""
EMBED_LOAD_WAIT_S = 30.0
"""How long a process's first recall waits for a local model to load."""
EMBED_QUERIES_KEPT = 256
EMBED_PAUSE_MS = 30_000
"""Pause of background embedding after the embedder failed."""
EMBED_REST_MS = 5_000
"""After an embedder left a query unanswered, queries do not wait for it for this time."""
EMBED_CLOSE_WAIT_S = 2.0
"""Time for an embedding pass to finish at closing; the next runtime continues the rest."""
EMBED_REFUSED_KEPT = 10_000
EMBED_THREADS = 64
MODEL_PACKAGE_BYTES = 1024 * 1024 * 1024
"""Largest file of a model's package or folder."""

# Serving
CALLS_PER_MINUTE = 12_000
"""Limit per user or device; operators and developers are not counted."""
WRONG_CREDENTIALS_PER_MINUTE = 60
"""Limit per address, or per IPv6 network, before requests are answered with a retry time."""
WRONG_CREDENTIALS_PLACES = 4_096
"""Addresses counted at once; the least recently active is dropped."""
CONNECTIONS, CONNECTIONS_EACH = 65_536, 256
"""Connections of a server, limited by its descriptors; and those of one address without a valid credential."""
CALLS_RUNNING = 64
CALLS_RUNNING_EACH = 32
CALLS_WAITING = 4_096
CALLS_WAITING_EACH = 512
CALL_WAIT_S = 10.0
"""How long a call waits for its slot before it is answered with a retry time."""
CALL_LAG_S = 1.0
"""Maximum time for calls in one iteration of the event loop; the rest are answered with a retry time."""
BACKLOG, BACKLOG_TAKEN = 2_048, 16
"""Backlog of connections, and number accepted in one iteration of the event loop."""
BACKLOG_HELD = 64
"""From this backlog on, a server accepts connections before it answers anything else."""
BACKLOG_LOOK_S = 0.1
BACKLOG_HOLD_S = 1.0
"""Maximum time for which no call starts while connections are accepted."""
LOG_TEXTS_KNOWN = 1_024
"""Texts without secrets that are remembered so that they are not searched again."""
LOG_LINES_ALIKE = 60
"""Repeated log lines per minute that unauthenticated clients can cause; further ones are only counted."""
IDEMPOTENCY_WAIT_S = 5.0
"""How long a repeat waits for the first call under its key before it is rejected because that one still runs."""
ACCESS_KEYS_CACHED = 10_000
ACCESS_CACHE_MS = 1_000
"""How long a looked-up key is cached: the maximum delay until a revoked key is rejected."""
ACCESS_USED_EVERY_MS = 60 * 60 * 1000
"""Precision of a key's last-used time."""
QUOTA_STORED_EVERY_MS = 5_000
"""Interval at which a process adds a daily-quota key's calls to the store's count."""
QUOTA_STORED_EVERY_CALLS = 64
"""Number of calls after which it does so earlier."""
WEBHOOK_WINDOW_MS = 5 * 60 * 1000
"""Maximum difference between a webhook's time and the server's."""
SHUTDOWN_S = 20
"""How long a server that shuts down waits for accepted calls."""
NODE_LEASE_MS = 10_000
"""How long a server stays in its store's list of nodes without renewal."""
NODE_RENEW_S = 3.0
"""Interval of that renewal."""
READY_WAIT_S = 2.0
"""How quickly a store must respond for its server to be ready."""

# Procedures, agent skills and tools
LINEAGE_NODES = 8
STRATEGY_DIFFS = 8
DIFF_CHARS = 600
SUPERSEDED_NAMES = 16
SKILLS_COMPARED = 1_000
"""Skills of the space that a new one is compared with, and that one pass examines."""
SKILLS_PER_OUTCOME = 32
OUTCOME_NOTE_CHARS = 160
AGENT_SKILL_DIRS = 16
AGENT_SKILLS = 500
"""Maximum SKILL.md files from all directories together."""
AGENT_SKILL_FILE_BYTES = 256 * 1024
AGENT_SKILL_SCAN_BYTES = 32 * 1024 * 1024
"""Bytes of the files next to SKILL.md that one scan reads for their fingerprints."""
AGENT_SKILL_NAME_CHARS = 200
AGENT_SKILL_DESCRIPTION_CHARS = 2_000
AGENT_SKILL_RESOURCES = 1_000
"""Files next to one SKILL.md that are counted."""
AGENT_SKILL_ENTRIES = 20_000
"""Directory entries, over all directories, that one scan examines."""
AGENT_SKILL_DEPTH = 6
AGENT_SKILL_SKIPS = 100
AGENT_SKILL_RESCAN_MS = 60_000
"""How long recall relies on the last scan of agent skill directories."""
TOOL_REGISTRIES = 32
"""Registries per space."""
TOOLS_PER_REGISTRY = 1_000
TOOL_TAGS = 32
FINGERPRINT_CHARS = 128
FEEDBACK_OBSERVATIONS = 64
TOOL_SUMMARY_CHARS = 2_000
TOOL_REASON_CHARS = 400
TOOL_EXPERIENCES = 2_000
"""Experiences per space that are searched for hints."""
TOOL_HINTS = 8
TOOL_REJECTIONS = 64

# Remote clients
REMOTE_CONNECT_S = 10.0
REMOTE_ANSWER_S = 60.0
"""How long a client waits for the next bytes of an answer."""
REMOTE_PASS_S = 1.0
"""Delay before a client of several nodes also asks a second one."""
REMOTE_FIND_S = 10.0
"""Interval at which such a client looks for nodes, if it discovers them itself."""
REMOTE_SILENT_S = 10.0
"""How long such a client tries an unresponsive node only after all others."""
REMOTE_ATTEMPTS = 4
"""Attempts at calls that a client may repeat: reads, and writes under an idempotency key."""
REMOTE_STREAM_ATTEMPTS = 24
"""Attempts to reopen an interrupted stream: about a minute, enough for a server to restart."""
REMOTE_BACKOFF_S = 0.1
REMOTE_BACKOFF_MAX_S = 5.0
REMOTE_CONNECTIONS = 64
REMOTE_IDLE_S = 2.0
"""How long a client keeps an idle connection. Servers close theirs after five seconds or more; a call sent at that
moment would fail, and the client could not know whether it arrived."""
REMOTE_REPORT_BYTES = 64 * 1024 * 1024

# Streams
FRAME_BYTES = 1024 * 1024
# A frame wraps a request, which may be as deep as over HTTP.
FRAME_DEPTH = JSON_DEPTH + 1
FRAMES_AT_ONCE = 64
"""Commands of one WebSocket that run concurrently; further frames are not read until one is done."""
FRAMES_WAITING = 256
"""Frames queued for a slow reader before it is disconnected."""
FRAMES_WAITING_BYTES = 8 * 1024 * 1024
FRAME_SEND_S = 20.0
"""Maximum time for sending one frame before its reader is considered gone."""
SUBSCRIPTIONS = 64
"""Default subscriptions of one WebSocket; profiles may differ."""
STREAMS_PER_PRINCIPAL = 64
STREAM_RECHECK_S = 0.9
"""Interval at which a stream's credential is rechecked, so that revoking it ends the stream."""
WORKERS_MAX = 64
"""Maximum processes of one server."""
SEQUENCE_MAX = 2**53
MIN_SEQUENCE_WAIT_S = 2.0
MIN_SEQUENCE_POLL_S = 0.01
"""Limits of `min_sequence`: its largest value, how long a call waits for the journal to reach it, and the polling
interval."""
EVENTS_POLL_S = 1.0
"""Interval at which the journal is read for other processes' commits; this process's own are sent at once."""
EVENTS_PAGE = 500
EVENTS_BACKLOG = 100_000
"""Older entries are not streamed: a reader further behind receives a gap notice."""
EVENTS_HEARTBEAT_S = 15.0
EVENTS_RETRY_MS = 2_000
EVENT_ID_CHARS = 40
EVENT_SESSION_S = 3_600.0
EVENT_SESSIONS, EVENT_SESSIONS_EACH = 1_000, 16

# Agents that speak to agents (A2A)
A2A_CHUNK_BYTES = 512 * 1024
A2A_CHUNKS = 4_096
"""Chunks per archive."""
A2A_UPLOADS = 64
"""Concurrent archive transfers."""
A2A_UPLOADS_EACH = 4
A2A_UPLOAD_KEEP_MS = 3_600_000
"""How long an archive transfer waits for its next chunk."""
