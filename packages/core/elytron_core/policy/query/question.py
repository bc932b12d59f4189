"""What kind of answer a question wants: how many things, of which kind, whose, and of when.

A classifier says what is taste (`question_label`). What no model reads as well yet stands in a frozen table
of phrases (`text/data/questions.toml`), and what is grammar is a rule: question words, dates, anchors.
"""

import re
from collections.abc import Container
from enum import StrEnum
from typing import Final, NamedTuple

from elytron_core.clock import Instant
from elytron_core.policy.query.question_label import QuestionLabel
from elytron_core.policy.query.summary_requests import without_asking
from elytron_core.policy.temporal.event_anchors import Anchor, anchor_in
from elytron_core.policy.temporal.time_ranges import Span, spans_in, without_relative
from elytron_core.text.features import Trait
from elytron_core.text.pattern_table import table


class Owner(StrEnum):
    """Whose words a question is after."""

    USER = "user"
    ASSISTANT = "assistant"


class Version(StrEnum):
    """Which of several answers over time a question is after."""

    ANY = "any"
    LATEST = "latest"
    FIRST = "first"


class Question(NamedTuple):
    """A question as far as its words say what it wants."""

    text: str
    """What is to be looked for: the question without times told from where the asker stands, and without the words that
    ask for the telling, where more is in it."""
    fits: Trait
    """What the answer is likely to have in it; nothing where any text will do."""
    heeds: Trait
    """What holds from now on: all of it where something is to be made or advised, whatever it is about; otherwise what
    is to hold on the occasion that the question is about."""
    wants_several: bool
    """Whether the answer is likely to stand in several places: a list, a count, what two have in common."""
    owner: Owner
    version: Version
    spans: tuple[Span, ...]
    wants_guess: bool = False
    """Whether it asks for what may be concluded, which shares few words with what it is concluded from."""
    retells: bool = False
    """Whether what was said is to be told again: a summary, an order, how something went."""
    anchor: Anchor | None = None
    """What the time that it speaks of is told by, where no date says it."""


class _Opening(NamedTuple):
    """How a question begins in English, or what stands anywhere in a Chinese one."""

    english: re.Pattern[str]
    chinese: re.Pattern[str]

    def is_of(self, lowered: str, /) -> bool:
        """Tell whether the question begins so, or has it."""
        return bool(self.english.match(lowered) or (not lowered.isascii() and self.chinese.search(lowered)))


_WHEN = _Opening(
    re.compile(r"(?:when|how long|since when|(?:what|which) (?:date|day|month|year|time))\b"),
    re.compile("什么时候|哪天|几点|多久"),
)
_COUNT = _Opening(re.compile(r"how (?:many|much|often|old|far|tall|big)\b"), re.compile("多少|几[个次只岁]"))
_NAMED = _Opening(
    re.compile(r"(?:who|whose|whom|where|(?:which|what) (?:city|country|place|state|name))\b"),
    re.compile("谁|哪里|哪儿|什么名字"),
)
_NO_WORD: Final = " ?!.,:;？！。，"
_PHRASES: Final = table("questions")


def read(text: str, now: Instant, labels: Container[QuestionLabel] = (), /) -> Question:
    """Return what `text` asks for, as seen at `now`; `labels` are what a classifier says of it."""
    lowered = " ".join(text.lower().split())
    is_retold = QuestionLabel.RETELLING in labels
    several = is_retold or _says("several", lowered)
    fits = Trait.NOTHING
    if _WHEN.is_of(lowered):
        fits |= Trait.TIME
    if _COUNT.is_of(lowered):
        fits |= Trait.NUMBER
    if several or _NAMED.is_of(lowered):
        fits |= Trait.NAME
    if several:
        fits |= Trait.QUOTE
    owner = Owner.ASSISTANT if QuestionLabel.ASSISTANT in labels else Owner.USER
    is_request = _says("making", lowered) and not _says("past", lowered)
    spans = spans_in(text, now)
    return Question(
        _looked_for(text, lowered),
        fits,
        _heeded(owner, is_request=is_request),
        several,
        owner,
        _version(lowered, is_latest=QuestionLabel.LATEST in labels),
        spans,
        _says("guess", lowered),
        is_retold,
        None if spans or is_request else anchor_in(text, lowered),
    )


def _heeded(owner: Owner, /, *, is_request: bool) -> Trait:
    if is_request:
        return Trait.STANDING
    return Trait.OCCASIONAL if owner is Owner.USER else Trait.NOTHING


def _looked_for(text: str, lowered: str) -> str:
    """Return `text` without what says only how, or from where, it is asked; as it is where nothing else is in it."""
    told = without_asking(text, lowered)
    return next((bare for bare in (without_relative(told), told) if bare.strip(_NO_WORD)), text)


def _version(lowered: str, *, is_latest: bool) -> Version:
    is_first = _says("first", lowered)
    if is_latest is is_first:
        return Version.ANY  # neither, or both are asked for
    return Version.FIRST if is_first else Version.LATEST


def _says(name: str, lowered: str) -> bool:
    return _PHRASES[name].search(lowered) is not None
