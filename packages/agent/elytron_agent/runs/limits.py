"""Bounds of a run and of what it stores."""

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
COMPACTIONS_A_STEP = 3
"""Number of times that a request that is too long is made shorter."""
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
WEB_TEXT_CHARS = 1_200
WEB_SEARCH_S = 15.0
WEB_ANSWER_BYTES = 4 * 1024 * 1024
SUBAGENTS = 64
SUBAGENT_NAME_CHARS, SUBAGENT_PURPOSE_CHARS = 80, 2_000
EPOCH_DIGITS, STEP_DIGITS = 6, 4
COUNT_DEADLINE_S = 2.0
"""So long a run waits for a model's own count of tokens before it compacts by an estimate."""
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
