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
"""So many subjects of a runtime have a last conversation that it remembers."""
FACT_USES_KEPT = 10_000
FACT_USES_CLOSE_WAIT_S = 2.0
"""After so long a runtime that closes stores the last use of facts in no further space."""
LEARNING_RULES = 256
TOMBSTONE_SENTENCES = 64
FACT_CITATIONS = 6
TIER_L1_DAYS, TIER_L2_DAYS = 1, 7
"""For how many days a fact holds that is meant for the day, and for the week."""
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
"""A page of a transcript may be asked for up to this size; it has at most `PAGE_MAX` turns, and says so."""
LEDGER_TURNS = 32
"""Turns of a conversation's ledger that are shown to a caller who names no number: the last ones."""
RECALL_MAX = 1_000
RECALL_DEFAULT = 8
PROJECTED_SCORE, LIKELY_SCORE, SURE_SCORE = 0.2, 0.5, 0.8
"""Estimates that one of the best hits answers, from which a block shows them, they are likely, and sure."""
RECALL_NEIGHBOURS = 10
"""Turns before, and after, each hit."""
WHY_NOT_IDS = 20
RERANK_HITS = 50
RERANK_TEXT_CHARS = 4_000
RERANK_WAIT_S = 10.0
PROJECTION_CHARS_MAX = 1_000_000
PROJECTION_CHARS_DEFAULT = 4_096
WISHES_READ = 48
"""So many of the last messages that say what is to hold are read for a block, and as many that speak of a change."""
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
"""Facts that may stand at once; what is beyond answers when it is asked for."""

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
IDEMPOTENCY_KEEP_MS = 7 * 24 * 3600 * 1000
PROBLEMS_MAX = 1_000

# Sealing
SEAL_BYTES = 64
"""What sealing may add to a document's body."""

# Reading from outside
JSON_BYTES = 16 * 1024 * 1024
JSON_DEPTH = 64
JSON_KEYS, JSON_VALUES = 10_000, 500_000
"""Keys of one object, and values of a document; where more than `JSON_BYTES` are allowed, one for each 16 of them."""
CREDENTIAL_BYTES, DECODED_AT_ONCE_BYTES = 64 * 1024, 128 * 1024
"""So much of a body is read before its sender is known; and a longer one than this is decoded in a thread."""
IMPORT_LINE_BYTES, IMPORT_FILES = 8 * 1024 * 1024, 400
TRANSCRIPT_JSON_BYTES = 256 * 1024 * 1024
"""A transcript that is one JSON document and so is read as a whole; JSON Lines have no bound but the line's."""
HTTP_BODY_BYTES = 1024 * 1024
HTTP_HEADER_BYTES = 32 * 1024
HTTP_BODY_WAIT_S = 30.0
"""How long a request's body may take to arrive."""
HTTP_IDLE_S = 30
"""How long a server keeps a connection on which nothing is asked: far longer than clients do, see `REMOTE_IDLE_S`."""
HTTP_UPLOAD_WAIT_S = 300.0
"""How long a form with files may take to arrive, with no pause in it longer than the wait for a body."""
HTTP_ARCHIVE_BYTES = 1024 * 1024 * 1024
"""An archive that is sent or fetched over HTTP."""
ARCHIVE_BYTES = 8 * 1024 * 1024 * 1024
ERASURES_LINES = 1_000_000
"""Spaces and erased memories that one file of erasures tells of."""
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
"""What a model may write where the dialect demands a number and the request has none."""
MODEL_CONNECT_S = 10.0
MODEL_DRAIN_S = 0.2
"""So long the end of a connection's answer is waited for once the model said that it is over."""
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
"""How much of a turn an extraction is shown; a longer one is cut at its end."""
SUMMARY_INPUT_CHARS = 40_000
MESSAGE_SHOWN_CHARS = 4_000
"""How much of one message a summary is shown."""
EXTRACTION_CONTEXT = 4
"""Earlier messages that an extraction may read to know what is meant."""
EXTRACTION_KNOWN = 24
"""Standing facts that an extraction is shown, so that it keeps their topics."""
MAINTAIN_TURNS = 64
"""Turns that one job, or one call of maintain, looks at."""
MAINTAIN_BEYOND = 1_024
JOBS_ACTIVE = 256
JOBS_KEPT = 512
"""Jobs that are over and can still be looked at."""
JOBS_RUN_MAX = 256
JOB_ATTEMPTS = 8
JOB_PAYLOAD_CHARS = 4_096
JOB_LEASE_MS = 10 * 60 * 1000
JOB_WAIT_MS = 15 * 1000
JOB_WAIT_MAX_MS = 6 * 3600 * 1000
JOB_STALL_MS = 30 * 60 * 1000
"""A job that is due for longer than this says that nobody works on the queue."""
SPENDING_DAYS = 31
WORKER_PAUSE_S = 2.0
CASSETTE_CALLS = 10_000

# Index
READINGS_KEPT = 2_048
READING_BYTES = 8_192
"""How many turns and facts a runtime remembers as it read them, and the largest of these."""
INDEX_CACHE_BYTES = 256 * 1024 * 1024
INDEX_CACHE_SPACES = 65_536
VECTOR_DIMENSIONS = 8_192

