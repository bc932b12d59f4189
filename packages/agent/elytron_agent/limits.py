"""Limits of agents that several modules apply."""

BLOCK_CHARS, BLOCK_CHARS_MAX = 20_000, 50_000
"""Default and largest maximum length of a block."""
BLOCKS = 100
"""Maximum number of blocks per owner."""
BLOCK_DESCRIPTION_CHARS = 2_000
BLOCK_CALLS = 8
"""Number of recent calls remembered per block, so that a repeated call has only one effect."""
ARCHIVAL_TOP_K = 5
CONVERSATION_HITS = 5

RUN_TIMEOUT_S = 10.0
"""Default maximum wait of a run for a gateway, and for curated entries."""

CHARS_PER_TOKEN = 4
"""Number of characters counted as one token if the provider gives no count."""
PROJECT_CHARS = 128

FILE_BYTES = 64 * 1024 * 1024
FILE_AGENTS = 50
"""Maximum number of agents per file."""

MAX_CONTEXT_TOKENS = 100_000

INPUT_CHARS = 40_000
DESCRIPTION_CHARS = 4_000
PROBLEM_CHARS = 500
IMAGE_URL_CHARS = 14_000_000
TEMPERATURE = 0.7
SUBAGENT_NAME_CHARS, SUBAGENT_PURPOSE_CHARS = 80, 2_000
LOCALE_CHARS = 35
LEASE_SECONDS = 20.0
"""How long a process holds a thread after its last renewal. Then another process resumes the run."""
THREAD_LOOK_S = 0.2
QUEUED_RUNS = 8
"""Maximum number of runs that wait for one agent's thread in one process."""

AGENTS_KEPT = 512
"""Maximum number of users' agents that one process keeps between their turns."""
CHAT_PARTS = 32
ITEMS_PAGE = 20
EVENTS_KEPT_S = 24 * 3_600
"""Retention time of events in the log."""
SCHEDULE_NAME_CHARS, SCHEDULE_TASK_CHARS = 80, 4_000
INTERVAL_MAX_S = 366 * 24 * 3_600
CRON_CHARS = 120
SCHEDULE_LEASE_MS = 180_000
"""How long a process holds a due schedule after its last renewal."""
SCHEDULE_WAIT_MAX_MS = 15 * 60_000
"""Longest wait between two attempts."""
RESPONSE_ID_CHARS = 128
RESPONSE_FILE_BYTES = 1024 * 1024
"""Maximum size of the text of all files in the input of one response."""
