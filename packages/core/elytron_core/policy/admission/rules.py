"""Admission: which proposed facts and skills become beliefs, and why not.

A judgement never looks at a model, a clock or a store: what is known comes in. Merge guards stand between a draft and
the current fact of its slot: no change of privacy, no older observation over a newer one, no less sure word over a
surer one. A draft that says the same again overwrites nothing, so only the privacy guard holds for it; if it is of
another tier, or of a later time after the fact's tier was over, it takes the fact's place. A delete moves no privacy,
so only the other two hold for it. A deleted fact is not taken again from an observation before that.
"""

from collections.abc import Sequence
from typing import Final, assert_never

from elytron_core.clock import Instant
from elytron_core.contracts.conversation import write as contracts_write
from elytron_core.model import Value
from elytron_core.planes.knowledge import long_term
from elytron_core.policy.admission import procedure_checks
from elytron_core.policy.temporal import slot_versions, validity
from elytron_core.text import similarity

VOUCHED: Final = frozenset(
    {
        long_term.Authority.USER_ASSERTED,
        long_term.Authority.OPERATOR,
        long_term.Authority.PROGRAM,
        long_term.Authority.RUNTIME,
    }
)
"""Authorities whose word counts as high confidence, with any confidence of the draft."""

SURENESS: Final = {long_term.Confidence.LOW: 0, long_term.Confidence.MEDIUM: 1, long_term.Confidence.HIGH: 2}

SELF_CLAIM: Final = "assistant self-claims are evidence, not facts"
EMPTY_TOPIC: Final = "the topic is empty"
EMPTY_CONTENT: Final = "the content is empty"
VALIDITY_BACKWARDS: Final = "its validity ends before it begins"
PRIVACY_TRANSITION: Final = "a write never changes the privacy of a fact: use change_fact with change_privacy"
OLDER_OBSERVATION: Final = "it was observed before the current fact"
OLDER_THAN_DELETION: Final = "it was observed before the fact was deleted"
LESS_SURE: Final = "it is less sure than the current fact"
NOTHING_TO_DELETE: Final = "there is no current fact to delete"
EMPTY_SKILL: Final = "the topic or the title is empty"


class FactJudgement(Value):
    """Admission of one draft: the verdict, the action, and the reason unless it is accepted."""

    verdict: contracts_write.Verdict
    outcome: contracts_write.Outcome
    reason: str = ""


class SkillJudgement(FactJudgement):
    """The same of a skill. An accepted one is STORED; whether that replaces an older revision, its writer knows."""


def effective_confidence(draft: contracts_write.FactDraft, /) -> long_term.Confidence:
    """Return how sure `draft` is to be taken: high where its authority vouches for it."""
    return _confidence(draft.authority, draft.confidence)


def judge_fact(draft: contracts_write.FactDraft, versions: Sequence[long_term.Fact], *, at: Instant) -> FactJudgement:
    """Return what is to become of `draft` beside the versions of its slot, oldest first.

    Of those that cannot be replaced only a deletion counts. A draft without a time of observation was observed at `at`.
    """
    if draft.authority is long_term.Authority.ASSISTANT_SELF_CLAIM:
        return rejected(SELF_CLAIM)
    if similarity.is_blank(draft.topic):
        return rejected(EMPTY_TOPIC)
    known = known_version(draft, versions, at=at)
    match draft.operation:
        case contracts_write.FactOperation.DELETE:
            return _judge_delete(draft, known, at=at)
        case contracts_write.FactOperation.UPSERT:
            if versions and _is_before_deletion(draft, versions[-1], at=at):
                return rejected(OLDER_THAN_DELETION)
            return _judge_upsert(draft, known, at=at)
        case _:
            assert_never(draft.operation)


def known_version(
    draft: contracts_write.FactDraft, versions: Sequence[long_term.Fact], /, *, at: Instant
) -> long_term.Fact | None:
    """Return the version of a slot that `draft` is compared with: the newest that can be replaced.

    It is one that holds still, though another is to follow it, if the draft says the same of that time.
    """
    found = slot_versions.replaceable_versions(versions, at=at)
    if not found or draft.operation is contracts_write.FactOperation.DELETE:
        return found[0] if found else None
    began = draft.valid_from if draft.valid_from is not None else observed(draft, at=at)
    same = (fact for fact in found if says_the_same(draft.content, fact.content))
    return next((fact for fact in same if validity.holds(fact, as_of=began)), found[0])


