"""Questions that want what was said to be told again: summaries, orders, how something went; and how these are asked.

The words that ask for the telling ("walk me through", "what I told you about", "in which order") are no words of what
was said, and would find whoever used them by chance. Rules for English, with two signs of Chinese.
"""

import re
from typing import Final

_POLITE: Final = r"^\s*(?:please )?(?:(?:can|could|would|will) you (?:please )?)?"
_THROUGH: Final = r"(?:walk|talk|take|guide|run) me through|summari[sz]e|sum up|recap|outline|catch me up|fill me in"
_FORM: Final = r"(?:summary|overview|recap|timeline|account|rundown|outline|history|story|picture)"
_WHOLE: Final = (
    rf"(?:the )?(?:whole|full|entire|complete) {_FORM}(?: of| about| behind)?"
    r"|(?:everything|all(?: that)? (?:you|we) know|all there is to know)(?: (?:you|we) know)? (?:about|on)"
    r"|what do (?:you|we) know about"
)
_ORDER: Final = (
    r"(?:what|which) (?:order|sequence)|order in which|in(?:to)? (?:the )?(?:chronological |right )?order(?! to\b)"
    r"|chronologically|(?:oldest|earliest|latest|newest) first|one after (?:the other|another)|step by step|over time"
    r"|from (?:the )?(?:first|beginning|start)(?: to (?:the )?(?:last|end)\b| on(?:wards?)?\b)"
)
_PIECES: Final = r"(?:the )?(?:steps|stages|phases|milestones|events) (?:of|in)"
_TOLD: Final = r"(?:told|mentioned|said|brought up|discussed|talked|spoke)(?: (?:to |with )?you)?(?: about)?"
_OPENING: Final = re.compile(
    rf"{_POLITE}(?:{_THROUGH}|list|(?:tell|remind) me(?: about)?|(?:give|write|show) (?:me )?(?:an? )?(?:\w+ )?{_FORM}"
    r" of|(?:put|sort|arrange)(?=.*\b(?:order|chronolog)))\b",
    re.IGNORECASE,
)
_ASIDE: Final = re.compile(
    rf"\b(?:(?:in )?(?:{_ORDER}|{_WHOLE}|{_PIECES})"
    r"|(?:throughout|through|over|during|across|in) (?:all (?:of )?)?our (?:\w+ )?"
    r"(?:conversations?|chats?|talks?|sessions?|discussions?)"
    rf"|(?:what|which|everything|all)(?: that)? (?:i|we)(?:'ve| have)? {_TOLD}"
    rf"|(?:did|have) (?:i|we) (?:tell|mention|say|bring up|discuss|talk|{_TOLD})(?: (?:to |with )?you)?(?: about)?"
    r"|(?:as|that) you (?:know|remember) (?:it|them))\b",
    re.IGNORECASE,
)
_ASIDE_SIGNS: Final = (
    "order", "sequence", "step", "over time", " our ", "told", "tell", "mention", "sai", "say", "brought", "bring",
    "discuss", "talk", "spoke", "first", "from ", "one after", "chronolog", "whole", "full", "entire", "complete",
    "everything", "all ", "know", "stage", "phase", "milestone", "event",
)  # fmt: skip
"""A text without these has no such aside."""
_RETELLS: Final = re.compile(
    rf"{_POLITE}(?:{_THROUGH})\b|\b(?:summary|overview|recap|timeline|rundown|{_ORDER}|{_WHOLE})"
    r"|^how (?:did|has|have) .*\b(?:develop|change|evolve|progress|unfold|come along|go)(?:d|ed)?\b"
    r"|^what (?:has|have|all) happened\b|总结|顺序"
)
_RETELLING_SIGNS: Final = (
    "me through", "summar", "sum up", "recap", "outline", "overview", "timeline", "rundown", "order", "sequence",
    "step by", "over time", "how did", "how ha", "catch me up", "fill me in", "story", "history", "picture",
    "everything", "all ", "know about", "first", "from ", "one after", "chronolog", "happened", "总结", "顺序",
)  # fmt: skip
"""A text without these wants nothing told again."""


def retells(lowered: str, /) -> bool:
    """Tell whether a question, in small letters, wants told again what was said, in as many pieces as there are."""
    return _has(lowered, _RETELLING_SIGNS) and _RETELLS.search(lowered) is not None


def without_asking(text: str, lowered: str, /) -> str:
    """Return `text`, which is `lowered` in small letters, without the words that ask for something to be told."""
    text = _OPENING.sub(" ", text)
    return _ASIDE.sub(" ", text) if _has(lowered, _ASIDE_SIGNS) else text


def _has(lowered: str, signs: tuple[str, ...]) -> bool:
    return any(sign in lowered for sign in signs)
