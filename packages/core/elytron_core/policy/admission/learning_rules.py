"""Decides whether a proposed fact may be learned: by the rules of its space, and by what was forgotten before."""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.conversation.write import FactDraft
from elytron_core.planes.knowledge import long_term
from elytron_core.planes.knowledge.learning_rules import (
    Learning,
    LearningAction,
    LearningEvent,
    LearningRule,
    LearningState,
)
from elytron_core.text import similarity

PAUSED: Final = "learning is paused: resume it with set_learning first"
SUPPRESSED: Final = "its topic is suppressed: allow it with set_learning first"
FORGOTTEN_BEFORE: Final = "it was forgotten: allow its topic with set_learning, or undo the forgetting"

_REFUSALS: Final = {LearningState.PAUSED: PAUSED, LearningState.SUPPRESSED: SUPPRESSED}
_BEGINNINGS: Final = {
    LearningState.PAUSED: LearningAction.PAUSE,
    LearningState.SUPPRESSED: LearningAction.SUPPRESS,
}
_ENDS_OF: Final = {LearningState.PAUSED: LearningAction.RESUME, LearningState.SUPPRESSED: LearningAction.ALLOW}
_ENDING: Final = ".!。！ "
_ENDS: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n+")


def refusal(draft: FactDraft, learning: Learning, /) -> str:
    """Return why the rules keep a proposed fact from being learned; an empty text if they do not."""
    told = " ".join((draft.topic, *draft.keywords, *draft.entities, draft.content))
    return next((_REFUSALS[rule.state] for rule in learning.rules if _is_about(told, rule.topic)), "")


def is_paused(learning: Learning, /) -> bool:
    """Return whether all learning is suppressed."""
    return any(rule.topic is None for rule in learning.rules)


def _is_about(told: str, topic: str | None) -> bool:
    """Return whether a text has every word of `topic`, in one of the forms in which they are compared."""
    return topic is None or any(
        all(similarity.holds(text, word) for word in words.split())
        for text, words in zip(_forms(told), _forms(topic), strict=True)
    )


def _forms(text: str) -> tuple[str, str]:
    """Return a text in normal form, with what is not seen left out, and read as a break between words."""
    return similarity.normalise(similarity.visible(text)), similarity.normalise(similarity.visible(text, instead=" "))


def after(learning: Learning, event: LearningEvent, /) -> Learning:
    """Return the rules after a call; the same value if it changes none."""
    is_pause = event.action in {LearningAction.PAUSE, LearningAction.RESUME}
    state = LearningState.PAUSED if is_pause else LearningState.SUPPRESSED
    begins = event.action in {LearningAction.PAUSE, LearningAction.SUPPRESS}
    same = [rule for rule in learning.rules if rule.state is state and _key(rule.topic) == _key(event.topic)]
    if begins is bool(same):
        return learning
    rules = tuple(rule for rule in learning.rules if rule not in same)
    if begins:
        rule = LearningRule(state=state, topic=event.topic, since=event.at, by=event.by, reason=event.reason)
        rules = (*rules, rule)
    return with_event(learning.model_copy(update={"rules": rules}), event)


def joined(learning: Learning, others: Iterable[LearningRule], /) -> Learning:
    """Return the rules with `others` that it does not have and did not end since, as many as it has room for."""
    known = {(rule.state, _key(rule.topic)) for rule in learning.rules}
    new = [
        rule
        for rule in {(rule.state, _key(rule.topic)): rule for rule in others}.values()
        if (rule.state, _key(rule.topic)) not in known and not _is_ended_since(learning, rule)
    ][: limits.LEARNING_RULES - len(learning.rules)]
    events = [
        LearningEvent(action=_BEGINNINGS[rule.state], topic=rule.topic, at=rule.since, by=rule.by, reason=rule.reason)
        for rule in new
    ]
    log = sorted((*learning.log, *events), key=lambda event: event.at)[-limits.AUDIT_EVENTS :]
    return learning.model_copy(update={"rules": (*learning.rules, *new), "log": tuple(log)})


def is_allowed_since(learning: Learning, topic: str, at: Instant, /) -> bool:
    """Return whether the facts of a topic were allowed at `at` or later."""
    return any(
        event.action is LearningAction.ALLOW and event.at >= at and _key(event.topic) == _key(topic)
        for event in learning.log
    )


def _is_ended_since(learning: Learning, rule: LearningRule) -> bool:
    return any(
        event.action is _ENDS_OF[rule.state] and event.at >= rule.since and _key(event.topic) == _key(rule.topic)
        for event in learning.log
    )


def with_event(learning: Learning, event: LearningEvent, /) -> Learning:
    """Return the rules with a call written down; the oldest goes beyond the bound."""
    return learning.model_copy(update={"log": (*learning.log, event)[-limits.AUDIT_EVENTS :]})


def _key(topic: str | None) -> str | None:
    return long_term.topic_key(topic) if topic is not None else None


def plain_content(content: str, /) -> str:
    """Return the form under which a forgotten content is recognised."""
    return similarity.plain(content).rstrip(_ENDING)


def content_forms(content: str, /) -> tuple[str, ...]:
    """Return the forms under which a forgotten content is tagged, the one of earlier builds last."""
    earlier = " ".join(unicodedata.normalize("NFKC", content).casefold().split()).rstrip(_ENDING)
    return tuple(dict.fromkeys((plain_content(content), earlier)))


def sentences(text: str, /) -> tuple[str, ...]:
    """Return the normalised sentences of a message, each form once, up to the bound."""
    found = (form for part in _ENDS.split(text) for form in _forms(part))
    return tuple(dict.fromkeys(part for part in found if part))[: limits.TOMBSTONE_SENTENCES]


def telling(texts: Iterable[str], content: str, /) -> tuple[str, ...]:
    """Return those sentences of cited messages that share most words with a fact's content, and at least one."""
    words = similarity.normalise(content).split()
    shared = {
        sentence: sum(similarity.holds(sentence, word) for word in words)
        for text in texts
        for sentence in sentences(text)
    }
    most = max(shared.values(), default=0)
    return tuple(sentence for sentence, count in shared.items() if most and count == most)
