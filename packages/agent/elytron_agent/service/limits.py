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
EVENTS_RECHECK_S = 5.0
"""Interval in which the channel looks whether its credential still holds, and whether a turn broke off."""
EVENTS_RETRY_MS = 2_000
SEND_S = 30.0
"""So long the reader of a stream may take nothing."""
STREAMS_EACH = 16
"""Streams that one caller may have open."""
