"""Limits of the console: sessions, page requests, and smoke checks."""

from typing import Final

SESSION_S: Final = 12 * 3_600.0
"""Lifetime of a session; it ends earlier with its key."""
SESSIONS, SESSIONS_EACH = 1_000, 16
BODY_BYTES: Final = 1024 * 1024
TRANSCRIPT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of an uploaded file of messages."""
TRANSCRIPTS_AT_ONCE: Final = 2
"""Files of messages that are read at once; further ones wait."""
RELAYED_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a file that a relay passes on, which it buffers as a whole."""
JOURNAL_PAGE: Final = 200
"""Maximum journal entries in one answer."""
JOURNAL_LOOKED: Final = 10_000
"""Journal entries examined for one answer; a page that ends earlier says where to continue."""
AUDIT_TO_COMMIT_MS: Final = 1_000
"""Time between a control call in its trail and its journal entry."""
CONVERSATIONS_LISTED: Final = 1_000
"""Maximum conversations in one answer, the latest of them."""
EGO_NODES: Final = 200
"""Maximum memories around one memory in one answer."""
EGO_TEXT_CHARS: Final = 400
SPEAKERS_LISTED: Final = 20
RECENT_EVENTS: Final = 12
SPACES_COUNTED: Final = 2_000
SPENDING_SPACES: Final = 50
"""Spaces in the list of those with the highest model usage."""
ENDPOINT_CHARS: Final = 2_048
KEYS_COUNTED: Final = 2_000
SMOKE_OUTPUT_BYTES: Final = 8 * 1024
"""Bytes shown of each output of a smoke check; the end, because failures come last."""
SMOKE_DEADLINE_S: Final = 30.0
SMOKE_RUNS: Final = 2
"""Smoke checks that run at once."""
