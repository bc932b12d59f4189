"""Limits of a model's window, its contents, and summaries."""

COMPACTION_THRESHOLD = 0.80
"""The share of the window that is filled when old turns become a summary."""
KEPT_SHARE = 0.6
"""Part of the threshold that the rest may fill, so that the next compaction is some turns away."""
SUMMARY_TOKENS = 400
"""Tokens that are reserved for a summary before it is written."""
SUMMARY_CHARS = 4_000
SUMMARY_INPUT_CHARS = 60_000
"""Characters of the evicted turns that the model which writes the summary reads."""
BYTES_PER_TOKEN, COUNT_MARGIN = 4, 1.3
"""An estimate without the model's own tokenizer: bytes, and a margin on it."""
MESSAGE_TOKENS = 8
"""Tokens of a message in addition to its text."""
OLD_RESULT_CHARS = 2_000
"""The longest result of a tool that is shown after its run."""
REACTION_CHARS = 16
STANDING_CHARS = 6_000
"""Size of the block of which standing facts and wishes are taken."""
RECALLED_CHARS = 1_200
"""The longest text of one recalled memory."""