def judge_skill(write: contracts_write.RuntimeSkillWrite, /) -> SkillJudgement:
    """Return whether `write` is a procedure worth keeping: see `procedures.flaw`."""
    blank = similarity.is_blank(write.topic) or similarity.is_blank(write.title)
    reason = EMPTY_SKILL if blank else procedure_checks.flaw(write.content)
    if reason is not None:
        return SkillJudgement(
            verdict=contracts_write.Verdict.REJECT, outcome=contracts_write.Outcome.REJECTED, reason=reason
        )
    return SkillJudgement(verdict=contracts_write.Verdict.ACCEPT, outcome=contracts_write.Outcome.STORED)


def _judge_delete(draft: contracts_write.FactDraft, known: long_term.Fact | None, *, at: Instant) -> FactJudgement:
    if known is None:
        return _accepted(contracts_write.Outcome.SKIPPED, NOTHING_TO_DELETE)
    refusal = _overwrite_refusal(draft, known, at=at)
    return rejected(refusal) if refusal else _accepted(contracts_write.Outcome.DELETED)


def _judge_upsert(draft: contracts_write.FactDraft, known: long_term.Fact | None, *, at: Instant) -> FactJudgement:
    if similarity.is_blank(draft.content):
        return rejected(EMPTY_CONTENT)
    if draft.valid_from is not None and draft.valid_to is not None and draft.valid_to < draft.valid_from:
        return rejected(VALIDITY_BACKWARDS)
    if known is None:
        return _accepted(contracts_write.Outcome.STORED)
    if draft.privacy is not known.privacy:
        return rejected(PRIVACY_TRANSITION)
    if says_the_same(draft.content, known.content) and not _is_of_another_time(draft, known, at=at):
        return _accepted(contracts_write.Outcome.CONFIRMED)
    refusal = _overwrite_refusal(draft, known, at=at)
    return rejected(refusal) if refusal else _accepted(contracts_write.Outcome.UPDATED)


def says_the_same(one: str, other: str, /) -> bool:
    """Return whether two contents differ only in case, width and white space; signs count ("-5" is not "5")."""
    return similarity.plain(one) == similarity.plain(other)


def may_bound(draft: contracts_write.FactDraft, known: long_term.Fact, /, *, at: Instant) -> bool:
    """Return whether a draft with the same content may set from when and until when it holds."""
    return not _overwrite_refusal(draft, known, at=at)


def observed(draft: contracts_write.FactDraft, /, *, at: Instant) -> Instant:
    """Return when what a draft says was observed."""
    return draft.observed_at if draft.observed_at is not None else at


def end_of(draft: contracts_write.FactDraft, /, *, at: Instant) -> Instant | None:
    """Return until when what a draft says is meant to hold: its own word, else its tier's; None if neither says it."""
    return draft.valid_to if draft.valid_to is not None else long_term.end_of(draft.tier, observed(draft, at=at))


def _is_of_another_time(draft: contracts_write.FactDraft, known: long_term.Fact, *, at: Instant) -> bool:
    """Return whether a draft is of another tier than the fact, or of a later time after the fact's own was over."""
    if draft.tier is None:
        return False
    return draft.tier is not known.tier or (known.valid_to is not None and known.valid_to <= observed(draft, at=at))


def _is_before_deletion(draft: contracts_write.FactDraft, newest: long_term.Fact, *, at: Instant) -> bool:
    if newest.state is not long_term.State.DELETED:
        return False
    gone_at = newest.gone_at if newest.gone_at is not None else newest.closed_at
    return gone_at is not None and observed(draft, at=at) < gone_at


def _overwrite_refusal(draft: contracts_write.FactDraft, known: long_term.Fact, *, at: Instant) -> str:
    if observed(draft, at=at) < known.observed_at:
        return OLDER_OBSERVATION
    if SURENESS[effective_confidence(draft)] < SURENESS[_confidence(known.authority, known.confidence)]:
        return LESS_SURE
    return ""


def _confidence(authority: long_term.Authority, stated: long_term.Confidence) -> long_term.Confidence:
    return long_term.Confidence.HIGH if authority in VOUCHED else stated


def _accepted(outcome: contracts_write.Outcome, reason: str = "") -> FactJudgement:
    return FactJudgement(verdict=contracts_write.Verdict.ACCEPT, outcome=outcome, reason=reason)


def rejected(reason: str, /) -> FactJudgement:
    """Return a no with its reason."""
    return FactJudgement(
        verdict=contracts_write.Verdict.REJECT, outcome=contracts_write.Outcome.REJECTED, reason=reason
    )
