"""Traits of a text: times, numbers, names, quotations, of whom it speaks, whether it asks.

They are read by word lists and shapes, English first, with a few of Chinese. They are read once, when a text is
indexed, and never decide alone.
"""

import re
from enum import IntFlag
from functools import cache
from typing import Final, NamedTuple


class TextTrait(IntFlag):
    """Traits that a text has; an index keeps the sum."""

    NOTHING = 0
    ASKS = 1
    NUMBER = 2
    TIME = 4
    NAME = 8
    QUOTE = 16
    ENDS_ASKING = 32
    CHANGE = 64
    STANDING = 128
    """It says what is to hold from now on, as a classifier of statements judges; `read_traits` never says so."""
    OCCASIONAL = 256
    """It says what is to hold whenever something is asked for or spoken of; judged likewise."""


class TextTraits(NamedTuple):
    """Traits of a text, and how much it states rather than reacts: about 0.6 at most, below 0 for bare replies."""

    traits: TextTrait
    told: float


READ_CHARS: Final = 2_000
"""The part of a text that is read for its traits."""
FULL_CHARS: Final = 500
"""A longer text counts only in proportion, `FULL_CHARS` to its length: long texts have something of everything."""

_TIMES = """
ago april august december evening february friday january july june last march monday month months morning next night
november october recently saturday september since sunday thursday today tomorrow tonight tuesday wednesday week weekend
weeks year years yesterday
"""
_NUMBERS = """
both couple dozen eight eleven fifth first five four fourth nine once one second seven several six ten third three
twelve twice two
"""
_CHANGES = """
actually anymore became changed correction corrected instead longer moved new newly now postponed renamed replaced
rescheduled switched update updated
"""
_SELF = "i i'm i've i'd i'll me mine my our us we we'll we're we've"
_YOU = "you you'll you're you've your yours"
_REPLIES = """
absolutely awesome aww congrats congratulations cool definitely glad great no ok okay sounds sure thank thanks that's
totally wow yeah yep yes
"""
_TIME_WORDS, _NUMBER_WORDS, _CHANGE_WORDS, _SELF_WORDS, _YOU_WORDS, _REPLY_WORDS = (
    frozenset(words.split()) for words in (_TIMES, _NUMBERS, _CHANGES, _SELF, _YOU, _REPLIES)
)
_WORD = re.compile(r"[a-z0-9][a-z0-9']*")
_NAME = re.compile(r" (?<=[a-z] )[A-Z][a-z]+(?![a-z]*[!,?])")
"""A capital inside a sentence; not who is called: "Hey Ada,". It begins with what can be looked for fast, a space."""
_QUOTE = re.compile(r"[\"“「《][^\"”」》]{2,80}[\"”」》]")
_SIGNS: Final = _TIME_WORDS.union(_NUMBER_WORDS, _CHANGE_WORDS, _SELF_WORDS, _YOU_WORDS, _REPLY_WORDS)
"""The words that mean anything here; of most texts only a few are looked at any further."""
_DIGIT = re.compile(r"\d")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_CHINESE_TIME = re.compile(r"昨天|今天|明天|前天|上周|下周|上个?月|下个?月|去年|今年|明年|最近|星期|月\d|\d[年月日号]")
_CHINESE_CHANGE = re.compile(r"改成|改为|换成|换了|变成|不再|更新|现在")
_CHINESE_NUMBER = re.compile(r"[一二三四五六七八九十两几百千万]+[个只次位本张条块年月天岁]")

TOLD_BY_TIME, TOLD_BY_TRAIT, TOLD_BY_ASKING = 0.15, 0.1, -0.1
TOLD_BY_SELF, TOLD_BY_YOU, TOLD_BY_REPLY = 0.1, -0.05, -0.1
"""The amounts that each trait, the first person, the second, and a reply's first word add to what a text states."""


# As numbers: a flag's own operators make an object each, which is most of the time that reading a text takes.
_ASKS, _NUMBER, _TIME, _NAME_TRAIT, _QUOTE_TRAIT, _ENDS_ASKING, _CHANGE = (
    int(trait)
    for trait in (
        TextTrait.ASKS, TextTrait.NUMBER, TextTrait.TIME, TextTrait.NAME, TextTrait.QUOTE, TextTrait.ENDS_ASKING,
        TextTrait.CHANGE,
    )
)  # fmt: skip


@cache
def _told_by(traits: int) -> tuple[TextTrait, float]:
    """Return the traits of which `traits` is the sum, and the amount that they add to what a text states."""
    told = TOLD_BY_TIME * bool(traits & _TIME) + TOLD_BY_ASKING * bool(traits & _ASKS)
    told += sum(TOLD_BY_TRAIT for trait in (_NUMBER, _NAME_TRAIT, _QUOTE_TRAIT) if traits & trait)
    return TextTrait(traits), told


def read_traits(text: str, /) -> TextTraits:
    """Return the traits of `text` and how much it states; the same text gives the same in every process."""
    head = text[:READ_CHARS]
    is_ascii = head.isascii()
    lowered = (head if is_ascii else head.replace("’", "'")).lower()
    words = _WORD.findall(lowered)
    known = _SIGNS.intersection(words)
    traits = 0
    if "?" in head or "？" in head:
        traits |= _ASKS
    if text.rstrip().endswith(("?", "？")):
        traits |= _ENDS_ASKING
    has_digit = _DIGIT.search(head) is not None
    if has_digit:
        traits |= _NUMBER | (_TIME if _YEAR.search(head) else 0)
    if known:
        traits |= _NUMBER * (not known.isdisjoint(_NUMBER_WORDS))
        traits |= _TIME * (not known.isdisjoint(_TIME_WORDS))
        traits |= _CHANGE * (not known.isdisjoint(_CHANGE_WORDS))
    if _NAME.search(head):
        traits |= _NAME_TRAIT
    if (not is_ascii or '"' in head) and _QUOTE.search(head):
        traits |= _QUOTE_TRAIT
    if not is_ascii:
        traits |= _TIME if _CHINESE_TIME.search(head) else 0
        traits |= _NUMBER if _CHINESE_NUMBER.search(head) else 0
        traits |= _CHANGE if _CHINESE_CHANGE.search(head) else 0
    trait, told = _told_by(traits)
    if known:
        told += TOLD_BY_SELF * _word_share(words, known, _SELF_WORDS) + TOLD_BY_YOU * _word_share(
            words, known, _YOU_WORDS
        )
        told += TOLD_BY_REPLY * (words[0] in _REPLY_WORDS)
    return TextTraits(trait, told * min(1.0, FULL_CHARS / max(len(text), 1)))


def _word_share(words: list[str], known: frozenset[str], wanted: frozenset[str]) -> float:
    """Return how often `words`, whose signs are `known`, has one of `wanted`; four times count as much as it can."""
    return 0.0 if known.isdisjoint(wanted) else min(sum(map(wanted.__contains__, words)), 4) / 4
