"""Limits of a model's window, its contents, and summaries."""

COMPACTION_THRESHOLD = 0.80
"""Share of the window from which old turns are summarised."""
KEPT_SHARE = 0.6
"""Share of the threshold that the remainder may fill, so that the next compaction is some turns away."""
SUMMARY_TOKENS = 400
"""Tokens that are reserved for a summary before it is written."""
SUMMARY_CHARS = 4_000
SUMMARY_INPUT_CHARS = 60_000
"""Characters of the evicted turns given to the model that writes the summary."""
BYTES_PER_TOKEN, COUNT_MARGIN = 4, 1.3
"""Estimate without the model's own tokenizer: bytes per token, and a margin."""
MESSAGE_TOKENS = 8
"""Tokens of a message in addition to its text."""
OLD_RESULT_CHARS = 2_000
"""Maximum length of a tool's result shown after its run."""
REACTION_CHARS = 16
STANDING_CHARS = 6_000
"""Size of the block from which standing facts and wishes are taken."""
RECALLED_CHARS = 1_200
"""Maximum length of one recalled memory's text."""
