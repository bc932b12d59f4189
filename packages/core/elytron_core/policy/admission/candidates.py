"""Verdicts on a candidate: reject, defer, hand over, or pass to the merge guards of its plane.

Rules run first and can only refuse. What passes them follows the judgement that came with the candidate, or waits if
there was none.
"""

from typing import Final, NamedTuple, assert_never

from elytron_core import limits
from elytron_core.evidence import PRIVATE, EvidenceAuthority, EvidenceRole, TrustLevel
from elytron_core.planes import candidates, facts
from elytron_core.planes.candidates import AdmissionVerdict, CandidateDraft, OriginTag
from elytron_core.policy.admission.own_output import is_own_output
from elytron_core.text import similarity

CANDIDATE_FACT_BYTES: Final = 240
CANDIDATE_KEYWORDS: Final = 8
CANDIDATE_KEYWORD_CHARS: Final = 24
CANDIDATE_CITATION_CHARS: Final = 96


NEVER_EXTRACTED: Final = frozenset({OriginTag.TOOL, OriginTag.SYSTEM, OriginTag.RECALLED, OriginTag.INJECTED})
SELF_CLAIMS: Final = frozenset({EvidenceAuthority.ASSISTANT_SELF_CLAIM, EvidenceAuthority.ASSISTANT_UTTERANCE})
VOUCHED: Final = {
    EvidenceAuthority.USER_ASSERTED: facts.FactAuthority.USER_ASSERTED,
    EvidenceAuthority.RUNTIME_OBSERVATION: facts.FactAuthority.RUNTIME,
    EvidenceAuthority.PROGRAM_MEMORY_CANONICAL: facts.FactAuthority.PROGRAM,
}
"""Authorities that count as high confidence and require no cited turn."""
VOUCHED_BY_MACHINES: Final = frozenset(VOUCHED) - {EvidenceAuthority.USER_ASSERTED}
"""Authorities that may vouch for text of a tool or a page; a user's word only covers the user's messages."""
UNSURE: Final = frozenset({EvidenceAuthority.EXTERNAL_CONTENT, EvidenceAuthority.LEGACY_TRANSCRIPT})

EMPTY: Final = "it has no content"
OWN_OUTPUT: Final = "it repeats what this memory showed"
SELF_CLAIM: Final = "assistant self-claims are evidence, not facts"
PRIVATE_MATERIAL: Final = "private material never becomes a shared belief"
GARDEN_WAITS: Final = "a private document needs the user's approval"
SOUL_KEEPER: Final = "only its keeper may define a persona"
FOR_THE_OPERATOR: Final = "it concerns the operator and is not a belief"
UNSURE_SOURCE: Final = "its source is not vouched for"
NO_EVIDENCE: Final = "it cites no stored evidence"
EVIDENCE_GONE: Final = "the evidence it cites no longer exists"
NO_JUDGEMENT: Final = "it has not been judged yet"


class CitedSource(NamedTuple):
    """A cited turn or message: its authority, and whether it may still be read."""

    role: EvidenceRole
    is_readable: bool
    trust: TrustLevel = TrustLevel.VOUCHED


def judge_candidate(draft: CandidateDraft, cited_sources: tuple[CitedSource, ...], /) -> candidates.CandidateJudgement:
    """Return the judgement of `draft`; `cited_sources` are those of its citations that name an existing message."""
    text = _draft_text(draft)
    has_no_topic = isinstance(draft.proposal, candidates.FactProposal) and similarity.is_blank(draft.proposal.topic)
    if similarity.is_blank(text) or has_no_topic:
        return _make_judgement(AdmissionVerdict.REJECT, EMPTY)
    # Checked before anything is handed over, so that no keeper receives text without an author.
    refusal = (
        _authorless_rejection(draft, text)
        or _handed_over(draft)
        or _by_authority(draft)
        or _by_evidence(draft, cited_sources)
    )
    if refusal is not None:
        return refusal
    if isinstance(draft.proposal, candidates.FactProposal) and (reason := _too_long(draft, draft.proposal)):
        return _make_judgement(AdmissionVerdict.REJECT, reason)
    return draft.judgement if draft.judgement is not None else _make_judgement(AdmissionVerdict.DEFER, NO_JUDGEMENT)


def fact_authority(authority: EvidenceAuthority, /) -> facts.FactAuthority:
    """Return the source of a fact with `authority`."""
    if authority in UNSURE:
        return facts.FactAuthority.IMPORTED
    return VOUCHED.get(authority, facts.FactAuthority.EXTRACTED)


