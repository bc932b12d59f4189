"""Learning rules: which topics are learned, and what may not be learned again."""

from collections.abc import Iterable
from typing import Final

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.facts import FactDraft
from elytron_core.planes import facts
from elytron_core.planes.facts import (
    LearningAction,
    LearningEvent,
    LearningRule,
    LearningRules,
    LearningState,
)
from elytron_core.policy.admission.tombstones import normal_forms
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


def learning_refusal(draft: FactDraft, learning: LearningRules, /) -> str:
    """Return why the rules prevent a proposed fact from being learned; empty if they do not."""
    text = " ".join((draft.topic, *draft.keywords, *draft.entities, draft.content))
    return next((_REFUSALS[rule.state] for rule in learning.rules if _is_about(text, rule.topic)), "")


def is_paused(learning: LearningRules, /) -> bool:
    """Return whether all learning is suppressed."""
    return any(rule.topic is None for rule in learning.rules)


def _is_about(statement: str, topic: str | None) -> bool:
    """Return whether a text has every word of `topic`, in one of the compared forms."""
    return topic is None or any(
        all(similarity.has_term(text, word) for word in words.split())
        for text, words in zip(normal_forms(statement), normal_forms(topic), strict=True)
    )


def rules_after(learning: LearningRules, event: LearningEvent, /) -> LearningRules:
    """Return the rules after a call; the same value if nothing changes."""
    is_about_pausing = event.action in {LearningAction.PAUSE, LearningAction.RESUME}
    rule_state = LearningState.PAUSED if is_about_pausing else LearningState.SUPPRESSED
    is_beginning = event.action in {LearningAction.PAUSE, LearningAction.SUPPRESS}
    same_topic_rules = [
        rule
        for rule in learning.rules
        if rule.state is rule_state and _topic_key(rule.topic) == _topic_key(event.topic)
    ]
    # An existing rule is not started again, and a missing one is not ended.
    if is_beginning is bool(same_topic_rules):
        return learning
    other_rules = tuple(rule for rule in learning.rules if rule not in same_topic_rules)
    if is_beginning:
        new_rule = LearningRule(state=rule_state, topic=event.topic, since=event.at, by=event.by, reason=event.reason)
        other_rules = (*other_rules, new_rule)
    return with_event(learning.model_copy(update={"rules": other_rules}), event)


def join_rules(learning: LearningRules, others: Iterable[LearningRule], /) -> LearningRules:
    """Return the rules plus those of `others` that it lacks and has not ended since, up to the limit."""
    present_keys = {(rule.state, _topic_key(rule.topic)) for rule in learning.rules}
    new_rules = [
        rule
        for rule in {(rule.state, _topic_key(rule.topic)): rule for rule in others}.values()
        if (rule.state, _topic_key(rule.topic)) not in present_keys and not _is_ended_since(learning, rule)
    ][: limits.LEARNING_RULES - len(learning.rules)]
    events = [
        LearningEvent(action=_BEGINNINGS[rule.state], topic=rule.topic, at=rule.since, by=rule.by, reason=rule.reason)
        for rule in new_rules
    ]
    # Both logs become one history, so that the limit drops the oldest of all.
    joined_log = sorted((*learning.log, *events), key=lambda event: event.at)[-limits.AUDIT_EVENTS :]
    return learning.model_copy(update={"rules": (*learning.rules, *new_rules), "log": tuple(joined_log)})


def is_allowed_since(learning: LearningRules, topic: str, at: Instant, /) -> bool:
    """Return whether the facts of a topic were allowed at `at` or later."""
    return any(
        event.action is LearningAction.ALLOW and event.at >= at and _topic_key(event.topic) == _topic_key(topic)
        for event in learning.log
    )


def _is_ended_since(learning: LearningRules, rule: LearningRule) -> bool:
    return any(
        event.action is _ENDS_OF[rule.state]
        and event.at >= rule.since
        and _topic_key(event.topic) == _topic_key(rule.topic)
        for event in learning.log
    )


def with_event(learning: LearningRules, event: LearningEvent, /) -> LearningRules:
    """Return the rules with a call logged; beyond the limit the oldest is dropped."""
    return learning.model_copy(update={"log": (*learning.log, event)[-limits.AUDIT_EVENTS :]})


def _topic_key(topic: str | None) -> str | None:
    return facts.topic_key(topic) if topic is not None else None
