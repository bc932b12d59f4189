"""Limits of agents: blocks, tools, strategies, turn hooks, runs, and the agent service."""

BLOCK_CHARS, BLOCK_CHARS_MAX = 20_000, 50_000
"""A block's cap if nothing else is said, and the largest cap."""
BLOCKS = 100
"""Blocks of one owner."""
BLOCK_DESCRIPTION_CHARS = 2_000
BLOCK_CALLS = 8
"""Number of the last calls that edited a block that are known, so that a repeated call has one effect."""
ARCHIVAL_TOP_K, ARCHIVAL_TOP_K_MAX = 5, 20
CONVERSATION_HITS, CONVERSATION_HITS_MAX = 5, 50
SEARCH_LINE_CHARS = 1_200
"""Characters of one memory that a search shows."""
FILE_LINES = 999_999
"""Lines of one file that the memory tool shows."""

# Strategies
RUN_TIMEOUT_S = 10.0
"""So long a run waits for a gateway at most, if its configuration says nothing else, and for curated entries."""
REFERENCE_CHARS = 4_000
"""Of each memory that a gateway found, shown before a run."""
REFERENCE_NAME_CHARS = 400
"""Of each of its other fields, such as its session and address."""
REFERENCES_CHARS = 16_000
"""Of all memories that a gateway found, shown before a run."""
SESSION_HITS, SESSION_HITS_MAX = 5, 20
MEMORY_CHARS, USER_CHARS, CURATED_CHARS_MAX = 2_200, 1_375, 50_000
"""Characters of MEMORY.md and of USER.md with their separators, and what they may be set to."""
CURATED_SHOWN = 2
"""Multiple of a file's limit that a snapshot shows of one that grew beyond it."""
CURATED_OPERATIONS = 50
CURATED_FAILURES = 3
"""Number of failed attempts to make room after which the tool says that the run is to go on without."""
CURATED_FULL_PERCENT = 90
CURATED_PREVIEW_CHARS = 80
CURATED_ATTEMPTS = 8
"""So often a change is made again because others changed the entries meanwhile."""
CURATED_LOCK_S, CURATED_PAUSE_S = 5.0, 0.005
"""So long a change waits for its file, and so long between two looks."""
CURATED_FILE_BYTES = 1024 * 1024
CONFIGURATION_BYTES = 1024 * 1024
PROJECTION_CHARS = 4_096
RUNTIME_DEADLINE_S = 2.0
"""So long a run waits for its own store's memory."""

# Turn hooks
CHARS_PER_TOKEN = 4
"""Characters that are counted as one token, if no provider gave a number."""
HOST_MESSAGES = 10_000
SESSION_CHARS = 128
PROJECT_CHARS = 128
TURN_ID_CHARS = 128
CREDENTIAL_CHARS = 16_384
CREDENTIALS_HELD = 64
"""Memories on an MCP file server that stay open while no turn uses them."""
CREDENTIAL_IDLE_MS = 30_000
"""Idle time after which one is opened again: another process may have written to it."""
FACTS_READ = 4_000
"""Number of facts of a session that are read for one turn, superseded ones included."""
CHUNK_CHARS = 600
"""Of each message that a turn is reminded of."""
MARKED_VALUE_CHARS = 128
"""Of what is said behind a marker such as "my name is"."""
MODEL_FACTS = 32
"""Facts that a model may draw from one turn."""
MODEL_INPUT_CHARS = 16_000
FACT_NAME_CHARS = 90
"""Of a fact's id, and of its key."""
WINDOW_TURNS = 64
"""Turns that may be in a context word for word."""
ITEM_DETAILS = 48
"""Pieces of up to `core.limits.ATTRIBUTE_CHARS` characters in which a turn's items are kept beside their words."""
ITEM_DETAIL_PIECES = 4
"""Pieces of one item; a larger one, such as an image in the request itself, is kept by its words alone."""

# The readable tree
TREE_DEPTH, TREE_LIMIT = 8, 200
TREE_PATH_CHARS = 512
TREE_ABSTRACT_WORDS = 200
TREE_SAMPLES = 20
TREE_TURNS = 1_000
"""Of a conversation, the last turns in it."""

