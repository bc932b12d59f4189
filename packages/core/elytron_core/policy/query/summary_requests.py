"""Words by which a question asks for an account of something, and which are not to be looked for.

Such words ("walk me through", "what I said about", "in which order") are no words of what was said, and would find
messages that have them by chance. They are listed in `text/data/questions.toml`.
"""

from typing import Final

from elytron_core.text.pattern_table import table

_ASIDE_SIGNS: Final = (
    "order", "sequence", "step", "over time", " our ", "told", "tell", "mention", "sai", "say", "brought", "bring",
    "discuss", "talk", "spoke", "first", "from ", "one after", "chronolog", "whole", "full", "entire", "complete",
    "everything", "all ", "know", "stage", "phase", "milestone", "event",
)  # fmt: skip
"""A text without these has no such aside."""
_PHRASES: Final = table("questions")


def without_asking(text: str, lowered: str, /) -> str:
    """Return `text`, which is `lowered` in small letters, without the words that ask for an account."""
    text = _PHRASES["opening"].sub(" ", text)
    return _PHRASES["aside"].sub(" ", text) if any(sign in lowered for sign in _ASIDE_SIGNS) else text
