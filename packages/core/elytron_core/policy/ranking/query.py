"""The query of a recall: the kind of answer it wants, its text for an encoder, and its metadata conditions.

When a question asks how things are now, the latest of several messages on one matter goes first. Signs decide, not
understanding: the question is in the present tense, both messages share much of its wording and have the same speaker,
a sentence of the later one speaks of a change of what is asked for, and one of the older is about it too, with a number
if the other has one. The older message is then marked and ranked after the later one. Neither is dropped, so a reader
sees what was said when.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from operator import ge, gt, le, lt
from typing import Final, NamedTuple, assert_never

from elytron_core.clock import DAY_MS, Instant
from elytron_core.contracts.recall import ComparisonOperator, FieldCondition, Scalar, Where
from elytron_core.ids import is_role_name
from elytron_core.lru_cache import remember_answers
from elytron_core.policy.ranking.time_ranges import TimeAnchor, TimeSpan, anchor_in, spans_in, without_relative
from elytron_core.text import analyser
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

    def is_of(self, lowered: str, /) -> bool:
        """Return whether the question begins so, or contains it."""
        return bool(self.english.match(lowered) or (not lowered.isascii() and self.chinese.search(lowered)))


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
    lowered = " ".join(text.lower().split())
    forms = _question_forms(lowered) if language in PATTERN_LANGUAGES else labels
    is_retold = QuestionLabel.RETELLING in labels
    several = is_retold or QuestionLabel.SEVERAL in forms
    fits = TextTrait.NOTHING
    if QuestionLabel.TIME in forms:
        fits |= TextTrait.TIME
    if QuestionLabel.NUMBER in forms:
        fits |= TextTrait.NUMBER
    if several or QuestionLabel.NAME in forms:
        fits |= TextTrait.NAME
    if several:
        fits |= TextTrait.QUOTE
    owner = AnswerOwner.ASSISTANT if QuestionLabel.ASSISTANT in labels else AnswerOwner.USER
    is_request = _has_phrase("making", lowered) and not _has_phrase("past", lowered)
    spans = spans_in(text, day, language)
    return ReadQuestion(
        _looked_for(text, lowered, language),
        fits,
        _owner_trait(owner, is_request=is_request),
        several,
        owner,
        _answer_version(lowered, is_latest=QuestionLabel.LATEST in labels),
        spans,
        is_retold,
        None if spans or is_request else anchor_in(text, lowered),
    )


def question_forms(text: str, /) -> frozenset[QuestionLabel]:
    """Return the labels that an English or Chinese question's words show."""
    return _question_forms(" ".join(text.lower().split()))


def _question_forms(lowered: str) -> frozenset[QuestionLabel]:
    openings = {QuestionLabel.TIME: _WHEN, QuestionLabel.NUMBER: _COUNT, QuestionLabel.NAME: _NAME}
    forms = {label for label, opening in openings.items() if opening.is_of(lowered)}
    return frozenset(forms | {QuestionLabel.SEVERAL} if _has_phrase("several", lowered) else forms)


def _owner_trait(owner: AnswerOwner, /, *, is_request: bool) -> TextTrait:
    if is_request:
        return TextTrait.STANDING
    return TextTrait.OCCASIONAL if owner is AnswerOwner.USER else TextTrait.NOTHING


def without_asking(text: str, lowered: str, /) -> str:
    """Return `text`, lower-cased in `lowered`, without the words that ask for an account.

    Such words ("walk me through", "what I said about", "in which order") are no words of what was said, and would find
    messages that have them by chance.
    """
    text = _PHRASES["opening"].sub(" ", text)
    return _PHRASES["aside"].sub(" ", text) if any(sign in lowered for sign in _ASIDE_SIGNS) else text


def _looked_for(text: str, lowered: str, language: str) -> str:
    """Return `text` without words that ask for an account and relative times; all of it if nothing is left."""
    statement = without_asking(text, lowered)
    return next((bare for bare in (without_relative(statement, language), statement) if bare.strip(_NO_WORD)), text)


def _answer_version(lowered: str, *, is_latest: bool) -> AnswerVersion:
    is_first = _has_phrase("first", lowered)
    if is_latest is is_first:
        return AnswerVersion.ANY  # neither, or both are asked for
    return AnswerVersion.FIRST if is_first else AnswerVersion.LATEST


