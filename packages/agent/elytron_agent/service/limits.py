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
