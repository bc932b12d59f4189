"""Which drafts become facts and skills, and why not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elytron_core.clock import Instant
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.transcript import Outcome, RuntimeSkillWrite
from elytron_core.ids import FactId
from elytron_core.planes.candidates import Verdict
from elytron_core.planes.facts import Authority, Confidence, Fact, FactOperation, Kind, Privacy, State, close
from elytron_core.policy.admission import rules
from elytron_core.policy.admission.rules import FactJudgement, SkillJudgement, judge_fact, judge_skill

NOW = Instant(1_750_000_000_000)
EARLIER = Instant(NOW - 1_000)
LATER = Instant(NOW + 1_000)


def draft(content: str = "green tea", **fields: object) -> FactDraft:
    given = {"fact_kind": Kind.PREFERENCE, "topic": "drink", "content": content, "observed_at": NOW, **fields}
    return FactDraft.model_validate(given)


def current(content: str = "black tea", **fields: object) -> Fact:
    given = {"kind": Kind.PREFERENCE, "topic": "drink", "content": content, "id": FactId("f1"), **fields}
    return Fact.model_validate({"observed_at": NOW, "recorded_at": NOW, "confirmed_at": NOW, **given})


def delete(**fields: object) -> FactDraft:
    return draft("", operation=FactOperation.DELETE, **fields)


def accepted(outcome: Outcome, reason: str = "") -> FactJudgement:
    return FactJudgement(verdict=Verdict.ACCEPT, outcome=outcome, reason=reason)


def rejected(reason: str) -> FactJudgement:
    return FactJudgement(verdict=Verdict.REJECT, outcome=Outcome.REJECTED, reason=reason)


@pytest.mark.parametrize(
    ("proposed", "known", "judgement"),
    [
        pytest.param(draft(), None, accepted(Outcome.STORED), id="a new fact is stored"),
        pytest.param(draft(), current(), accepted(Outcome.UPDATED), id="another value updates"),
        pytest.param(draft("  Green\nTEA "), current("green tea"), accepted(Outcome.CONFIRMED), id="the same confirms"),
        pytest.param(draft("-5"), current("5"), accepted(Outcome.UPDATED), id="a sign is another value"),
        pytest.param(
            draft(),
            close(current(), at=NOW, because="", state=State.FORGOTTEN),
            accepted(Outcome.STORED),
            id="closed is none",
        ),
        pytest.param(
            draft(observed_at=EARLIER),
            close(current(), at=NOW, because="", state=State.DELETED),
            rejected(rules.OLDER_THAN_DELETION),
            id="older than a deletion",
        ),
        pytest.param(
            draft(),
            close(current(), at=NOW, because="", state=State.DELETED),
            accepted(Outcome.STORED),
            id="as late as a deletion",
        ),
        pytest.param(
            draft(observed_at=EARLIER),
            close(current(gone_at=EARLIER - 1), at=NOW, because="", state=State.DELETED),
            accepted(Outcome.STORED),
            id="older than the record of a deletion, not than its observation",
        ),
        pytest.param(delete(), None, accepted(Outcome.SKIPPED, rules.NOTHING_TO_DELETE), id="nothing to delete"),
        pytest.param(delete(), current(), accepted(Outcome.DELETED), id="a delete deletes"),
        pytest.param(draft(""), None, rejected(rules.EMPTY_CONTENT), id="empty"),
        pytest.param(draft(" \n\t"), None, rejected(rules.EMPTY_CONTENT), id="white space"),
        pytest.param(draft("\u200b\u2060\x07"), None, rejected(rules.EMPTY_CONTENT), id="nothing to see"),
        pytest.param(draft("👍"), None, accepted(Outcome.STORED), id="an emoji is something"),
        pytest.param(draft(topic="  "), None, rejected(rules.EMPTY_TOPIC), id="no topic"),
        pytest.param(
            draft(valid_from=NOW, valid_to=EARLIER), None, rejected(rules.VALIDITY_BACKWARDS), id="validity backwards"
        ),
        pytest.param(draft(valid_from=NOW, valid_to=NOW), None, accepted(Outcome.STORED), id="a moment's validity"),
        pytest.param(
            draft(authority=Authority.ASSISTANT_SELF_CLAIM), None, rejected(rules.SELF_CLAIM), id="self-claim"
        ),
        pytest.param(
            delete(authority=Authority.ASSISTANT_SELF_CLAIM),
            current(),
            rejected(rules.SELF_CLAIM),
            id="self-claim deletes",
        ),
        pytest.param(draft(observed_at=EARLIER), current(), rejected(rules.OLDER_OBSERVATION), id="older"),
        pytest.param(delete(observed_at=EARLIER), current(), rejected(rules.OLDER_OBSERVATION), id="older delete"),
        pytest.param(
            draft("black tea", observed_at=EARLIER), current(), accepted(Outcome.CONFIRMED), id="older, but the same"
        ),
        pytest.param(
            draft(observed_at=None), current(observed_at=LATER), rejected(rules.OLDER_OBSERVATION), id="now is older"
        ),
        pytest.param(draft(confidence=Confidence.LOW), current(), rejected(rules.LESS_SURE), id="low over medium"),
        pytest.param(
            draft(), current(authority=Authority.USER_ASSERTED), rejected(rules.LESS_SURE), id="extracted over asserted"
        ),
        pytest.param(delete(), current(authority=Authority.OPERATOR), rejected(rules.LESS_SURE), id="an unsure delete"),
        pytest.param(
            draft(authority=Authority.USER_ASSERTED, confidence=Confidence.LOW),
            current(confidence=Confidence.HIGH),
            accepted(Outcome.UPDATED),
            id="the user's word is sure",
        ),
        pytest.param(
            draft("black tea", privacy=Privacy.PUBLIC), current(), rejected(rules.PRIVACY_TRANSITION), id="opened"
        ),
        pytest.param(draft(privacy=Privacy.PRIVATE), current(), rejected(rules.PRIVACY_TRANSITION), id="closed"),
        pytest.param(
            delete(), current(privacy=Privacy.PRIVATE), accepted(Outcome.DELETED), id="a delete moves no privacy"
        ),
    ],
)
def test_each_draft_meets_its_rule(proposed: FactDraft, known: Fact | None, judgement: FactJudgement) -> None:
    assert judge_fact(proposed, versions(known), at=NOW) == judgement


def versions(known: Fact | None) -> tuple[Fact, ...]:
    """Return a slot with this version alone, or none."""
    return (known,) if known is not None else ()


DRAFTS = st.builds(
    FactDraft,
    operation=st.sampled_from(FactOperation),
    topic=st.sampled_from(["drink", " "]),
    content=st.sampled_from(["", "  ", "green tea", "GREEN  tea", "black tea"]),
    privacy=st.sampled_from(Privacy),
    authority=st.sampled_from(Authority),
    confidence=st.sampled_from(Confidence),
    observed_at=st.sampled_from([None, EARLIER, NOW, LATER]),
)
FACTS = st.builds(
    Fact,
    id=st.just(FactId("f1")),
    kind=st.just(Kind.PREFERENCE),
    topic=st.just("drink"),
    content=st.sampled_from(["green tea", "black tea"]),
    privacy=st.sampled_from(Privacy),
    authority=st.sampled_from(Authority),
    confidence=st.sampled_from(Confidence),
    observed_at=st.sampled_from([EARLIER, NOW, LATER]),
    recorded_at=st.just(NOW),
    confirmed_at=st.just(NOW),
    state=st.sampled_from([State.ACTIVE, State.ACTIVE, State.FORGOTTEN]),
)


@given(DRAFTS, st.one_of(st.none(), FACTS))
def test_no_accepted_draft_ever_breaks_a_guard(proposed: FactDraft, known: Fact | None) -> None:
    made = judge_fact(proposed, versions(known), at=NOW)
    assert (made.verdict is Verdict.ACCEPT) == (made.outcome is not Outcome.REJECTED)
    assert made == judge_fact(proposed, versions(known), at=NOW)
    if made.verdict is not Verdict.ACCEPT:
        assert made.reason
        return
    assert proposed.authority is not Authority.ASSISTANT_SELF_CLAIM
    standing = known if known is not None and known.is_current else None
    if standing is None:
        assert made.outcome in {Outcome.STORED, Outcome.SKIPPED}
        return
    assert proposed.operation is FactOperation.DELETE or proposed.privacy is standing.privacy
    if made.outcome in {Outcome.UPDATED, Outcome.DELETED}:
        assert (proposed.observed_at or NOW) >= standing.observed_at
        sureness = rules.SURENESS[rules.effective_confidence(proposed)]
        assert sureness >= rules.SURENESS[standing.confidence]
        assert standing.authority not in rules.VOUCHED or sureness == rules.SURENESS[Confidence.HIGH]


@pytest.mark.parametrize("authority", list(Authority))
def test_an_authority_that_vouches_makes_a_draft_sure(authority: Authority) -> None:
    vouched = {Authority.USER_ASSERTED, Authority.OPERATOR, Authority.PROGRAM, Authority.RUNTIME}
    expected = Confidence.HIGH if authority in vouched else Confidence.LOW
    assert rules.effective_confidence(draft(authority=authority, confidence=Confidence.LOW)) is expected


def skill(content: str, *, topic: str = "kettle", title: str = "Descale") -> RuntimeSkillWrite:
    return RuntimeSkillWrite(name="descale", topic=topic, title=title, summary="", content=content)


def test_a_procedure_is_stored_and_anything_else_is_refused_with_its_reason() -> None:
    assert judge_skill(skill("Boil vinegar.")) == SkillJudgement(verdict=Verdict.ACCEPT, outcome=Outcome.STORED)
    for write, reason in (
        (skill(" "), rules.EMPTY),
        (skill('{"a": 1}'), rules.RAW),
        (skill("It was a nice day"), rules.WEAK),
        (skill("Boil vinegar.", topic=" "), rules.EMPTY_SKILL),
        (skill("Boil vinegar.", title="\u200b"), rules.EMPTY_SKILL),
    ):
        expected = SkillJudgement(verdict=Verdict.REJECT, outcome=Outcome.REJECTED, reason=reason)
        assert judge_skill(write) == expected