def _has_phrase(name: str, lowered: str) -> bool:
    return _PHRASES[name].search(lowered) is not None


def encoder_query(query: str, speakers: Iterable[str], /) -> str:
    """Return `query` with the speakers' names replaced by the first person.

    An encoder takes a name for a person who is addressed, and so finds what was said to that person; the person's own
    messages say "I" and "my". Names are known by their capitals: a `Will` is a speaker, a `will` is not.
    """
    # Longer names first, because a name may be part of another one.
    for name in sorted(speakers, key=len, reverse=True):
        if name in query and not is_role_name(name):
            word = rf"(?<!\w){re.escape(name)}"
            query = re.sub(rf"{word}['\u2019]s(?!\w)", "my", query)
            query = re.sub(rf"{word}(?!\w)", "I", query)
    return query


_ORDERS: Final[Mapping[ComparisonOperator, Callable[[int, int], bool]]] = {
    ComparisonOperator.GT: gt,
    ComparisonOperator.GTE: ge,
    ComparisonOperator.LT: lt,
    ComparisonOperator.LTE: le,
}


def filters_hold(where: Where, fields: Mapping[str, Scalar], /) -> bool:
    """Return whether each group of `where` holds for `fields`."""
    return all(any(_condition_holds(condition, fields) for condition in group.conditions) for group in where)


def _condition_holds(condition: FieldCondition, fields: Mapping[str, Scalar]) -> bool:
    if condition.field not in fields:
        is_met = condition.comparison in {ComparisonOperator.NE, ComparisonOperator.NIN}
    else:
        is_met = _value_meets(fields[condition.field], condition.comparison, condition.values)
    return is_met is not condition.negated


def _value_meets(value: Scalar, comparison: ComparisonOperator, expected: tuple[Scalar, ...]) -> bool:
    match comparison:
        case ComparisonOperator.EXISTS:
            return True
        case ComparisonOperator.EQ | ComparisonOperator.IN:
            return any(_are_equal(value, other) for other in expected)
        case ComparisonOperator.NE | ComparisonOperator.NIN:
            return not any(_are_equal(value, other) for other in expected)
        case ComparisonOperator.GT | ComparisonOperator.GTE | ComparisonOperator.LT | ComparisonOperator.LTE:
            return any(_is_ordered(value, comparison, other) for other in expected)
        case ComparisonOperator.CONTAINS:
            return any(isinstance(value, str) and isinstance(other, str) and other in value for other in expected)
        case ComparisonOperator.ICONTAINS:
            folded = value.casefold() if isinstance(value, str) else ""
            return any(isinstance(other, str) and bool(folded) and other.casefold() in folded for other in expected)
        case _:
            assert_never(comparison)


def _are_equal(value: Scalar, other: Scalar) -> bool:
    # In Python True equals 1, but in JSON they are different values.
    return _value_kind(value) is _value_kind(other) and value == other


def _is_ordered(value: Scalar, comparison: ComparisonOperator, other: Scalar) -> bool:
    if isinstance(value, str) and isinstance(other, str):
        return _ORDERS[comparison]((value > other) - (value < other), 0)
    if (
        isinstance(value, int | float)
        and isinstance(other, int | float)
        and _value_kind(value) is _value_kind(other) is float
    ):
        return _ORDERS[comparison]((value > other) - (value < other), 0)
    return False


def _value_kind(value: Scalar) -> type:
    if isinstance(value, bool):
        return bool
    return float if isinstance(value, int | float) else type(value)


WINDOW: Final = 10
"""The best hits examined under any limit, so that a page continues where the one before it ended."""
SHARED_COVERAGE: Final = 0.5
"""Minimum share of the query's words, weighted by rarity, that both contain."""

_CHANGES: Final = pattern_table("changes")
_WORD: Final = re.compile(r"[a-z]+")
_ENDING: Final = re.compile(r"(?:ing|ed|es|s)\Z")
_NUMBER: Final = re.compile(r"\d")
_FORM_WORDS: Final = analyser.ENGLISH | analyser.ASKING | analyser.FORMS
_TELLS: Final = re.compile(r"[^.!?。！？\s][^.!?。！？]*(?:[.!。！]|\Z)")
"""A sentence that is no question."""