# Embedding
EMBED_TEXT_CHARS = 8_000
"""What of a memory's text is embedded; encoders of their own read less."""
EMBED_PASSAGES = 32
EMBED_PASSAGES_OF_DOCUMENT = 512
"""So many passages of a message may be embedded beside it, and so many of all messages of a document."""
EMBED_BATCH_TEXTS = 64
"""So many texts go to an embedder in one call."""
EMBED_TEXTS_PER_CALL = 10_000
"""So many texts one call of `embed` or `switch_model` may work through; the next one goes on."""
EMBED_QUERY_WAIT_S = 2.0
"""So long recall waits for a query's vector; then it goes on by words alone."""
EMBED_QUERIES_KEPT = 256
EMBED_PAUSE_MS = 30_000
"""So long nothing is embedded on its own after an embedder failed."""
EMBED_CLOSE_WAIT_S = 2.0
"""So long closing lets an embedding pass finish; what is left waits for the next runtime."""
EMBED_REFUSED_KEPT = 10_000
EMBED_THREADS = 64
MODEL_PACKAGE_BYTES = 1024 * 1024 * 1024
"""What a file of a model's package or folder may be."""

# Serving
CALLS_PER_MINUTE = 12_000
"""Of one user or device; operators and developers are not counted."""
WRONG_CREDENTIALS_PER_MINUTE = 60
"""From one address, or one network of IPv6, before they are answered by when to come again."""
WRONG_CREDENTIALS_PLACES = 4_096
"""How many addresses are counted at once; the one that was quiet for longest makes room."""
CALLS_RUNNING = 64
CALLS_RUNNING_EACH = 32
CALLS_WAITING = 4_096
CALLS_WAITING_EACH = 512
CALL_WAIT_S = 10.0
"""How long a call waits for its place before it is told to come again."""
CALL_LAG_S = 1.0
"""How long one turn of the event loop may take on calls before those that are left of it are told to come again."""
BACKLOG_HELD = 64
"""With how many connections that nobody has taken up yet a server takes them up before it answers anything more."""
BACKLOG_LOOK_S = 0.1
BACKLOG_HOLD_S = 1.0
"""How long no call is begun while connections are taken up."""
LOG_TEXTS_KNOWN = 1_024
"""In which nothing was found to black out, so that they are not looked through again."""
LOG_LINES_ALIKE = 60
"""So many lines a minute that anybody could cause and that say the same; the others are counted."""
IDEMPOTENCY_WAIT_S = 5.0
"""How long a repeat waits for the first call under its key before it is told that this one still runs."""
ACCESS_KEYS_CACHED = 10_000
ACCESS_CACHE_MS = 1_000
"""How long a key that was looked up is trusted: a revoked one is refused after this at the latest."""
ACCESS_USED_EVERY_MS = 60 * 60 * 1000
"""How exactly it is known when a key was last used."""
WEBHOOK_WINDOW_MS = 5 * 60 * 1000
"""How far a webhook's time may be from the server's."""
SHUTDOWN_S = 20
"""How long a server that ends waits for what it accepted."""

# Procedures, agent skills and tools
LINEAGE_NODES = 8
STRATEGY_DIFFS = 8
DIFF_CHARS = 600
SUPERSEDED_NAMES = 16
SKILLS_COMPARED = 1_000
"""With so many skills of its space a new one is compared for likeness, and so many are looked through in one pass."""
SKILLS_PER_OUTCOME = 32
OUTCOME_NOTE_CHARS = 160
AGENT_SKILL_DIRS = 16
AGENT_SKILLS = 500
"""SKILL.md files that all directories together may give."""
AGENT_SKILL_FILE_BYTES = 256 * 1024
AGENT_SKILL_SCAN_BYTES = 32 * 1024 * 1024
"""So much of the files beside SKILL.md is read in one scan, for their fingerprints."""
AGENT_SKILL_NAME_CHARS = 200
AGENT_SKILL_DESCRIPTION_CHARS = 2_000
AGENT_SKILL_RESOURCES = 1_000
"""Files beside one SKILL.md that are counted."""
AGENT_SKILL_ENTRIES = 20_000
"""Names in all directories together that one scan looks at."""
AGENT_SKILL_DEPTH = 6
AGENT_SKILL_SKIPS = 100
AGENT_SKILL_RESCAN_MS = 60_000
"""For so long recall takes agent skill directories to be as they were last seen."""
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
"""How long a client waits for the next bytes of an answer."""
REMOTE_ATTEMPTS = 4
"""How often a client sends what it may send again: reads, and writes under an idempotency key."""
REMOTE_STREAM_ATTEMPTS = 24
"""How often a client opens a stream again that had begun: for about a minute, in which a server is started anew."""
REMOTE_BACKOFF_S = 0.1
REMOTE_BACKOFF_MAX_S = 5.0
REMOTE_CONNECTIONS = 64
REMOTE_IDLE_S = 2.0
"""How long a client keeps a connection that it does not use. Servers end theirs after five seconds or more: a call sent
just then would fail, and nobody could tell whether it arrived."""
REMOTE_REPORT_BYTES = 64 * 1024 * 1024

# Streams
FRAME_BYTES = 1024 * 1024
FRAME_DEPTH = JSON_DEPTH + 1
FRAMES_AT_ONCE = 64
"""Commands of one WebSocket that run together; further frames are not read until one is done."""
FRAMES_WAITING = 256
"""Frames that may wait for a slow reader before he is cut off."""
FRAMES_WAITING_BYTES = 8 * 1024 * 1024
FRAME_SEND_S = 20.0
"""How long one frame may take to leave before its reader counts as gone."""
SUBSCRIPTIONS = 64
"""Subscriptions of one WebSocket, where no profile says otherwise."""
STREAMS_PER_PRINCIPAL = 64
STREAM_RECHECK_S = 0.9
"""How often a stream's credential is looked at again, so that a revoked one ends it."""
EVENTS_POLL_S = 1.0
"""How often the journal is looked at for what other processes committed; this one's commits are told at once."""
EVENTS_PAGE = 500
EVENTS_BACKLOG = 100_000
"""Older entries are not streamed: a reader further behind is told of the gap."""
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
"""For so long an archive waits for its next chunk."""
