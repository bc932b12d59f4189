"""Limits of the memory proxy."""

from typing import Final

RELAY_BYTES: Final = 1024 * 1024
"""Maximum bytes of one stream that wait for the end of an event; beyond that, bytes pass as they come."""
ANSWER_CHARS: Final = 1_000_000
"""Maximum text of an answer stored as evidence; nothing of a longer one is stored."""
BLOCK_CHARS: Final = 1_500
"""Default size of the block: small compared with a chat, so that most of a request stays cached."""
BLOCKS: Final = 4_096
"""Blocks of user turns that are cached in memory."""
MEMORY_WAIT_S: Final = 2.0
"""Timeout of all memory work before a request continues without it."""
