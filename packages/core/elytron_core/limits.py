"""Named limits of lists, texts, waits, numbers and bodies."""

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
CLOCK_SKEW_MS = 60_000
"""Difference between two clocks that is not reported."""
FUTURE_CLAIMS = 32
"""Number of claimed times that a report lists because they lie in the future."""

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
"""Places of sealed stores that a key file remembers; the one that was noted first goes."""
LAST_CONVERSATIONS = 10_000
"""Subjects of a runtime whose last conversation it remembers."""
FACT_USES_KEPT = 10_000
LEARNING_RULES = 256
TOMBSTONE_SENTENCES = 64
FACT_CITATIONS = 6
TIER_L1_DAYS, TIER_L2_DAYS = 1, 7
"""Days for which a fact holds that is meant for the day, and for the week."""
TOOL_OBSERVATIONS = 64
HOST_REFS = 32
OPAQUE_ITEMS = 64
"""Items of its own that a host may keep beside the words of one turn."""
OPAQUE_ITEM_BYTES = 64 * 1024
OPAQUE_ITEMS_BYTES = 256 * 1024
ATTRIBUTES = 64
REDACTION_ITEMS = 5_000
"""Redactions that one report names; its audit counts all."""
DERIVED_REFS_SHOWN = 1_000
ALIASED_SUBJECTS = 256
"""Subjects that one chat's alias knows; the one that committed longest ago goes first."""
FILTER_VALUES = 100
CONDITION_TESTS = 256
"""Tests in the conditions of one filter, after and, or and not were multiplied out."""
CONDITION_CHARS = 1_000
PAGE_MAX = 1_000
PAGE_ASKED = 1_000_000
"""Largest page of a transcript that a request may ask for; it has at most `PAGE_MAX` turns, and says so."""
LEDGER_TURNS = 32
"""Turns of a conversation's ledger that are shown to a caller who names no number: the last ones."""
RECALL_MAX = 1_000
RECALL_DEFAULT = 8
RECALL_NEEDED, RECALL_NEEDED_TOKENS = 100, 2_000
"""The most hits, and tokens if no bound is asked for, of a recall of as much as the question needs."""
PROJECTED_SCORE, FOUND_SCORE = 0.2, 0.65
"""The estimate that one of the best hits answers, from which a block shows them, and the estimate that the first one
does, from which recall says `found`."""
RECALL_NEIGHBOURS = 10
"""Turns before, and after, each hit."""
WHY_NOT_IDS = 20
RERANK_HITS = 50
RERANK_TEXT_CHARS = 4_000
RERANK_WAIT_S = 10.0
PROJECTION_CHARS_MAX = 1_000_000
PROJECTION_CHARS_DEFAULT = 4_096
WISHES_READ = 48
"""Of the messages that say what is to hold, the last ones that are read for a block; as many that speak of a change."""
RECENT_MESSAGES_MAX = 200
RECENT_MESSAGES_DEFAULT = 8

# Planes
GARDEN_BYTES, GARDEN_DOCUMENTS = 8 * 1024, 16
"""Of one private document, and how many a conversation has."""
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
"""Open candidates of one space; what comes beyond is refused."""
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
"""Earlier versions of a record that are kept, and their bytes together; the oldest go first."""
RECORD_TTL_S = 10 * 366 * 24 * 3600
RECORD_OFFSET = 100_000
SNAPSHOT_FACTS_BOOTSTRAP, SNAPSHOT_FACTS_FULL = 16, 48
PROFILE_LINES, PROFILE_LINES_MAX = 60, 200
"""Facts of a profile."""
PROFILE_CHARS = 12_000
PROFILE_SENTENCES, PROFILE_GROUNDS, PROFILE_SENTENCE_CHARS = 40, 16, 600
"""Of a written profile: its sentences, the facts that one rests on, and how long one is."""
FACTS_STANDING = 96
"""Most standing facts of a block; further ones answer when they are asked for."""

