"""Words by which a question asks for something to be told again, and which are not to be looked for.

The words that ask for the telling ("walk me through", "what I told you about", "in which order") are no words of what
was said, and would find whoever used them by chance. They stand in `text/data/questions.toml`.
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
    """Return `text`, which is `lowered` in small letters, without the words that ask for something to be told."""
    text = _PHRASES["opening"].sub(" ", text)
    return _PHRASES["aside"].sub(" ", text) if any(sign in lowered for sign in _ASIDE_SIGNS) else text
