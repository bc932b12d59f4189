"""The question of a recall: the kind of answer it asks for, and its text for an encoder."""

import re
from collections.abc import Collection, Iterable
from enum import StrEnum
from typing import Final, NamedTuple

from elytron_core.clock import DAY_MS, Instant
from elytron_core.ids import is_role_name
from elytron_core.lru_cache import remember_answers
from elytron_core.policy.ranking.time_ranges import TimeAnchor, TimeSpan, anchor_in, spans_in, without_relative
from elytron_core.text.traits import TextTrait, pattern_table


class QuestionLabel(StrEnum):
    """Labels of what a question asks for: none, one or several. The last four are used in languages without
    patterns."""

    ASSISTANT = "assistant"
    """It asks for what the assistant said."""
    LATEST = "latest"
    """It asks for the current state, out of several answers over time."""
    RETELLING = "retelling"
    """It asks for an account of what was said: a summary, an order, a development."""
    SEVERAL = "several"
    """Its answer is probably in several places: a list, a count, a common property."""
    TIME = "time"
    """It asks when, or how long."""
    NUMBER = "number"
    """It asks how many, how much, how old, how far."""
    NAME = "name"
    """It asks who or where."""


class AnswerOwner(StrEnum):
    """Side of a conversation whose words a question asks for."""

    USER = "user"
    ASSISTANT = "assistant"


class AnswerVersion(StrEnum):
    """Choice between several answers over time."""

    ANY = "any"
    LATEST = "latest"
    FIRST = "first"


class ReadQuestion(NamedTuple):
    """A question, and what its words imply about the answer."""

    text: str
    """The text to search for: the question without relative times and words that ask for an account, unless nothing
    else is left."""
    fits: TextTrait
    """Traits that the answer probably has; none if any text will do."""
    heeds: TextTrait
    """The standing statements to consider: all of them if something is to be made or advised on any matter; otherwise
    those for the occasion of the question."""
    wants_several: bool
    """True if the answer is probably in several places: a list, a count, a common property."""
    owner: AnswerOwner
    version: AnswerVersion
    spans: tuple[TimeSpan, ...]
    retells: bool = False
    """True if it asks for an account of what was said: a summary, an order, a development."""
    anchor: TimeAnchor | None = None
    """The event by which it names a time, if it names no date."""


class _QuestionOpening(NamedTuple):
    """Pattern for the beginning of an English question, or for any place in a Chinese one."""

    english: re.Pattern[str]
    chinese: re.Pattern[str]

    def is_of(self, lowered_question: str, /) -> bool:
        """Return whether the question begins so, or contains it."""
        return bool(
            self.english.match(lowered_question)
            or (not lowered_question.isascii() and self.chinese.search(lowered_question))
        )


_WHEN = _QuestionOpening(
    re.compile(r"(?:when|how long|since when|(?:what|which) (?:date|day|month|year|time))\b"),
    re.compile("什么时候|哪天|几点|多久"),
)
_COUNT = _QuestionOpening(re.compile(r"how (?:many|much|often|old|far|tall|big)\b"), re.compile("多少|几[个次只岁]"))
_NAME = _QuestionOpening(
    re.compile(r"(?:who|whose|whom|where|(?:which|what) (?:city|country|place|state|name))\b"),
    re.compile("谁|哪里|哪儿|什么名字"),
)
_NO_WORD: Final = " ?!.,:;？！。，"
_ASIDE_SIGNS: Final = (
    "order", "sequence", "step", "over time", " our ", "told", "tell", "mention", "sai", "say", "brought", "bring",
    "discuss", "talk", "spoke", "first", "from ", "one after", "chronolog", "whole", "full", "entire", "complete",
    "everything", "all ", "know", "stage", "phase", "milestone", "event",
)  # fmt: skip
"""A text without these contains no request for an account."""
_PHRASES: Final = pattern_table("questions")
PATTERN_LANGUAGES: Final = frozenset(("", "en", "zh"))
"""The languages whose questions have patterns."""


def read_question(
    text: str, now: Instant, labels: Collection[QuestionLabel] = (), language: str = "", /
) -> ReadQuestion:
    """Return what `text` asks for, as seen at `now`.

    `labels` are what a classifier says of it, `language` is the code of its language, empty if it is English.
    """
    # Relative times are counted in days.
    return _read_question(text, Instant(now - now % DAY_MS), frozenset(labels), language)