# Agent files
FILE_BYTES = 64 * 1024 * 1024
FILE_AGENTS, FILE_ELEMENTS, FILE_MESSAGES = 50, 2_000, 20_000
"""Of one file: its agents, the elements of each list, and the messages of each agent."""
FILE_DEPTH = 28
"""So deep a file's parts may be nested, so that each fits into a record."""
FILE_BATCH = 200
"""Turns that are written at once when a file is imported."""
FILE_BATCH_CHARS = 1_000_000
FILE_PIECE_CHARS = 12_000
"""Of a message in one item of its turn."""


MAX_CONTEXT_TOKENS = 100_000
RESULT_PAGE_CHARS = 4_000
RESULT_PASSAGES, RESULT_PASSAGE_CHARS = 5, 600
RESULTS_LISTED = 100
"""Results that are listed, and how much of those put away is read at once."""
RECALL_DEADLINE_S = 0.05
RECALL_LIMIT = 8


MAX_STEPS = 10
MAX_CALLS = 50
MAX_RUN_TOKENS = 2_000_000
MAX_SECONDS = 900.0
TOOL_SECONDS = 120.0
"""So long a tool may take; after it the outcome is unknown."""
READS_AT_ONCE = 8
"""Number of reading calls of one reply that are made side by side."""
CORRECTIONS = 1
RETRIES = 1
"""Number of times that a step is asked again after an answer that broke off."""
INPUT_CHARS = 40_000
RESULT_CHARS = 40_000
"""So that a document holds it: a record has 256 KiB, and a character takes at most six bytes of JSON."""
REPLY_BYTES = 200_000
DESCRIPTION_CHARS = 4_000
PROBLEM_CHARS = 500
IMAGES = 8
IMAGE_URL_CHARS = 14_000_000
OUTSIDE_CHARS = 2_000
"""So much of what came from outside is kept as evidence beside a turn."""
TEMPERATURE = 0.7
MAX_TOKENS = 32_768
WELCOME_RUNS = 15
"""Number of runs with guidance for a person whom the agent does not know yet."""
WEB_RESULTS, WEB_RESULTS_MAX = 10, 20
WEB_TEXT_CHARS, WEB_TITLE_CHARS, WEB_URL_CHARS = 1_200, 300, 2_000
WEB_SEARCH_S = 15.0
WEB_ANSWER_BYTES = 4 * 1024 * 1024
SUBAGENTS = 64
SUBAGENT_NAME_CHARS, SUBAGENT_PURPOSE_CHARS = 80, 2_000
LOCALE_CHARS = 35
EPOCH_DIGITS, STEP_DIGITS = 6, 4
COUNT_DEADLINE_S = 2.0
"""So long a run waits for a model's own count of tokens before it compacts by an estimate."""
REACTED_RUNS = 256
"""Runs of a thread whose reactions are looked up for a request."""
LEASE_SECONDS = 20.0
"""So long a process holds a thread after it last renewed that; a dead one's run is then gone on with."""
LEASE_RENEWALS = 3
"""Number of renewals in the time of a lease."""
THREAD_WAIT_SECONDS = 25.0
"""So long a run waits for a thread that another process runs: longer than a dead one holds it."""
THREAD_LOOK_S = 0.2
QUEUED_RUNS = 8
"""Runs that may wait for one agent's thread in one process."""
MCP_START_SECONDS = 30.0
"""So long an MCP server may take until its tools are known."""
MCP_TOOLS = 100
"""Tools of all MCP servers: a model takes 128, and the agent has some of its own."""
MCP_DESCRIPTION_CHARS = 4_000