# Store
DOCUMENT_BYTES = 8 * 1024 * 1024
BATCH_CHANGES = 4_096
IMPORT_CHANGES, IMPORT_BYTES = 262_144, 512 * 1024 * 1024
"""Of the one batch that an import is: its changes, and the bytes of its documents."""
COMPACTION_RUNS = 1_000
BLOB_BYTES = 4 * 1024 * 1024 * 1024
BLOB_CHUNK_BYTES = 256 * 1024
SCAN_MAX = 2_000
JOURNAL_MAX = 10_000
SCAN_PAGE = 250
"""Documents or entries that a walk over a space reads at once: a thread that reads many delays all others."""
ERASING_MS = 5_000
"""An open runtime ends an erasure of another process that was begun so long ago and not ended."""
WORK_STEP_S = 0.001
"""Upkeep that takes longer lets other tasks run: a recall passes through the event loop several times."""
IDEMPOTENCY_KEEP_MS = 7 * 24 * 3600 * 1000
PROBLEMS_MAX = 1_000

# Sealing
SEAL_BYTES = 128
"""Bytes that sealing may add to a document's body."""

# Reading from outside
JSON_BYTES = 16 * 1024 * 1024
JSON_DEPTH = 64
JSON_KEYS, JSON_VALUES = 10_000, 500_000
"""Keys of one object, and values of a document; where more than `JSON_BYTES` are allowed, one for each 16 of them."""
CREDENTIAL_BYTES, DECODED_AT_ONCE_BYTES = 64 * 1024, 128 * 1024
"""Bytes of a body that are read before its sender is known. A body longer than the second is decoded in a thread."""
IMPORT_LINE_BYTES, IMPORT_FILES = 8 * 1024 * 1024, 400
IMPORT_SKIPPED, IMPORT_OFFSETS, IMPORT_CANDIDATES = 100, 8, 20
TRANSCRIPT_JSON_BYTES = 256 * 1024 * 1024
"""A transcript that is one JSON document and so is read as a whole; JSON Lines have no bound but the line's."""
ZIP_UNPACKED_BYTES = 1024 * 1024 * 1024
"""Bytes of all transcripts in a ZIP file together."""
BUNDLE_FILES = 50_000
"""Files of a folder or ZIP that is imported as one export, such as one with a file for each day."""
IMPORT_OWNERS, IMPORT_CELL_CHARS = 1_000, 4 * 1024 * 1024
"""Users of one imported store whose names are noted, and characters read of one cell of its tables."""
HTTP_BODY_BYTES = 1024 * 1024
HTTP_HEADER_BYTES = 32 * 1024
HTTP_BODY_WAIT_S = 30.0
"""Longest time in which a request's body may arrive."""
HTTP_SILENT_S, HTTP_HEAD_S = 5.0, 10.0
"""Longest waits for the first byte of a connection, and for the head of a request."""
HTTP_IDLE_S = 30
"""Time for which a server keeps an unused connection: far longer than clients do, see `REMOTE_IDLE_S`."""
HTTP_UPLOAD_WAIT_S = 300.0
"""Longest time in which a form with files may arrive, with no pause in it longer than the wait for a body."""
HTTP_ARCHIVE_BYTES = 1024 * 1024 * 1024
"""An archive that is sent or fetched over HTTP."""
ARCHIVE_BYTES = 8 * 1024 * 1024 * 1024
ERASURES_LINES = 1_000_000
"""Spaces and erased memories that one file of erasures names."""
ERASURES_LINE_BYTES = 4_096
HTTP_STORE_BODY_BYTES = 64 * 1024 * 1024
"""A batch of documents that a runtime elsewhere sends to the store that it keeps its memory in."""