@remember_answers(1_024)
def _read_question(text: str, day: Instant, labels: frozenset[QuestionLabel], language: str) -> ReadQuestion:
    lowered_question = " ".join(text.lower().split())
    form_labels = _question_forms(lowered_question) if language in PATTERN_LANGUAGES else labels
    is_retold = QuestionLabel.RETELLING in labels
    wants_several = is_retold or QuestionLabel.SEVERAL in form_labels
    fitting_traits = TextTrait.NOTHING
    if QuestionLabel.TIME in form_labels:
        fitting_traits |= TextTrait.TIME
    if QuestionLabel.NUMBER in form_labels:
        fitting_traits |= TextTrait.NUMBER
    if wants_several or QuestionLabel.NAME in form_labels:
        fitting_traits |= TextTrait.NAME
    if wants_several:
        fitting_traits |= TextTrait.QUOTE
    owner = AnswerOwner.ASSISTANT if QuestionLabel.ASSISTANT in labels else AnswerOwner.USER
    is_request = _has_phrase("making", lowered_question) and not _has_phrase("past", lowered_question)
    spans = spans_in(text, day, language)
    return ReadQuestion(
        _looked_for(text, lowered_question, language),
        fitting_traits,
        _owner_trait(owner, is_request=is_request),
        wants_several,
        owner,
        _answer_version(lowered_question, is_latest=QuestionLabel.LATEST in labels),
        spans,
        is_retold,
        None if spans or is_request else anchor_in(text, lowered_question),
    )


def question_forms(text: str, /) -> frozenset[QuestionLabel]:
    """Return the labels that an English or Chinese question's words show."""
    return _question_forms(" ".join(text.lower().split()))


def _question_forms(lowered_question: str) -> frozenset[QuestionLabel]:
    openings = {QuestionLabel.TIME: _WHEN, QuestionLabel.NUMBER: _COUNT, QuestionLabel.NAME: _NAME}
    form_labels = {label for label, opening in openings.items() if opening.is_of(lowered_question)}
    return frozenset(form_labels | {QuestionLabel.SEVERAL} if _has_phrase("several", lowered_question) else form_labels)


def _owner_trait(owner: AnswerOwner, /, *, is_request: bool) -> TextTrait:
    if is_request:
        return TextTrait.STANDING
    return TextTrait.OCCASIONAL if owner is AnswerOwner.USER else TextTrait.NOTHING


def without_asking(text: str, lowered_text: str, /) -> str:
    """Return `text`, lower-cased in `lowered_text`, without the words that ask for an account.

    Such words ("walk me through", "what I said about", "in which order") are no words of what was said, and would find
    messages that have them by chance.
    """
    text = _PHRASES["opening"].sub(" ", text)
    return _PHRASES["aside"].sub(" ", text) if any(sign in lowered_text for sign in _ASIDE_SIGNS) else text


def _looked_for(text: str, lowered_text: str, language: str) -> str:
    """Return `text` without words that ask for an account and relative times; all of it if nothing is left."""
    statement = without_asking(text, lowered_text)
    return next(
        (
            sought_text
            for sought_text in (without_relative(statement, language), statement)
            if sought_text.strip(_NO_WORD)
        ),
        text,
    )


def _answer_version(lowered_question: str, *, is_latest: bool) -> AnswerVersion:
    asks_for_first = _has_phrase("first", lowered_question)
    if is_latest is asks_for_first:
        return AnswerVersion.ANY  # neither, or both are asked for
    return AnswerVersion.FIRST if asks_for_first else AnswerVersion.LATEST


def _has_phrase(name: str, lowered_text: str) -> bool:
    return _PHRASES[name].search(lowered_text) is not None


def encoder_query(query: str, speakers: Iterable[str], /) -> str:
    """Return `query` with the speakers' names replaced by the first person.

    An encoder takes a name for a person who is addressed, and so finds what was said to that person; the person's own
    messages say "I" and "my". Names are known by their capitals: a `Will` is a speaker, a `will` is not.
    """
    # Longer names first, because a name may be part of another one.
    for name in sorted(speakers, key=len, reverse=True):
        if name in query and not is_role_name(name):
            name_pattern = rf"(?<!\w){re.escape(name)}"
            query = re.sub(rf"{name_pattern}['\u2019]s(?!\w)", "my", query)
            query = re.sub(rf"{name_pattern}(?!\w)", "I", query)
    return query
