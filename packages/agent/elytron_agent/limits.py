"""Limits of agents that several modules apply."""

BLOCK_CHARS, BLOCK_CHARS_MAX = 20_000, 50_000
"""A block's cap if nothing else is said, and the largest cap."""
BLOCKS = 100
"""Blocks of one owner."""
BLOCK_DESCRIPTION_CHARS = 2_000
BLOCK_CALLS = 8
"""Number of the last calls that edited a block that are known, so that a repeated call has one effect."""
ARCHIVAL_TOP_K = 5
CONVERSATION_HITS = 5

RUN_TIMEOUT_S = 10.0
"""So long a run waits for a gateway at most, if its configuration says nothing else, and for curated entries."""

CHARS_PER_TOKEN = 4
"""Characters that are counted as one token, if no provider gave a number."""
PROJECT_CHARS = 128

FILE_BYTES = 64 * 1024 * 1024
FILE_AGENTS = 50
"""Agents of one file."""

MAX_CONTEXT_TOKENS = 100_000

INPUT_CHARS = 40_000
DESCRIPTION_CHARS = 4_000
PROBLEM_CHARS = 500
IMAGE_URL_CHARS = 14_000_000
TEMPERATURE = 0.7
SUBAGENT_NAME_CHARS, SUBAGENT_PURPOSE_CHARS = 80, 2_000
LOCALE_CHARS = 35
LEASE_SECONDS = 20.0
"""So long a process holds a thread after it last renewed that; a dead one's run is then gone on with."""
THREAD_LOOK_S = 0.2
QUEUED_RUNS = 8
"""Runs that may wait for one agent's thread in one process."""

AGENTS_KEPT = 512
"""Agents of users that one process keeps between their turns."""
CHAT_PARTS = 32
ITEMS_PAGE = 20
EVENTS_KEPT_S = 24 * 3_600
"""So long an event is in the log."""
SCHEDULE_NAME_CHARS, SCHEDULE_TASK_CHARS = 80, 4_000
INTERVAL_MAX_S = 366 * 24 * 3_600
CRON_CHARS = 120
SCHEDULE_LEASE_MS = 180_000
"""So long a process holds a due schedule after its last sign of life."""
SCHEDULE_WAIT_MAX_MS = 15 * 60_000
"""The longest wait between two attempts."""
RESPONSE_ID_CHARS = 128
RESPONSE_FILE_BYTES = 1024 * 1024
"""Bytes of text of all files in the input of one response."""
