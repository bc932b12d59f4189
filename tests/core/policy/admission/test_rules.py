"""Which drafts become facts and skills, and why not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.clock import Instant
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.transcript import RuntimeSkillWrite, WriteOutcome
from elytron_core.ids import FactId
from elytron_core.planes.candidates import AdmissionVerdict
from elytron_core.planes.facts import (
    Fact,
    FactAuthority,
    FactConfidence,
    FactKind,
    FactOperation,
    FactPrivacy,
    FactState,
    close_fact,
)
from elytron_core.policy.admission import rules
from elytron_core.policy.admission.rules import FactJudgement, SkillJudgement, judge_fact, judge_skill

NOW = Instant(1_750_000_000_000)
EARLIER = Instant(NOW - 1_000)
LATER = Instant(NOW + 1_000)


def draft(content: str = "green tea", **fields: object) -> FactDraft:
    given = {"fact_kind": FactKind.PREFERENCE, "topic": "drink", "content": content, "observed_at": NOW, **fields}
    return FactDraft.model_validate(given)


def current(content: str = "black tea", **fields: object) -> Fact:
    given = {"kind": FactKind.PREFERENCE, "topic": "drink", "content": content, "id": FactId("f1"), **fields}
    return Fact.model_validate({"observed_at": NOW, "recorded_at": NOW, "confirmed_at": NOW, **given})


def delete(**fields: object) -> FactDraft:
    return draft("", operation=FactOperation.DELETE, **fields)


def accepted(outcome: WriteOutcome, reason: str = "") -> FactJudgement:
    return FactJudgement(verdict=AdmissionVerdict.ACCEPT, outcome=outcome, reason=reason)


def rejected(reason: str) -> FactJudgement:
    return FactJudgement(verdict=AdmissionVerdict.REJECT, outcome=WriteOutcome.REJECTED, reason=reason)


@pytest.mark.parametrize(
    ("proposed", "known", "judgement"),
    [
        pytest.param(draft(), None, accepted(WriteOutcome.STORED), id="a new fact is stored"),
        pytest.param(draft(), current(), accepted(WriteOutcome.UPDATED), id="another value updates"),
        pytest.param(
            draft("  Green\nTEA "), current("green tea"), accepted(WriteOutcome.CONFIRMED), id="the same confirms"
        ),
        pytest.param(draft("-5"), current("5"), accepted(WriteOutcome.UPDATED), id="a sign is another value"),
        pytest.param(
            draft(),
            close_fact(current(), at=NOW, because="", state=FactState.FORGOTTEN),
            accepted(WriteOutcome.STORED),
            id="closed is none",
        ),
        pytest.param(
            draft(observed_at=EARLIER),
            close_fact(current(), at=NOW, because="", state=FactState.DELETED),
            rejected(rules.OLDER_THAN_DELETION),
            id="older than a deletion",
        ),
        pytest.param(
            draft(),
            close_fact(current(), at=NOW, because="", state=FactState.DELETED),
            accepted(WriteOutcome.STORED),
            id="as late as a deletion",
        ),
        pytest.param(
            draft(observed_at=EARLIER),
            close_fact(current(gone_at=EARLIER - 1), at=NOW, because="", state=FactState.DELETED),
            accepted(WriteOutcome.STORED),
            id="older than the record of a deletion, not than its observation",
        ),
        pytest.param(delete(), None, accepted(WriteOutcome.SKIPPED, rules.NOTHING_TO_DELETE), id="nothing to delete"),
        pytest.param(delete(), current(), accepted(WriteOutcome.DELETED), id="a delete deletes"),
        pytest.param(draft(""), None, rejected(rules.EMPTY_CONTENT), id="empty"),
        pytest.param(draft(" \n\t"), None, rejected(rules.EMPTY_CONTENT), id="white space"),
        pytest.param(draft("\u200b\u2060\x07"), None, rejected(rules.EMPTY_CONTENT), id="nothing to see"),
        pytest.param(draft("👍"), None, accepted(WriteOutcome.STORED), id="an emoji is something"),
        pytest.param(draft(topic="  "), None, rejected(rules.EMPTY_TOPIC), id="no topic"),
        pytest.param(
            draft(valid_from=NOW, valid_to=EARLIER), None, rejected(rules.VALIDITY_BACKWARDS), id="validity backwards"
        ),
        pytest.param(
            draft(valid_from=NOW, valid_to=NOW), None, accepted(WriteOutcome.STORED), id="a moment's validity"
        ),
        pytest.param(
            draft(authority=FactAuthority.ASSISTANT_SELF_CLAIM), None, rejected(rules.SELF_CLAIM), id="self-claim"
        ),
        pytest.param(
            delete(authority=FactAuthority.ASSISTANT_SELF_CLAIM),
            current(),
            rejected(rules.SELF_CLAIM),
            id="self-claim deletes",
        ),
        pytest.param(draft(observed_at=EARLIER), current(), rejected(rules.OLDER_OBSERVATION), id="older"),
        pytest.param(delete(observed_at=EARLIER), current(), rejected(rules.OLDER_OBSERVATION), id="older delete"),
        pytest.param(
            draft("black tea", observed_at=EARLIER),
            current(),
            accepted(WriteOutcome.CONFIRMED),
            id="older, but the same",
        ),
        pytest.param(
            draft(observed_at=None),
            current(observed_at=LATER),
            accepted(WriteOutcome.UPDATED),
            id="over a claim of the future",
        ),
        pytest.param(
            draft(observed_at=EARLIER),
            current(observed_at=LATER),
            rejected(rules.OLDER_OBSERVATION),
            id="older than the recording of a claim of the future",
        ),
        pytest.param(
            draft(observed_at=None),
            current(observed_at=LATER, recorded_at=LATER),
            accepted(WriteOutcome.UPDATED),
            id="over a recording of the future",
        ),
        pytest.param(
            draft(observed_at=Instant(NOW - 100_000)),
            current(observed_at=LATER, recorded_at=LATER),
            rejected(rules.OLDER_OBSERVATION),
            id="older than any clock that was ahead",
        ),
        pytest.param(draft(confidence=FactConfidence.LOW), current(), rejected(rules.LESS_SURE), id="low over medium"),
        pytest.param(
            draft(),
            current(authority=FactAuthority.USER_ASSERTED),
            rejected(rules.LESS_SURE),
            id="extracted over asserted",
        ),
        pytest.param(
            delete(), current(authority=FactAuthority.OPERATOR), rejected(rules.LESS_SURE), id="an unsure delete"
        ),
        pytest.param(
            draft(authority=FactAuthority.USER_ASSERTED, confidence=FactConfidence.LOW),
            current(confidence=FactConfidence.HIGH),
            accepted(WriteOutcome.UPDATED),
            id="the user's word is sure",
        ),
        pytest.param(
            draft("black tea", privacy=FactPrivacy.PUBLIC), current(), rejected(rules.PRIVACY_TRANSITION), id="opened"
        ),
        pytest.param(draft(privacy=FactPrivacy.PRIVATE), current(), rejected(rules.PRIVACY_TRANSITION), id="closed"),
        pytest.param(
            delete(),
            current(privacy=FactPrivacy.PRIVATE),
            accepted(WriteOutcome.DELETED),
            id="a delete moves no privacy",
        ),
    ],
)
def test_each_draft_is_judged_by_its_rule(proposed: FactDraft, known: Fact | None, judgement: FactJudgement) -> None:
    assert judge_fact(proposed, versions(known), at=NOW) == judgement


def versions(known: Fact | None) -> tuple[Fact, ...]:
    """Return a slot with only this version, or none."""
    return (known,) if known is not None else ()


DRAFTS = st.builds(
    FactDraft,
    operation=st.sampled_from(FactOperation),
    topic=st.sampled_from(["drink", " "]),
    content=st.sampled_from(["", "  ", "green tea", "GREEN  tea", "black tea"]),
    privacy=st.sampled_from(FactPrivacy),
    authority=st.sampled_from(FactAuthority),
    confidence=st.sampled_from(FactConfidence),
    observed_at=st.sampled_from([None, EARLIER, NOW, LATER]),
)
FACTS = st.builds(
    Fact,
    id=st.just(FactId("f1")),
    kind=st.just(FactKind.PREFERENCE),
    topic=st.just("drink"),
    content=st.sampled_from(["green tea", "black tea"]),
    privacy=st.sampled_from(FactPrivacy),
    authority=st.sampled_from(FactAuthority),
    confidence=st.sampled_from(FactConfidence),
    observed_at=st.sampled_from([EARLIER, NOW, LATER]),
    recorded_at=st.just(NOW),
    confirmed_at=st.just(NOW),
    state=st.sampled_from([FactState.ACTIVE, FactState.ACTIVE, FactState.FORGOTTEN]),
)


@given(DRAFTS, st.one_of(st.none(), FACTS))
def test_no_accepted_draft_ever_breaks_a_guard(proposed: FactDraft, known: Fact | None) -> None:
    made = judge_fact(proposed, versions(known), at=NOW)
    assert (made.verdict is AdmissionVerdict.ACCEPT) == (made.outcome is not WriteOutcome.REJECTED)
    assert made == judge_fact(proposed, versions(known), at=NOW)
    if made.verdict is not AdmissionVerdict.ACCEPT:
        assert made.reason
        return
    assert proposed.authority is not FactAuthority.ASSISTANT_SELF_CLAIM
    standing = known if known is not None and known.is_current else None
    if standing is None:
        assert made.outcome in {WriteOutcome.STORED, WriteOutcome.SKIPPED}
        return
    assert proposed.operation is FactOperation.DELETE or proposed.privacy is standing.privacy
    if made.outcome in {WriteOutcome.UPDATED, WriteOutcome.DELETED}:
        assert (proposed.observed_at or NOW) >= standing.observed_at
        sureness = rules.SURENESS[rules.effective_confidence(proposed)]
        assert sureness >= rules.SURENESS[standing.confidence]
        assert standing.authority not in rules.VOUCHED or sureness == rules.SURENESS[FactConfidence.HIGH]


@pytest.mark.parametrize("authority", list(FactAuthority))
def test_a_vouching_authority_makes_a_draft_certain(authority: FactAuthority) -> None:
    vouched = {FactAuthority.USER_ASSERTED, FactAuthority.OPERATOR, FactAuthority.PROGRAM, FactAuthority.RUNTIME}
    expected = FactConfidence.HIGH if authority in vouched else FactConfidence.LOW
    assert rules.effective_confidence(draft(authority=authority, confidence=FactConfidence.LOW)) is expected


def skill(content: str, *, topic: str = "kettle", title: str = "Descale") -> RuntimeSkillWrite:
    return RuntimeSkillWrite(name="descale", topic=topic, title=title, summary="", content=content)


def test_a_procedure_is_stored_and_anything_else_is_refused_with_a_reason() -> None:
    assert judge_skill(skill("Boil vinegar.")) == SkillJudgement(
        verdict=AdmissionVerdict.ACCEPT, outcome=WriteOutcome.STORED
    )
    for write, reason in (
        (skill(" "), rules.EMPTY),
        (skill('{"a": 1}'), rules.RAW),
        (skill("It was a nice day"), rules.WEAK),
        (skill("Boil vinegar.", topic=" "), rules.EMPTY_SKILL),
        (skill("Boil vinegar.", title="\u200b"), rules.EMPTY_SKILL),
    ):
        expected = SkillJudgement(verdict=AdmissionVerdict.REJECT, outcome=WriteOutcome.REJECTED, reason=reason)
        assert judge_skill(write) == expected
