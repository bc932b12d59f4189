"""What becomes of candidates: rules refuse, judgements decide, and nothing is accepted automatically."""

from collections.abc import Mapping

import pytest

from elytron_core.evidence import EvidenceAuthority as Authority
from elytron_core.evidence import EvidenceRole
from elytron_core.planes import facts
from elytron_core.planes.candidates import AdmissionVerdict, CandidateDraft, CandidateJudgement, OriginTag
from elytron_core.policy.admission import candidates
from elytron_core.policy.admission.candidates import CitedSource
from elytron_core.policy.projection.builder import POLICY

YES = CandidateJudgement(verdict=AdmissionVerdict.ACCEPT)
SAID = (CitedSource(EvidenceRole.USER, is_readable=True),)
FACT = {"target": "long_term", "topic": "tea", "content": "likes green tea"}
SKILL = {"target": "procedural", "name": "brew", "topic": "tea", "title": "Brew", "content": "1. Heat.\n2. Pour."}


def draft(proposal: Mapping[str, object] = FACT, **more: object) -> CandidateDraft:
    fields = {"proposal": proposal, "authority": Authority.USER_ASSERTED, "judgement": YES, **more}
    return CandidateDraft.model_validate(fields)


CASES = {
    "accepted": (draft(), AdmissionVerdict.ACCEPT, ""),
    "accepted_on_evidence": (
        draft(authority=Authority.WORLD_OBSERVATION, citations=("t",)),
        AdmissionVerdict.ACCEPT,
        "",
    ),
    "no_judgement": (draft(judgement=None), AdmissionVerdict.DEFER, candidates.NO_JUDGEMENT),
    "judged_no": (
        draft(judgement=CandidateJudgement(verdict=AdmissionVerdict.REJECT, reason="doubtful")),
        AdmissionVerdict.REJECT,
        "doubtful",
    ),
    "empty": (draft({**FACT, "content": " \u200b"}), AdmissionVerdict.REJECT, candidates.EMPTY),
    "no_topic": (draft({**FACT, "topic": ""}), AdmissionVerdict.REJECT, candidates.EMPTY),
    "self_claim": (draft(authority=Authority.ASSISTANT_SELF_CLAIM), AdmissionVerdict.REJECT, candidates.SELF_CLAIM),
    "utterance": (draft(authority=Authority.ASSISTANT_UTTERANCE), AdmissionVerdict.REJECT, candidates.SELF_CLAIM),
    "assistant_text": (draft(origins=(OriginTag.ASSISTANT,)), AdmissionVerdict.REJECT, candidates.SELF_CLAIM),
    "private_word": (
        draft(authority=Authority.PRIVATE_GARDEN_INTERNAL),
        AdmissionVerdict.REJECT,
        candidates.PRIVATE_MATERIAL,
    ),
    "diagnostic_word": (
        draft(authority=Authority.OPERATOR_DIAGNOSTIC),
        AdmissionVerdict.HANDOFF,
        candidates.FOR_THE_OPERATOR,
    ),
    "external": (draft(authority=Authority.EXTERNAL_CONTENT), AdmissionVerdict.DEFER, candidates.UNSURE_SOURCE),
    "external_text": (
        draft(origins=(OriginTag.USER, OriginTag.EXTERNAL)),
        AdmissionVerdict.DEFER,
        candidates.UNSURE_SOURCE,
    ),
    "legacy": (draft(authority=Authority.LEGACY_TRANSCRIPT), AdmissionVerdict.DEFER, candidates.UNSURE_SOURCE),
    "own_projection": (draft(authority=Authority.SUBJECT_PROJECTION), AdmissionVerdict.REJECT, candidates.OWN_OUTPUT),
    "no_evidence": (draft(authority=Authority.ARCHIVE_EVIDENCE), AdmissionVerdict.DEFER, candidates.NO_EVIDENCE),
    "too_long": (draft({**FACT, "content": "ä" * 121}), AdmissionVerdict.REJECT, "its content has more than 240 bytes"),
    "long_topic": (
        draft({**FACT, "topic": "t" * 41}),
        AdmissionVerdict.REJECT,
        "its topic has more than 40 characters",
    ),
    "keywords": (
        draft({**FACT, "keywords": ("k" * 25,)}),
        AdmissionVerdict.REJECT,
        "it exceeds 8 keywords of 24 characters",
    ),
    "citations": (
        draft(citations=tuple("abcdefg")),
        AdmissionVerdict.REJECT,
        "it exceeds 6 citations of 96 characters",
    ),
    "garden": (
        draft({"target": "private_garden", "role": "diary", "name": "d", "text": "dear"}),
        AdmissionVerdict.DEFER,
        candidates.GARDEN_WAITS,
    ),
    "soul": (
        draft({"target": "soul", "surface": "values", "content": "be kind"}),
        AdmissionVerdict.HANDOFF,
        candidates.SOUL_KEEPER,
    ),
    "operator": (
        draft({"target": "operator_diagnostic", "topic": "disk", "content": "it is full"}),
        AdmissionVerdict.HANDOFF,
        candidates.FOR_THE_OPERATOR,
    ),
    "assistants_skill": (
        draft(SKILL, authority=Authority.ASSISTANT_UTTERANCE),
        AdmissionVerdict.DEFER,
        candidates.NO_EVIDENCE,
    ),
    "delete_by_topic": (draft({**FACT, "operation": "delete", "content": ""}), AdmissionVerdict.ACCEPT, ""),
}