# Models and maintenance
MODEL_CALLS_PER_DAY = 2_000
MODEL_TOKENS_PER_DAY = 5_000_000
MODEL_TIMEOUT_S = 60.0
MODEL_ATTEMPTS = 3
MODEL_ANSWER_CHARS = 200_000
"""More of an answer than this is not read."""
MODEL_ANSWER_TOKENS = 1_200
MODEL_OUTPUT_TOKENS = 8_192
"""Tokens that a model may write if the dialect demands a number and the request has none."""
MODEL_CONNECT_S = 10.0
MODEL_DRAIN_S = 0.2
"""Time for which the end of a connection's answer is awaited once the model has said that it is over."""
MODEL_SILENCE_S = 120.0
"""The longest silence within an answer; some models think for long before they write."""
MODEL_STREAM_S = 1_800.0
MODEL_EVENT_BYTES = 8 * 1024 * 1024
MODEL_STREAM_BYTES = 64 * 1024 * 1024
"""One event of an answer, and all of them."""
MODEL_REFUSAL_BYTES = 64 * 1024
"""More of a refusal than this is not read."""
MODEL_BACKOFF_S, MODEL_BACKOFF_MAX_S = 0.5, 8.0
MODEL_RETRY_AFTER_S = 30
"""A server that asks for a longer wait is not waited for."""
MODEL_TOOL_CALLS = 128
MODEL_ITEMS = 4_096
"""Items, blocks or choices of one answer."""
MODEL_NAME_CHARS = 200
EXTRACTION_ITEMS = 4
EXTRACTION_CHARS = 12_000
"""Characters of a turn that an extraction is shown; a longer one is cut at its end."""
SUMMARY_INPUT_CHARS = 40_000
MESSAGE_SHOWN_CHARS = 4_000
"""Characters of one message that a summary is shown."""
EXTRACTION_CONTEXT = 4
"""Earlier messages that an extraction may read to know what is meant."""
EXTRACTION_KNOWN = 24
"""Standing facts that an extraction is shown, so that it keeps their topics."""
MAINTAIN_TURNS = 64
"""Turns that one job, or one call of maintain, looks at."""
MAINTAIN_BEYOND = 1_024
JOBS_ACTIVE = 256
JOBS_ACTIVE_OF_KIND = 512
JOBS_KEPT = 512
"""Jobs that are over and can still be looked at."""
JOBS_RUN_MAX = 256
JOB_ATTEMPTS = 8
JOB_PAYLOAD_CHARS = 4_096
JOB_LEASE_MS = 10 * 60 * 1000
JOB_WAIT_MS = 15 * 1000
JOB_WAIT_MAX_MS = 6 * 3600 * 1000
JOB_STALL_MS = 30 * 60 * 1000
"""A job that is due for longer than this is a sign that no worker takes from the queue."""
SPENDING_DAYS = 31
WORKER_PAUSE_S = 2.0
CASSETTE_CALLS = 10_000

# Index
READINGS_KEPT = 2_048
READING_BYTES = 8_192
"""Turns and facts that a runtime keeps as it read them, and the largest of these."""
INDEX_CACHE_BYTES = 256 * 1024 * 1024
INDEX_CACHE_SPACES = 65_536
CLOSE_WAIT_S = 1.5
"""After this time, a runtime that closes begins no further checkpoint of an index; after a third of it, it no longer
stores when facts were last used."""
VECTOR_DIMENSIONS = 8_192

# Embedding
EMBED_TEXT_CHARS = 8_000
"""Characters of a memory's text that are embedded; an encoder may read fewer."""
EMBED_PASSAGES = 32
EMBED_PASSAGES_OF_DOCUMENT = 512
"""Passages of a message that may be embedded beside it, and of all messages of a document."""
EMBED_BATCH_TEXTS = 64
"""Texts that go to an embedder in one call."""
EMBED_TEXTS_PER_CALL = 10_000
"""Texts that one call of `embed` or `switch_model` may work through; the next one goes on."""
EMBED_QUERY_WAIT_S = 2.0
"""Time for which recall waits for a query's vector; then it goes on by words alone."""
EMBED_LOAD_WAIT_S = 30.0
"""Time for which the first recall of a process waits for a model on this machine to be read."""
EMBED_QUERIES_KEPT = 256
EMBED_PAUSE_MS = 30_000
"""After an embedder failed, nothing is embedded in the background for this time."""
EMBED_REST_MS = 5_000
"""After an embedder left a query unanswered, no query waits for it for this time."""
EMBED_CLOSE_WAIT_S = 2.0
"""Time that closing leaves an embedding pass to finish; what is left waits for the next runtime."""
EMBED_REFUSED_KEPT = 10_000
EMBED_THREADS = 64
MODEL_PACKAGE_BYTES = 1024 * 1024 * 1024
"""Largest file of a model's package or folder."""

