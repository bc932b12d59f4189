"""Limits of a model's window, its contents, and summaries."""

COMPACTION_THRESHOLD = 0.80
"""Share of the window from which old turns are summarised."""
KEPT_SHARE = 0.6
"""Share of the threshold that the remainder may fill, so that the next compaction is some turns away."""
EVICTED_SHARE, EVICTED_STEP = 0.3, 0.1
"""The first cut to try, as a share of the turns, and the increment of each next one."""
RECENT_TURNS_KEPT = 10
"""Number of the latest turns that stay, if there is room: twenty messages."""
CROWDING_SHARE = 0.25
"""Earlier turns that fill this share of the window are summarised if a running turn's results were cut."""
CURRENT_SHARE = 0.25
"""Share of a request that the user's current words count for when a compaction is planned."""
REFUSED_SHARE = 0.7
"""Size of a retry, relative to the request that the server rejected as too long."""
LONG_REFUSALS = 3
"""Number of shorter retries after the server rejected a request as too long."""
SUMMARY_TOKENS = 400
"""Tokens that are reserved for a summary before it is written."""
SUMMARY_WORDS = 100
SUMMARY_CHARS = 4_000
SUMMARY_QUOTES = 6
EXTRACT_LINE_CHARS, SAID_LINE_CHARS, SUMMARY_LINE_CHARS_MIN = 160, 240, 40
"""Longest line of an extract, of a running summary, and of one that is cut to fit."""
SUMMARY_INPUT_CHARS = 60_000
"""Characters of the evicted turns given to the model that writes the summary."""
SUMMARY_LINE_SHARE = 0.25
"""Maximum share of one message in a summary's input."""
SUMMARY_ANSWER_SHARE = 1 / 6
"""Maximum share of the window reserved for the answer of the model that writes a summary."""
BYTES_PER_TOKEN, COUNT_MARGIN = 4, 1.3
"""Estimate without the model's own tokenizer: bytes per token, and a margin."""
FACTOR_MIN, FACTOR_MAX = 0.8, 4.0
"""Limits of the factor derived from a provider's counts. At the lowest, what fills `COMPACTION_THRESHOLD` of a window
by these counts still fits the window at a token per four bytes."""
COUNT_DOUBTED = 0.5
"""A provider's count below this share of the plain estimate is implausible, and is ignored."""
MESSAGE_TOKENS = 8
"""Tokens of a message in addition to its text."""
OLD_RESULT_CHARS = 2_000
"""Maximum length of a tool's result shown after its run."""
REACTION_CHARS = 16
OLD_RESULTS_CHARS = 8_000
"""Total characters of one run's results shown after it; the latest come first."""
STANDING_CHARS = 6_000
"""Size of the block from which standing facts and wishes are taken."""
RECALLED_CHARS = 1_200
"""Maximum length of one recalled memory's text."""
BLOCK_NOTES = 8
"""Maximum blocks that changed since the epoch began and are shown again."""
NEAR_NAME_CHARS = 64
"""Characters of an unknown zone or language name that are compared with existing names."""
ZONE_CHARS = 64
"""Characters of a time zone's name: the longest of the database has 32."""