def _authorless_rejection(draft: CandidateDraft, text: str) -> candidates.CandidateJudgement | None:
    """Return the rejection of text without an author: memory's own output, and machine output."""
    if is_own_output(text) or draft.authority is EvidenceAuthority.SUBJECT_PROJECTION:
        return _make_judgement(AdmissionVerdict.REJECT, OWN_OUTPUT)
    for origin_tag in draft.origins:
        if origin_tag in NEVER_EXTRACTED:
            return _make_judgement(AdmissionVerdict.REJECT, f"{origin_tag.value} text is never extracted")
    return None


def _handed_over(draft: CandidateDraft) -> candidates.CandidateJudgement | None:
    match draft.proposal:
        case candidates.SoulProposal():
            return _make_judgement(AdmissionVerdict.HANDOFF, SOUL_KEEPER)
        case candidates.DiagnosticProposal():
            return _make_judgement(AdmissionVerdict.HANDOFF, FOR_THE_OPERATOR)
        case candidates.GardenProposal():
            return _make_judgement(AdmissionVerdict.DEFER, GARDEN_WAITS)
        case candidates.FactProposal() | candidates.SkillProposal():
            return None
        case _:
            assert_never(draft.proposal)


def _by_authority(draft: CandidateDraft) -> candidates.CandidateJudgement | None:
    is_fact = isinstance(draft.proposal, candidates.FactProposal)
    if is_fact and (draft.authority in SELF_CLAIMS or OriginTag.ASSISTANT in draft.origins):
        return _make_judgement(AdmissionVerdict.REJECT, SELF_CLAIM)
    if draft.authority in PRIVATE:
        return _make_judgement(AdmissionVerdict.REJECT, PRIVATE_MATERIAL)
    if draft.authority is EvidenceAuthority.OPERATOR_DIAGNOSTIC:
        return _make_judgement(AdmissionVerdict.HANDOFF, FOR_THE_OPERATOR)
    if draft.authority in UNSURE or OriginTag.EXTERNAL in draft.origins:
        return _make_judgement(AdmissionVerdict.DEFER, UNSURE_SOURCE)
    return None


def _by_evidence(draft: CandidateDraft, cited_sources: tuple[CitedSource, ...]) -> candidates.CandidateJudgement | None:
    if not draft.citations:
        return None if draft.authority in VOUCHED else _make_judgement(AdmissionVerdict.DEFER, NO_EVIDENCE)
    readable_sources = [source for source in cited_sources if source.is_readable]
    if not readable_sources:
        return _make_judgement(AdmissionVerdict.DEFER, EVIDENCE_GONE)
    is_fact = isinstance(draft.proposal, candidates.FactProposal)
    # Words of no user are the assistant's, unless the runtime observed them.
    if (
        is_fact
        and all(source.role is not EvidenceRole.USER for source in readable_sources)
        and draft.authority is not EvidenceAuthority.RUNTIME_OBSERVATION
    ):
        return _make_judgement(AdmissionVerdict.REJECT, SELF_CLAIM)
    if draft.authority not in VOUCHED_BY_MACHINES and all(
        source.trust is TrustLevel.OUTSIDE for source in readable_sources
    ):
        return _make_judgement(AdmissionVerdict.DEFER, UNSURE_SOURCE)
    return None


def _too_long(draft: CandidateDraft, proposal: candidates.FactProposal) -> str:
    """Return the parts of a fact extracted from talk that exceed their limits; empty if none does."""
    if len(proposal.content.encode()) > CANDIDATE_FACT_BYTES:
        return f"its content has more than {CANDIDATE_FACT_BYTES} bytes"
    if len(proposal.topic) > limits.CANDIDATE_TOPIC_CHARS:
        return f"its topic has more than {limits.CANDIDATE_TOPIC_CHARS} characters"
    keywords = proposal.keywords
    if len(keywords) > CANDIDATE_KEYWORDS or any(len(keyword) > CANDIDATE_KEYWORD_CHARS for keyword in keywords):
        return f"it exceeds {CANDIDATE_KEYWORDS} keywords of {CANDIDATE_KEYWORD_CHARS} characters"
    citations = draft.citations
    if len(citations) > limits.CANDIDATE_CITATIONS or any(
        len(citation) > CANDIDATE_CITATION_CHARS for citation in citations
    ):
        return f"it exceeds {limits.CANDIDATE_CITATIONS} citations of {CANDIDATE_CITATION_CHARS} characters"
    return ""


def _draft_text(draft: CandidateDraft) -> str:
    match draft.proposal:
        case candidates.FactProposal(operation=operation, topic=topic, content=content):
            return topic if operation is facts.FactOperation.DELETE else content
        case candidates.GardenProposal(text=text):
            return text
        case candidates.SkillProposal() | candidates.SoulProposal() | candidates.DiagnosticProposal():
            return draft.proposal.content
        case _:
            assert_never(draft.proposal)


def _make_judgement(verdict: AdmissionVerdict, reason: str) -> candidates.CandidateJudgement:
    return candidates.CandidateJudgement(verdict=verdict, reason=reason)
