"""Limits of the memory proxy."""

from typing import Final

RELAY_BYTES: Final = 1024 * 1024
"""Of one stream, what waits for the end of its event before it goes on; beyond, bytes pass as they come."""
ANSWER_CHARS: Final = 1_000_000
"""Text of an answer that is kept as evidence; of a longer one nothing is."""
BLOCK_CHARS: Final = 1_500
"""Default size of the block: little beside a chat, so that most of a request stays cached."""
BLOCKS: Final = 4_096
"""Blocks of user turns that are held in memory."""
MEMORY_WAIT_S: Final = 2.0
"""Time limit of all that memory does before a request goes on without it."""