# Serving
CALLS_PER_MINUTE = 12_000
"""Of one user or device; operators and developers are not counted."""
WRONG_CREDENTIALS_PER_MINUTE = 60
"""From one address, or one network of IPv6, before they are answered by when to come again."""
WRONG_CREDENTIALS_PLACES = 4_096
"""Addresses that are counted at once; the one that was quiet for longest makes room."""
CONNECTIONS, CONNECTIONS_EACH = 65_536, 256
"""Connections of a server, as far as it has descriptors; and those of one address without a right credential."""
CALLS_RUNNING = 64
CALLS_RUNNING_EACH = 32
CALLS_WAITING = 4_096
CALLS_WAITING_EACH = 512
CALL_WAIT_S = 10.0
"""Time for which a call waits for its place before it is answered by when to come again."""
CALL_LAG_S = 1.0
"""Longest time for calls in one turn of the event loop; those that are left are answered by when to come again."""
BACKLOG, BACKLOG_TAKEN = 2_048, 16
"""Connections that wait to be accepted, and those that one turn of the event loop accepts."""
BACKLOG_HELD = 64
"""With this many connections that are not accepted yet, a server accepts them before it answers anything more."""
BACKLOG_LOOK_S = 0.1
BACKLOG_HOLD_S = 1.0
"""Longest time for which no call is begun while connections are accepted."""
LOG_TEXTS_KNOWN = 1_024
"""Texts in which nothing was found to black out, so that they are not searched again."""
LOG_LINES_ALIKE = 60
"""Lines a minute that strangers can cause and that say the same; further ones are counted."""
IDEMPOTENCY_WAIT_S = 5.0
"""Time for which a repeat waits for the first call under its key before it is refused because that one still runs."""
ACCESS_KEYS_CACHED = 10_000
ACCESS_CACHE_MS = 1_000
"""Time for which a key that was looked up is trusted: a revoked one is refused after this at the latest."""
ACCESS_USED_EVERY_MS = 60 * 60 * 1000
"""Precision of the time at which a key was last used."""
QUOTA_STORED_EVERY_MS = 5_000
"""Time after which a process adds the calls of a key with a daily quota to the store's count."""
QUOTA_STORED_EVERY_CALLS = 64
"""Calls after which it does so earlier."""
WEBHOOK_WINDOW_MS = 5 * 60 * 1000
"""Largest difference of a webhook's time from the server's."""
SHUTDOWN_S = 20
"""Time for which a server that ends waits for the calls that it accepted."""
NODE_LEASE_MS = 10_000
"""Time for which a server is in its store's list of nodes without renewing that."""
NODE_RENEW_S = 3.0
"""Time after which it does."""
READY_WAIT_S = 2.0
"""Time in which a store has to answer for its server to be ready."""

# Procedures, agent skills and tools
LINEAGE_NODES = 8
STRATEGY_DIFFS = 8
DIFF_CHARS = 600
SUPERSEDED_NAMES = 16
SKILLS_COMPARED = 1_000
"""Skills of its space with which a new one is compared for likeness, and which one pass looks through."""
SKILLS_PER_OUTCOME = 32
OUTCOME_NOTE_CHARS = 160
AGENT_SKILL_DIRS = 16
AGENT_SKILLS = 500
"""SKILL.md files that all directories together may give."""
AGENT_SKILL_FILE_BYTES = 256 * 1024
AGENT_SKILL_SCAN_BYTES = 32 * 1024 * 1024
"""Bytes of the files beside SKILL.md that one scan reads for their fingerprints."""
AGENT_SKILL_NAME_CHARS = 200
AGENT_SKILL_DESCRIPTION_CHARS = 2_000
AGENT_SKILL_RESOURCES = 1_000
"""Files beside one SKILL.md that are counted."""
AGENT_SKILL_ENTRIES = 20_000
"""Names in all directories together that one scan looks at."""
AGENT_SKILL_DEPTH = 6
AGENT_SKILL_SKIPS = 100
AGENT_SKILL_RESCAN_MS = 60_000
"""Time for which recall takes agent skill directories to be as they were last seen."""
TOOL_REGISTRIES = 32
"""Registries of one space."""
TOOLS_PER_REGISTRY = 1_000
TOOL_TAGS = 32
FINGERPRINT_CHARS = 128
FEEDBACK_OBSERVATIONS = 64
TOOL_SUMMARY_CHARS = 2_000
TOOL_REASON_CHARS = 400
TOOL_EXPERIENCES = 2_000
"""Experiences of one space that hints are looked for in."""
TOOL_HINTS = 8
TOOL_REJECTIONS = 64

