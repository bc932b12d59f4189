"""Questions that want what was said to be told again: summaries, orders, how something went; and how these are asked.

The words that ask for the telling ("walk me through", "what I told you about", "in which order") are no words of what
was said, and would find whoever used them by chance. Rules for English, with two signs of Chinese.
"""

import re
from typing import Final

_POLITE: Final = r"^\s*(?:please )?(?:(?:can|could|would|will) you (?:please )?)?"
_THROUGH: Final = r"(?:walk|talk|take|guide) me through|summari[sz]e|recap|outline"
_ORDER: Final = r"(?:what|which) (?:order|sequence)|order in which|in (?:chronological )?order|step by step|over time"
_TOLD: Final = r"(?:told|mentioned|said|brought up|discussed|talked|spoke)(?: (?:to |with )?you)?(?: about)?"
_OPENING: Final = re.compile(
    rf"{_POLITE}(?:{_THROUGH}|list|(?:tell|remind) me(?: about)?|(?:give|write|show) me (?:an? )?(?:\w+ )?"
    r"(?:summary|overview|recap|timeline) of)\b",
    re.IGNORECASE,
)
_ASIDE: Final = re.compile(
    rf"\b(?:(?:in )?(?:{_ORDER})"
    r"|(?:throughout|through|over|during|across|in) (?:all (?:of )?)?our (?:\w+ )?"
    r"(?:conversations?|chats?|talks?|sessions?|discussions?)"
    rf"|(?:what|which|everything|all)(?: that)? (?:i|we)(?:'ve| have)? {_TOLD}"
    rf"|(?:did|have) (?:i|we) (?:tell|mention|say|bring up|discuss|talk|{_TOLD})(?: (?:to |with )?you)?(?: about)?)\b",
    re.IGNORECASE,
)
_ASIDE_SIGNS: Final = (
    "order", "sequence", "step by", "over time", " our ", "told", "tell", "mention", "sai", "say", "brought", "bring",
    "discuss", "talk", "spoke",
)  # fmt: skip
"""A text without these has no such aside."""
_RETELLS: Final = re.compile(
    rf"{_POLITE}(?:{_THROUGH})\b|\b(?:summary|overview|recap|timeline|{_ORDER})\b"
    r"|^how (?:did|has|have) .*\b(?:develop|change|evolve|progress|unfold|come along|go)(?:d|ed)?\b|总结|顺序"
)
_RETELLING_SIGNS: Final = (
    "me through", "summar", "recap", "outline", "overview", "timeline", "order", "sequence", "step by", "over time",
    "how did", "how ha", "总结", "顺序",
)  # fmt: skip
"""A text without these wants nothing told again."""


def retells(lowered: str, /) -> bool:
    """Tell whether a question, in small letters, wants told again what was said, in as many pieces as there are."""
    return _has(lowered, _RETELLING_SIGNS) and _RETELLS.search(lowered) is not None


def without_asking(text: str, lowered: str, /) -> str:
    """Return `text`, which is `lowered` in small letters, without the words that ask for something to be told."""
    if _has(lowered, _ASIDE_SIGNS):
        text = _ASIDE.sub(" ", text)
    return _OPENING.sub(" ", text)


def _has(lowered: str, signs: tuple[str, ...]) -> bool:
    return any(sign in lowered for sign in signs)
