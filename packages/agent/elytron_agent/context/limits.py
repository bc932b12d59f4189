"""Bounds of a context: sizes, shares and waits."""

MAX_CONTEXT_TOKENS = 100_000
COMPACTION_THRESHOLD = 0.80
"""The share of the window that is filled when old turns become a summary."""
KEPT_SHARE = 0.6
"""Part of the threshold that the rest may fill, so that the next compaction is some turns away."""
EVICTED_SHARE, EVICTED_STEP = 0.3, 0.1
"""The first cut that is tried, as a share of the turns, and how much more each next one takes."""
RECENT_TURNS_KEPT = 10
"""Number of the latest turns that stay, if there is room: twenty messages."""
SUMMARY_TOKENS = 400
"""Tokens that are reserved for a summary before it is written."""
SUMMARY_WORDS = 100
SUMMARY_CHARS = 4_000
SUMMARY_QUOTES = 6
EXTRACT_LINE_CHARS = 160
SUMMARY_INPUT_CHARS = 60_000
"""So much of the evicted turns is given to the model that sums up."""
BYTES_PER_TOKEN, COUNT_MARGIN = 4, 1.3
"""A count without the model's own tokenizer: bytes, and a margin on it."""
MESSAGE_TOKENS = 8
"""Tokens of a message beside its text."""
OLD_RESULT_CHARS = 2_000
"""The longest result of a tool that is shown after its run."""
OLD_RESULTS_CHARS = 8_000
"""So much of all results of one run is shown after it; the latest come first."""
RESULT_PAGE_CHARS = 4_000
RESULT_PASSAGES, RESULT_PASSAGE_CHARS = 5, 600
RESULTS_LISTED = 100
"""Results that are listed, and how much of those put away is read at once."""
CROWDING_SHARE = 0.25
"""Earlier turns that fill this share of the window are summed up if a running turn's results had to go."""
RECALL_DEADLINE_S = 0.05
RECALL_LIMIT = 8
RECALLED_CHARS = 1_200
"""The longest text of one recalled memory."""
STABLE_FACTS_CHARS = 6_000
BLOCK_NOTES = 8
"""Blocks that changed since the epoch began, and are shown again."""
