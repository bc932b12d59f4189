"""Standing wishes: how a person wants answers, tastes, and what they cannot have, unless they took it back.

They are read from sentences in a speaker's own voice, never from questions, quotes or code. For each speaker and matter
the latest statement counts. When it is unclear whether two statements concern the same matter, both are shown, the
later one first: losing an allergy is worse than showing an outdated taste.
"""

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from elytron_core.clock import Instant
from elytron_core.model import Value
from elytron_core.policy.extraction.rule_facts import own_sentences
from elytron_core.policy.projection.sections import WishItem
from elytron_core.text.traits import READ_CHARS

SAME: Final = 0.6
"""Two sentences are about the same matter if they share this part of the words of either."""

_WORD: Final = re.compile(r"[a-z][a-z'-]{2,}|[\u3400-\u9fff]+")
_EMPTY_WORDS: Final = """
about actually again all also always and answer answers any anymore are ask avoid because but can can't cannot dislike
do don't eat ever every everything fine for forget from give had has hate have her him his how i'd i'll i'm i've include
into its just keep leave like longer make mention mind more much need never nor not now ok okay one only out please
prefer rather really recommend reply respond should show some something stop suggest sure take that the their them then
there they thing things this too use very want was when whenever with without write you your
"""
_EMPTY: Final = frozenset(_EMPTY_WORDS.split())
"""Words that express how one wishes rather than what."""
_EMPTY_CHINESE: Final = re.compile(
    r"请|总是|不要|以后|都|再|别|我|更|喜欢|讨厌|不吃|不|过敏|现在|用|了|的|吧|吃|喝|可以|已经|又|对|也|还是|其实|改成|改为|回答|回复"
)
_TAKEN_BACK: Final = re.compile(
    r"\b(?:no longer|any ?more|changed my mind|don't (?:need|have) to)\b|不再|不用|不必", re.IGNORECASE
)
"""Signs that a speaker revokes something said before."""
_OTHERWISE: Final = re.compile(
    r"\b(?:again|instead|never ?mind|back to|actually|now|after all|stop|fine|ok(?:ay)?)\b"
    r"|改成|改为|换成|又|现在|算了|取消|可以.{0,6}了|没关系",
    re.IGNORECASE,
)
"""Signs that count only in a sentence about little else."""
_SHORT: Final = "short|brief|concise|detailed|long|thorough"
_SLOTS: Final = (
    re.compile(
        r"\b(?:[Aa]nswer|[Rr]eply|[Rr]espond|[Ww]rite|[Ss]peak|[Tt]alk)\b.{0,20}\bin [A-Z][a-z]+"
        r"|[中英法德日韩西俄][文语]"
    ),
    re.compile(
        r"\b(?:metric|imperial|kilomet\w+|miles|celsius|fahrenheit|pounds|kilos?)\b|公里|英里|摄氏|华氏|公斤|英制|公制",
        re.IGNORECASE,
    ),
    re.compile(r"\b(?:call|address) me\b|叫我|称呼我", re.IGNORECASE),
    re.compile(
        rf"\b(?:{_SHORT})(?:er)?\b.{{0,20}}\b(?:answers?|replies|explanations?)\b"
        rf"|\b(?:answers?|replies|explanations?|it)\b.{{0,20}}\b(?:{_SHORT})(?:er)?\b|简短|简洁|详细",
        re.IGNORECASE,
    ),
    re.compile(r"\b(?:in)?formal(?:ly)?\b|\bcasual(?:ly)?\b|正式|随意", re.IGNORECASE),
)
"""Language, units, name, length and tone: only one wish of each applies at a time."""


class PersonMessage(Value):
    """A message of a person, not of an assistant."""

    id: str
    text: str
    speaker: str | None = None
    at: Instant | None = None


class _LaterSentence(NamedTuple):
    """A sentence that may revoke what was said before it."""

    speaker: str | None
    text: str
    is_wish: bool


def standing_wishes(
    latest_first: Iterable[PersonMessage], /, *, is_standing: Callable[[str], bool]
) -> tuple[WishItem, ...]:
    """Return what still applies, latest first: of each message what no later sentence revoked.

    `is_standing` returns whether a sentence says what is to hold from now on.
    """
    later_sentences: list[_LaterSentence] = []
    wishes: list[WishItem] = []
    for message in latest_first:
        own_statements = [
            sentence for sentence in own_sentences(message.text[:READ_CHARS]) if not sentence.endswith(("?", "？"))
        ]
        unrevoked_sentences: list[str] = []
        # From the end, so that a later sentence revokes an earlier one of the same message.
        for sentence in reversed(own_statements):
            is_wish = is_standing(sentence)
            if is_wish and not any(
                _replaces_wish(later_sentence, sentence)
                for later_sentence in later_sentences
                if later_sentence.speaker == message.speaker
            ):
                unrevoked_sentences.append(sentence)
            if is_wish or _TAKEN_BACK.search(sentence) or _OTHERWISE.search(sentence):
                later_sentences.append(_LaterSentence(message.speaker, sentence, is_wish))
        if unrevoked_sentences:
            text = " ".join(reversed(unrevoked_sentences))
            is_whole = len(text) >= len(message.text.strip())
            wishes.append(WishItem(id=message.id, text=text, is_whole=is_whole, speaker=message.speaker, at=message.at))
    return tuple(wishes)


def _replaces_wish(later_sentence: _LaterSentence, wish: str) -> bool:
    """Return whether a later sentence repeats, changes or revokes what a wish said."""
    _, text, is_wish = later_sentence
    if is_wish and any(slot_pattern.search(text) and slot_pattern.search(wish) for slot_pattern in _SLOTS):
        return True
    new_words, old_words = _matter_words(text), _matter_words(wish)
    shared_count = len(new_words & old_words)
    if not shared_count or shared_count < SAME * len(old_words):
        return False
    if _TAKEN_BACK.search(text) is not None:
        return True
    return shared_count >= SAME * len(new_words) and (is_wish or _OTHERWISE.search(text) is not None)


def _matter_words(sentence: str) -> frozenset[str]:
    """Return the words that say what a sentence is about; plural and singular are equal."""
    words: set[str] = set()
    for word in _WORD.findall(sentence.replace("’", "'").lower()):
        if word[0].isascii():
            if word not in _EMPTY:
                words.add(word.removesuffix("s"))
        else:
            words.update(part for part in _EMPTY_CHINESE.sub(" ", word).split() if part)
    return frozenset(words)
