"""Bounds of agents: their blocks, what their tools take, and what strategies show."""

BLOCK_CHARS, BLOCK_CHARS_MAX = 20_000, 50_000
"""A block's cap if nothing else is said, and the largest cap."""
BLOCKS = 100
"""Blocks of one owner."""
BLOCK_DESCRIPTION_CHARS = 2_000
BLOCK_CALLS = 8
"""So many of the last calls that edited a block are known, so that a repeated call has one effect."""
ARCHIVAL_TOP_K, ARCHIVAL_TOP_K_MAX = 5, 20
CONVERSATION_HITS, CONVERSATION_HITS_MAX = 5, 50
SEARCH_LINE_CHARS = 1_200
"""What of one memory a search shows."""
FILE_LINES = 999_999
"""Lines of one file that the memory tool shows."""
