"""Limits of a model's window, its contents, and summaries."""

COMPACTION_THRESHOLD = 0.80
"""The share of the window that is filled when old turns become a summary."""
KEPT_SHARE = 0.6
"""Part of the threshold that the rest may fill, so that the next compaction is some turns away."""
EVICTED_SHARE, EVICTED_STEP = 0.3, 0.1
"""The first cut that is tried, as a share of the turns, and how much more each next one takes."""
RECENT_TURNS_KEPT = 10
"""Number of the latest turns that stay, if there is room: twenty messages."""
CROWDING_SHARE = 0.25
"""Earlier turns that fill this share of the window are summed up if a running turn's results had to go."""
CURRENT_SHARE = 0.25
"""Share of a request that the user's current words count for when a compaction is planned."""
REFUSED_SHARE = 0.7
"""Size of a retry, relative to the request that the server refused as too long."""
LONG_REFUSALS = 3
"""Number of shorter retries after the server refused a request as too long."""
SUMMARY_TOKENS = 400
"""Tokens that are reserved for a summary before it is written."""
SUMMARY_WORDS = 100
SUMMARY_CHARS = 4_000
SUMMARY_QUOTES = 6
EXTRACT_LINE_CHARS, SAID_LINE_CHARS, SUMMARY_LINE_CHARS_MIN = 160, 240, 40
"""Longest line of an extract, of a running summary, and of one that is cut to fit."""
SUMMARY_INPUT_CHARS = 60_000
"""Characters of the evicted turns that the model which writes the summary reads."""
SUMMARY_LINE_SHARE = 0.25
"""Largest share of a summary's input that one message takes."""
SUMMARY_ANSWER_SHARE = 1 / 6
"""Largest share of the window that is reserved for the answer of the model that writes a summary."""
BYTES_PER_TOKEN, COUNT_MARGIN = 4, 1.3
"""An estimate without the model's own tokenizer: bytes, and a margin on it."""
FACTOR_MIN, FACTOR_MAX = 0.8, 4.0
"""Bounds of the measure that a provider's counts give. At the lowest, what fills `COMPACTION_THRESHOLD` of a window by
these counts still fits the window at a token for each four bytes."""
COUNT_DOUBTED = 0.5
"""A provider's count below this share of the plain estimate is implausible, and is ignored."""
MESSAGE_TOKENS = 8
"""Tokens of a message in addition to its text."""
OLD_RESULT_CHARS = 2_000
"""The longest result of a tool that is shown after its run."""
REACTION_CHARS = 16
OLD_RESULTS_CHARS = 8_000
"""Characters of all results of one run that are shown after it; the latest come first."""
STANDING_CHARS = 6_000
"""Size of the block of which standing facts and wishes are taken."""
RECALLED_CHARS = 1_200
"""The longest text of one recalled memory."""
BLOCK_NOTES = 8
"""Blocks that changed since the epoch began, and are shown again."""
NEAR_NAME_CHARS = 64
"""Characters of an unknown name of a zone or language that are compared with existing names."""
ZONE_CHARS = 64
"""Characters of a time zone's name: the longest of the database has 32."""