# Remote clients
REMOTE_CONNECT_S = 10.0
REMOTE_ANSWER_S = 60.0
"""Time for which a client waits for the next bytes of an answer."""
REMOTE_PASS_S = 1.0
"""Time after which a client of several nodes asks a second one too."""
REMOTE_FIND_S = 10.0
"""Time after which such a client looks for the nodes again, if it finds them itself."""
REMOTE_SILENT_S = 10.0
"""Time for which such a client asks a node that did not answer behind all others."""
REMOTE_ATTEMPTS = 4
"""Attempts at what a client may send again: reads, and writes under an idempotency key."""
REMOTE_STREAM_ATTEMPTS = 24
"""Attempts to open a stream again that had begun: about a minute, enough for a server to restart."""
REMOTE_BACKOFF_S = 0.1
REMOTE_BACKOFF_MAX_S = 5.0
REMOTE_CONNECTIONS = 64
REMOTE_IDLE_S = 2.0
"""Time for which a client keeps a connection that it does not use. Servers end theirs after five seconds or more: a
call sent just then would fail, and the client could not know whether it arrived."""
REMOTE_REPORT_BYTES = 64 * 1024 * 1024

# Streams
FRAME_BYTES = 1024 * 1024
# A frame wraps a request, which may be as deep as over HTTP.
FRAME_DEPTH = JSON_DEPTH + 1
FRAMES_AT_ONCE = 64
"""Commands of one WebSocket that run together; further frames are not read until one is done."""
FRAMES_WAITING = 256
"""Frames that may wait for a slow reader before it is cut off."""
FRAMES_WAITING_BYTES = 8 * 1024 * 1024
FRAME_SEND_S = 20.0
"""Longest time in which one frame may leave before its reader counts as gone."""
SUBSCRIPTIONS = 64
"""Subscriptions of one WebSocket, unless a profile says otherwise."""
STREAMS_PER_PRINCIPAL = 64
STREAM_RECHECK_S = 0.9
"""Interval at which a stream's credential is checked again, so that a revoked one ends it."""
WORKERS_MAX = 64
"""Processes of one server at most."""
SEQUENCE_MAX = 2**53
MIN_SEQUENCE_WAIT_S = 2.0
MIN_SEQUENCE_POLL_S = 0.01
"""Bound of a `min_sequence`, the time for which a call waits for a journal to reach it, and the pause between looks."""
EVENTS_POLL_S = 1.0
"""Interval at which the journal is read for commits of other processes; this one's commits are sent at once."""
EVENTS_PAGE = 500
EVENTS_BACKLOG = 100_000
"""Older entries are not streamed: a reader further behind receives a note of the gap."""
EVENTS_HEARTBEAT_S = 15.0
EVENTS_RETRY_MS = 2_000
EVENT_ID_CHARS = 40
EVENT_SESSION_S = 3_600.0
EVENT_SESSIONS, EVENT_SESSIONS_EACH = 1_000, 16

# Agents that speak to agents (A2A)
A2A_CHUNK_BYTES = 512 * 1024
A2A_CHUNKS = 4_096
"""Chunks of one archive."""
A2A_UPLOADS = 64
"""Archives that may be under way at once."""
A2A_UPLOADS_EACH = 4
A2A_UPLOAD_KEEP_MS = 3_600_000
"""Time for which an archive waits for its next chunk."""