TURNS_WAITING = 8
"""Turns that may wait for the one that runs in the same thread."""
KEEP_ALIVE_S = 15.0
"""Silence of a chat's stream after which a comment is sent."""
AGENTS_KEPT = 512
"""Agents of users that one process keeps between their turns."""
CHAT_PARTS = 32
ITEMS_PAGE, ITEMS_PAGE_MAX = 20, 100
CHAT_BODY_BYTES = 16 * 1024 * 1024
"""Bytes of a chat's request, with its images."""
BODY_BYTES = 1024 * 1024
"""Bytes of any other request."""
LOCAL_CONTEXT_TOKENS = 16_384
"""Tokens of a model on this machine, unless the operator says otherwise."""
TURN_WAIT_S = 900.0
"""So long a turn waits for one that another process runs in its thread."""
PROMPT_CHARS = 40_000
"""Characters of a system prompt."""
SEARCH_RESULTS, SEARCH_RESULTS_MAX = 5, 20
LOG_PAGE, LOG_PAGES = 32, 512
"""Entries of a page of a user's event log, and pages that are kept."""
LOG_PAGES_OF_A_TURN = 8
"""Last pages in which a message of a turn that broke off is looked for."""
TURN_SETTLE_S = 5.0
"""Age from which a turn without an end in the log is looked at."""
EVENTS_KEPT_S = 24 * 3_600
"""So long an event is in the log."""
HEARTBEAT_S = 30.0
"""Silence of the channel of events after which a comment is sent."""
EVENTS_POLL_S = 1.0
"""Interval in which the channel looks for events of other processes."""
EVENTS_LOOK_S = 5.0
"""Interval in which the channel looks whether a turn broke off."""
EVENTS_RETRY_MS = 2_000
SEND_S = 30.0
"""So long the reader of a stream may take nothing."""
STREAMS_EACH = 16
"""Streams that one caller may have open."""
SCHEDULE_NAME_CHARS, SCHEDULE_TASK_CHARS = 80, 4_000
INTERVAL_MIN_S, INTERVAL_MAX_S = 60, 366 * 24 * 3_600
CRON_CHARS = 120
SCHEDULE_MAX_MS = 10 * 366 * 24 * 3_600_000
"""Time within which a schedule is due first."""
SCHEDULES_OVER = 100
"""Schedules that are over, and are still shown."""
SCHEDULE_RUNS = 20
"""Last runs of a schedule that are shown."""
SCHEDULE_LEASE_MS = 180_000
"""So long a process holds a due schedule after its last sign of life."""
SCHEDULE_BEAT_S = 30.0
SCHEDULE_POLL_S = 5.0
SCHEDULES_AT_ONCE = 4
SCHEDULE_WAIT_MAX_MS = 15 * 60_000
"""The longest wait between two attempts."""
SCHEDULE_STALE_MS = 15 * 60_000
"""A schedule that was not begun so long after it was due has expired."""
SCHEDULE_OFF_MS = 60_000
"""So long a due schedule waits before it is looked at again whether its user's agent is on."""
PREVIEW_BYTES = 180
"""Bytes of a preview."""
PUSH_SUBSCRIPTIONS = 16
PUSH_URL_CHARS = 2_000
PUSH_WAIT_S = 3.0
"""So long a turn that is over waits for a device to get it before previews are sent."""
PUSH_SEND_S = 15.0
PUSH_TTL_S = 24 * 3_600
"""So long a push service keeps a preview for a device that is away."""
VAPID_S = 12 * 3_600
"""So long the signature of a message to a push service holds."""
RESPONSE_ID_CHARS = 128
RESPONSE_ITEMS = 2_000
"""Items of the input of one response."""
RESPONSE_INPUT_BYTES = 200_000
"""Bytes of an input that is stored, without its images: a document holds them."""
RESPONSE_FILE_BYTES = 1024 * 1024
"""Bytes of text of all files in the input of one response."""
RESPONSE_FILE_CHARS = RESPONSE_FILE_BYTES // 3 * 4 + 64
"""Characters of a file in a `data:` URL."""
RESPONSE_TOOLS = 128
"""Tools of a client in one response."""
RESPONSE_RUNS = 2_000
"""Turns of a thread that a branch of it begins with."""
RESPONSE_FEEDS = 64
"""Streams of responses in the background that are over, and can be read again from the middle."""
CONVERSATION_ITEMS = 20
"""Items that are added to a conversation at once."""
CONVERSATIONS_AT_ONCE = 100
CONVERSATIONS_PAGE, CONVERSATIONS_PAGE_MAX = 20, 100