@pytest.mark.parametrize("name", CASES)
def test_each_rule_returns_a_verdict_and_a_reason(name: str) -> None:
    given, verdict, reason = CASES[name]
    assert candidates.judge_candidate(given, SAID if given.citations else ()) == CandidateJudgement(
        verdict=verdict, reason=reason
    )


@pytest.mark.parametrize("origin", sorted(candidates.NEVER_EXTRACTED))
def test_machine_generated_text_is_never_extracted(origin: OriginTag) -> None:
    judged = candidates.judge_candidate(draft(origins=(OriginTag.USER, origin)), ())
    assert judged == CandidateJudgement(
        verdict=AdmissionVerdict.REJECT, reason=f"{origin.value} text is never extracted"
    )


@pytest.mark.parametrize("told", [f"{POLICY}\nlikes tea", "<memory-0123456789abcdef> likes tea"])
def test_text_shown_by_memory_is_not_a_candidate(told: str) -> None:
    judged = candidates.judge_candidate(draft({**FACT, "content": told}), ())
    assert (judged.verdict, judged.reason) == (AdmissionVerdict.REJECT, candidates.OWN_OUTPUT)


def test_a_fact_needs_a_readable_message_of_a_user() -> None:
    cites = draft(citations=("t",))
    assert (
        candidates.judge_candidate(cites, (CitedSource(EvidenceRole.ASSISTANT, is_readable=True),)).reason
        == candidates.SELF_CLAIM
    )
    assert (
        candidates.judge_candidate(cites, (CitedSource(EvidenceRole.USER, is_readable=False),)).reason
        == candidates.EVIDENCE_GONE
    )
    assert candidates.judge_candidate(cites, ()).reason == candidates.EVIDENCE_GONE
    both = (CitedSource(EvidenceRole.ASSISTANT, is_readable=True), CitedSource(EvidenceRole.USER, is_readable=True))
    assert candidates.judge_candidate(cites, both) == YES
    observed = draft(citations=("t",), authority=Authority.RUNTIME_OBSERVATION)
    assert candidates.judge_candidate(observed, (CitedSource(EvidenceRole.TOOL, is_readable=True),)) == YES


def test_the_authority_of_a_fact_follows_from_its_speaker() -> None:
    assert candidates.fact_authority(Authority.USER_ASSERTED) is facts.FactAuthority.USER_ASSERTED
    assert candidates.fact_authority(Authority.PROGRAM_MEMORY_CANONICAL) is facts.FactAuthority.PROGRAM
    assert candidates.fact_authority(Authority.ARCHIVE_EVIDENCE) is facts.FactAuthority.EXTRACTED
    assert candidates.fact_authority(Authority.LEGACY_TRANSCRIPT) is facts.FactAuthority.IMPORTED
