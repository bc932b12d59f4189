"""A deterministic, slightly pessimistic estimate of how many tokens a model sees in a text."""

import re

_WIDE = re.compile(
    r"[\u1100-\u11ff\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff00-\uffef]|[\U00010000-\U0010ffff]"
)
CHARS_PER_TOKEN = 4


def estimate_tokens(text: str, /) -> int:
    """Return the estimate: one for each wide character (Chinese, Japanese, Korean, emoji), one per four others."""
    wide = len(_WIDE.findall(text))
    return wide + -(-(len(text) - wide) // CHARS_PER_TOKEN)
