"""Limits of the console: sessions, page requests, and smoke checks."""

from typing import Final

SESSION_S: Final = 12 * 3_600.0
"""Lifetime of a session; it ends earlier with its key."""
SESSIONS, SESSIONS_EACH = 1_000, 16
BODY_BYTES: Final = 1024 * 1024
TRANSCRIPT_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a file of messages that is sent."""
TRANSCRIPTS_AT_ONCE: Final = 2
"""Files of messages that are read at once; further ones wait."""
RELAYED_BYTES: Final = 64 * 1024 * 1024
"""Bytes of a file that a relay passes on, which holds it as a whole."""
JOURNAL_PAGE: Final = 200
"""Journal entries that one answer has at most."""
JOURNAL_LOOKED: Final = 10_000
"""Journal entries that are looked at for one answer; a page that ends before says where to go on."""
AUDIT_TO_COMMIT_MS: Final = 1_000
"""Time between the moment of a control call in its trail, and that of its journal entry."""
CONVERSATIONS_LISTED: Final = 1_000
"""Conversations that one answer has at most, the latest of them."""
EGO_NODES: Final = 200
"""Memories around one memory that one answer has at most."""
EGO_TEXT_CHARS: Final = 400
SPEAKERS_LISTED: Final = 20
RECENT_EVENTS: Final = 12
SPACES_COUNTED: Final = 2_000
SPENDING_SPACES: Final = 50
"""Spaces in the list of those that used the most of models."""
ENDPOINT_CHARS: Final = 2_048
KEYS_COUNTED: Final = 2_000
SMOKE_OUTPUT_BYTES: Final = 8 * 1024
"""Bytes of each output of a smoke check that are shown; the end is kept, because failures come last."""
SMOKE_DEADLINE_S: Final = 30.0
SMOKE_RUNS: Final = 2
"""Smoke checks that run at once."""
