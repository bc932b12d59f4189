"""What becomes of candidates: rules refuse, judgements decide, and nothing is accepted by itself."""

from collections.abc import Mapping

import pytest

from elytron_core.evidence import EvidenceAuthority as Authority
from elytron_core.evidence import Role
from elytron_core.planes import facts
from elytron_core.planes.candidates import CandidateDraft, Judgement, OriginTag, Verdict
from elytron_core.policy.admission import candidates
from elytron_core.policy.admission.candidates import Cited
from elytron_core.policy.projection.builder import POLICY

YES = Judgement(verdict=Verdict.ACCEPT)
SAID = (Cited(Role.USER, is_readable=True),)
FACT = {"target": "long_term", "topic": "tea", "content": "likes green tea"}
SKILL = {"target": "procedural", "name": "brew", "topic": "tea", "title": "Brew", "content": "1. Heat.\n2. Pour."}


def draft(proposal: Mapping[str, object] = FACT, **more: object) -> CandidateDraft:
    fields = {"proposal": proposal, "authority": Authority.USER_ASSERTED, "judgement": YES, **more}
    return CandidateDraft.model_validate(fields)


CASES = {
    "accepted": (draft(), Verdict.ACCEPT, ""),
    "accepted_on_evidence": (draft(authority=Authority.WORLD_OBSERVATION, citations=("t",)), Verdict.ACCEPT, ""),
    "no_judgement": (draft(judgement=None), Verdict.DEFER, candidates.NO_JUDGEMENT),
    "judged_no": (draft(judgement=Judgement(verdict=Verdict.REJECT, reason="doubtful")), Verdict.REJECT, "doubtful"),
    "empty": (draft({**FACT, "content": " \u200b"}), Verdict.REJECT, candidates.EMPTY),
    "no_topic": (draft({**FACT, "topic": ""}), Verdict.REJECT, candidates.EMPTY),
    "self_claim": (draft(authority=Authority.ASSISTANT_SELF_CLAIM), Verdict.REJECT, candidates.SELF_CLAIM),
    "utterance": (draft(authority=Authority.ASSISTANT_UTTERANCE), Verdict.REJECT, candidates.SELF_CLAIM),
    "assistant_text": (draft(origins=(OriginTag.ASSISTANT,)), Verdict.REJECT, candidates.SELF_CLAIM),
    "private_word": (draft(authority=Authority.PRIVATE_GARDEN_INTERNAL), Verdict.REJECT, candidates.PRIVATE_MATERIAL),
    "diagnostic_word": (draft(authority=Authority.OPERATOR_DIAGNOSTIC), Verdict.HANDOFF, candidates.FOR_THE_OPERATOR),
    "external": (draft(authority=Authority.EXTERNAL_CONTENT), Verdict.DEFER, candidates.UNSURE_SOURCE),
    "external_text": (draft(origins=(OriginTag.USER, OriginTag.EXTERNAL)), Verdict.DEFER, candidates.UNSURE_SOURCE),
    "legacy": (draft(authority=Authority.LEGACY_TRANSCRIPT), Verdict.DEFER, candidates.UNSURE_SOURCE),
    "own_projection": (draft(authority=Authority.SUBJECT_PROJECTION), Verdict.REJECT, candidates.OWN_OUTPUT),
    "no_evidence": (draft(authority=Authority.ARCHIVE_EVIDENCE), Verdict.DEFER, candidates.NO_EVIDENCE),
    "too_long": (draft({**FACT, "content": "ä" * 121}), Verdict.REJECT, "its content has more than 240 bytes"),
    "long_topic": (draft({**FACT, "topic": "t" * 41}), Verdict.REJECT, "its topic has more than 40 characters"),
    "keywords": (
        draft({**FACT, "keywords": ("k" * 25,)}),
        Verdict.REJECT,
        "it has more than 8 keywords of 24 characters",
    ),
    "citations": (draft(citations=tuple("abcdefg")), Verdict.REJECT, "it cites more than 6 places of 96 characters"),
    "garden": (
        draft({"target": "private_garden", "role": "diary", "name": "d", "text": "dear"}),
        Verdict.DEFER,
        candidates.GARDEN_WAITS,
    ),
    "soul": (
        draft({"target": "soul", "surface": "values", "content": "be kind"}),
        Verdict.HANDOFF,
        candidates.SOUL_KEEPER,
    ),
    "operator": (
        draft({"target": "operator_diagnostic", "topic": "disk", "content": "it is full"}),
        Verdict.HANDOFF,
        candidates.FOR_THE_OPERATOR,
    ),
    "assistants_skill": (draft(SKILL, authority=Authority.ASSISTANT_UTTERANCE), Verdict.DEFER, candidates.NO_EVIDENCE),
    "delete_by_topic": (draft({**FACT, "operation": "delete", "content": ""}), Verdict.ACCEPT, ""),
}


@pytest.mark.parametrize("name", CASES)
def test_each_rule_says_its_verdict_and_why(name: str) -> None:
    given, verdict, reason = CASES[name]
    assert candidates.judge(given, SAID if given.citations else ()) == Judgement(verdict=verdict, reason=reason)


@pytest.mark.parametrize("origin", sorted(candidates.NEVER_EXTRACTED))
def test_text_of_machines_is_never_extracted(origin: OriginTag) -> None:
    judged = candidates.judge(draft(origins=(OriginTag.USER, origin)), ())
    assert judged == Judgement(verdict=Verdict.REJECT, reason=f"{origin.value} text is never extracted")


@pytest.mark.parametrize("told", [f"{POLICY}\nlikes tea", "<memory-0123456789abcdef> likes tea"])
def test_what_memory_showed_is_no_candidate(told: str) -> None:
    judged = candidates.judge(draft({**FACT, "content": told}), ())
    assert (judged.verdict, judged.reason) == (Verdict.REJECT, candidates.OWN_OUTPUT)


def test_a_fact_rests_on_what_a_user_said_and_may_still_be_read() -> None:
    cites = draft(citations=("t",))
    assert candidates.judge(cites, (Cited(Role.ASSISTANT, is_readable=True),)).reason == candidates.SELF_CLAIM
    assert candidates.judge(cites, (Cited(Role.USER, is_readable=False),)).reason == candidates.EVIDENCE_GONE
    assert candidates.judge(cites, ()).reason == candidates.EVIDENCE_GONE
    both = (Cited(Role.ASSISTANT, is_readable=True), Cited(Role.USER, is_readable=True))
    assert candidates.judge(cites, both) == YES
    observed = draft(citations=("t",), authority=Authority.RUNTIME_OBSERVATION)
    assert candidates.judge(observed, (Cited(Role.TOOL, is_readable=True),)) == YES


def test_who_vouches_for_a_fact_follows_from_whose_word_it_is() -> None:
    assert candidates.fact_authority(Authority.USER_ASSERTED) is facts.Authority.USER_ASSERTED
    assert candidates.fact_authority(Authority.PROGRAM_MEMORY_CANONICAL) is facts.Authority.PROGRAM
    assert candidates.fact_authority(Authority.ARCHIVE_EVIDENCE) is facts.Authority.EXTRACTED
    assert candidates.fact_authority(Authority.LEGACY_TRANSCRIPT) is facts.Authority.IMPORTED