class BestMessage(NamedTuple):
    """One of the best messages: its author, its position in time, and its share of the query's words."""

    speaker: str | None
    role: str | None
    place: int
    """Its chronological position: a later message has a higher one."""
    coverage: float
    text: str


def asks_how_things_are(query: str, /) -> bool:
    """Return whether a question is about the current state, not about the past or a full account."""
    lowered = " ".join(query.lower().split())
    if _CHANGES["past"].search(lowered):
        return False
    if not lowered.isascii() and _CHANGES["chinese_state"].search(lowered):
        return True
    return _CHANGES["present"].search(lowered) is not None


def last_words(messages: Sequence[BestMessage | None], query: str, /) -> dict[int, int]:
    """Return for each superseded message's position that of the latest statement on what `query` asks for."""
    question = _question_pattern(query)
    overtaken: dict[int, int] = {}
    changes = [place for place, each in enumerate(messages) if each is not None and _speaks_of_change(each.text)]
    changed: dict[int, frozenset[bool]] = {}
    for place, older in enumerate(messages):
        later = [other for other in changes if _may_overtake(messages[other], older)]
        if not later or older is None:
            continue
        for other in later:
            if other not in changed:
                changed[other] = _number_signs(
                    filter(_CHANGES["change"].search, _telling_sentences(messages[other], question))
                )
        of_older = _number_signs(_telling_sentences(older, question))
        # Both must have a number, or neither: only such sentences can be two values of one thing.
        later = [other for other in later if not changed[other].isdisjoint(of_older)]
        if later:
            # Among equals the better hit counts, which has the lower position.
            overtaken[place] = max(later, key=lambda other: (_query_coverage(messages[other]), -other))
    return {place: _last_word_place(place, overtaken) for place in overtaken}


def _last_word_place(place: int, overtaken: dict[int, int]) -> int:
    """Return the latest statement after a message; each is later than the one before it, so the loop ends."""
    while place in overtaken:
        place = overtaken[place]
    return place


def in_succession(count: int, overtaken: dict[int, int], /) -> list[int]:
    """Return the positions 0 to `count` with each latest statement right before the first message that it
    superseded."""
    order: list[int] = []
    for place in range(count):
        last = overtaken.get(place)
        if last is not None and last not in order:
            order.append(last)
        if place not in order:
            order.append(place)
    return order


def _speaks_of_change(text: str) -> bool:
    lowered = text.lower()
    if text.isascii() and _unchanging_words().isdisjoint(_WORD.findall(lowered)):
        return False
    return _CHANGES["change"].search(lowered) is not None


@cache
def _unchanging_words() -> frozenset[str]:
    """Return words of which an English text that mentions a change contains at least one; checked first because it is
    faster."""
    return _CHANGES.words("changing")


def _may_overtake(later: BestMessage | None, older: BestMessage | None) -> bool:
    if later is None or older is None or min(older.coverage, later.coverage) < SHARED_COVERAGE:
        return False
    return later.place > older.place and (later.speaker, later.role) == (older.speaker, older.role)


def _number_signs(sentences: Iterable[str]) -> frozenset[bool]:
    """Return whether the sentences have numbers."""
    return frozenset(map(_has_number, sentences))


def _question_pattern(query: str) -> re.Pattern[str] | None:
    """Return a pattern for the content words of an English question; None if it has none."""
    words = {_ENDING.sub("", word) for word in _WORD.findall(query.lower()) if word not in _FORM_WORDS}
    return re.compile("|".join(rf"\b{word}" for word in sorted(words) if len(word) > 2)) if words else None


def _telling_sentences(message: BestMessage | None, question: re.Pattern[str] | None) -> list[str]:
    """Return the lower-cased sentences that are no questions and contain a word of the query."""
    sentences: list[str] = _TELLS.findall(message.text.lower()) if message is not None else []
    return [each for each in sentences if question is None or question.search(each)]


def _has_number(text: str) -> bool:
    return _NUMBER.search(text) is not None


def _query_coverage(message: BestMessage | None) -> float:
    return message.coverage if message is not None else 0.0
