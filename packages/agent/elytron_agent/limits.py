"""Bounds of agents: their blocks, what their tools take, what strategies show, and what turn hooks keep."""

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
SUMMARY_LINE_CHARS, SUMMARY_LINE_CHARS_MIN = 240, 40
"""Of each message in a summary, and if there is little room."""
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
EVALUATED_BYTES = 4 * 1024 * 1024
EVALUATED_LINES = 1_000
"""Bounds of a file of turns that hooks are evaluated on."""
EVALUATED_TEXTS = 64
"""Texts that a question of it expects, and that it excludes."""
EVALUATED_DAYS = 3_650
