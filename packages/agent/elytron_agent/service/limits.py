"""Bounds of the agent as a service."""

TURNS_WAITING = 8
"""Turns that may wait for the one that runs in the same thread."""
KEEP_ALIVE_S = 15.0
"""Silence of a chat's stream after which a comment is sent."""
AGENTS_KEPT = 512
"""Agents of users that one process keeps between their turns."""
CHAT_PARTS = 32
REACTION_CHARS = 16
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
SEND_S = 30.0
"""So long the reader of a stream may take nothing."""
STREAMS_EACH = 16
"""Streams that one caller may have open."""
