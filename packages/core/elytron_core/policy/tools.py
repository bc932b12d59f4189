"""Tool experience: which feedback becomes experience, and which experience becomes a hint.

Feedback is judged in this order, the first that holds decides:

1. the reuse did not fit: low confidence;
2. the registry is unknown or has another fingerprint, the observations are of several tools or schemas, or the tool is
   not in the registry under that schema: schema drift;
3. private content was used: privacy;
4. nothing succeeded: low confidence;
5. one success, and no operator's note: deferred until it is repeated, in this feedback or a later one;
6. else accepted, with high confidence for an operator's note or three successes, else medium.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.tools import (
    AgentToolHint,
    AgentToolRegistryReport,
    AgentToolRejection,
    AgentToolUsageFeedback,
    ExperienceDecision,
    ExperienceReason,
    HintRejection,
    RegistryRefusal,
    ToolExperienceStatus,
    ToolOutcome,
)
from elytron_core.model import Value
from elytron_core.planes.skills import ReuseOutcome
from elytron_core.planes.tools import (
    NAMED_SCOPES,
    AgentToolDescriptor,
    AgentToolRegistryRef,
    AgentToolRegistrySnapshot,
    ExperienceConfidence,
    ExperienceStatus,
    ToolExperience,
)
from elytron_core.policy.admission import rules
from elytron_core.text import similarity

TOOL_HINTS: Final = 8
TOOL_REJECTIONS: Final = 64


_OFFSET: Final = 0xCBF29CE484222325
_PRIME: Final = 0x100000001B3
_MASK: Final = 0xFFFFFFFFFFFFFFFF


def fnv1a_64(data: bytes, /) -> int:
    """Return the FNV-1a hash of `data`, 64 bits."""
    hash_value = _OFFSET
    for byte in data:
        hash_value = (hash_value ^ byte) * _PRIME & _MASK
    return hash_value


def descriptor_fingerprint(tool: AgentToolDescriptor, /) -> str:
    """Return the fingerprint of a tool's description, ignoring the one that it states."""
    return _fields_digest(
        (
            tool.tool_id,
            tool.display_name,
            tool.version or "",
            tool.schema_fingerprint,
            *sorted(tool.permission_tags),
            *sorted(tool.risk_tags),
            *sorted(tool.tool_groups),
            "disabled" if tool.disabled else "enabled",
        )
    )


def registry_fingerprint(snapshot: AgentToolRegistrySnapshot, /) -> str:
    """Return the fingerprint of a registry, independent of the one in the snapshot and of the tools' order."""
    tool_fields = sorted(
        (tool.tool_id, tool.schema_fingerprint, descriptor_fingerprint(tool)) for tool in snapshot.tools
    )
    scope = f"{snapshot.scope.value}:{snapshot.scope_id}" if snapshot.scope in NAMED_SCOPES else snapshot.scope.value
    registry_fields = (snapshot.registry_id, snapshot.namespace, snapshot.owner.value.replace("_", "-"), scope)
    return _fields_digest((*registry_fields, *(field for tool in tool_fields for field in tool)))


def with_fingerprints(snapshot: AgentToolRegistrySnapshot, /) -> AgentToolRegistrySnapshot:
    """Return `snapshot` with computed fingerprints for it and its tools.

    >>> read = elytron.AgentToolDescriptor(tool_id="read_file", schema_fingerprint="schema-1")
    >>> snapshot = elytron.AgentToolRegistrySnapshot(registry_id="host-tools", namespace="desk", tools=(read,))
    >>> elytron.with_fingerprints(snapshot).fingerprint
    'e121e488462cf6b5'
    """
    tools = tuple(
        tool.model_copy(update={"descriptor_fingerprint": descriptor_fingerprint(tool)}) for tool in snapshot.tools
    )
    return snapshot.model_copy(update={"tools": tools, "fingerprint": registry_fingerprint(snapshot)})


def _fields_digest(fields: Iterable[str]) -> str:
    return f"{fnv1a_64(b''.join(map(_frame_field, fields))):016x}"


def _frame_field(field: str) -> bytes:
    field_bytes = field.encode("utf-8")
    # Lengths separate the fields: otherwise fields divided differently would have the same hash.
    return b"%d:%b|" % (len(field_bytes), field_bytes)


REPEATED: Final = 2
SURE: Final = 3
"""Successes from which an experience is certain without a person's confirmation."""

MISMATCH: Final = "agent_tool_feedback_reuse_outcome_mismatch"
UNKNOWN_REGISTRY: Final = "agent_tool_registry_not_found"
OTHER_FINGERPRINT: Final = "agent_tool_registry_fingerprint_mismatch"
MIXED: Final = "agent_tool_feedback_mixed_registry_tool_or_schema"
UNKNOWN_TOOL: Final = "agent_tool_feedback_tool_not_in_registry"
OTHER_SCHEMA: Final = "agent_tool_feedback_schema_fingerprint_mismatch"
PRIVATE: Final = "agent_tool_feedback_private_content_requires_private_governance"
NO_SUCCESS: Final = "agent_tool_feedback_has_no_successful_observation"
ONCE: Final = "agent_tool_feedback_requires_repeated_success_or_operator_confirmation"
ACCEPTED: Final = "agent_tool_feedback_accepted_as_governed_experience"

_SURENESS = {ExperienceConfidence.LOW: 0, ExperienceConfidence.MEDIUM: 1, ExperienceConfidence.HIGH: 2}


class FeedbackJudgement(Value):
    """Verdict of governance on feedback, and why; `experience` is to be stored, if any."""

    decision: ExperienceDecision
    reason: str
    experience: ToolExperience | None = None


def registry_refusal(snapshot: AgentToolRegistrySnapshot, /) -> RegistryRefusal | None:
    """Return why `snapshot` is invalid, or None."""
    ids = [tool.tool_id for tool in snapshot.tools]
    # Experience is stored by a tool's id, so two tools of one id would share it.
    if len(set(ids)) != len(ids):
        return RegistryRefusal.DUPLICATE_TOOL
    if any(tool.descriptor_fingerprint not in {None, descriptor_fingerprint(tool)} for tool in snapshot.tools):
        return RegistryRefusal.DESCRIPTOR_MISMATCH
    if snapshot.fingerprint != registry_fingerprint(snapshot):
        return RegistryRefusal.FINGERPRINT_MISMATCH
    return None


def judge_feedback(
    feedback: AgentToolUsageFeedback,
    registry: AgentToolRegistrySnapshot | None,
    experience: ToolExperience | None,
    *,
    at: Instant,
) -> FeedbackJudgement:
    """Return the judgement of `feedback` given the `experience` with its tool, schema and task.

    Feedback that did not fit makes a known experience unsure, and is no experience itself.
    """
    low_confidence = ExperienceDecision.REJECTED_BY_LOW_CONFIDENCE
    if feedback.reuse_outcome is ReuseOutcome.MISMATCH:
        # Drifted feedback is about another contract and casts no doubt on this one.
        doubted_experience = (
            _doubt_experience(experience, at=at)
            if experience is not None and _feedback_drift(feedback, registry) is None
            else None
        )
        return FeedbackJudgement(decision=low_confidence, reason=MISMATCH, experience=doubted_experience)
    drift = _feedback_drift(feedback, registry)
    if drift is not None:
        return FeedbackJudgement(decision=ExperienceDecision.REJECTED_BY_SCHEMA_DRIFT, reason=drift)
    if any(observation.private_content_used for observation in feedback.observations):
        return FeedbackJudgement(decision=ExperienceDecision.REJECTED_BY_PRIVACY, reason=PRIVATE)
    outcomes = [observation.outcome for observation in feedback.observations]
    if ToolOutcome.SUCCEEDED not in outcomes:
        return FeedbackJudgement(decision=low_confidence, reason=NO_SUCCESS)
    return _learn_feedback(feedback, experience, outcomes, at=at)


def _feedback_drift(feedback: AgentToolUsageFeedback, registry: AgentToolRegistrySnapshot | None) -> str | None:
    """Return how `feedback` differs from what is registered, or None."""
    if registry is None or not _same_place(feedback.registry_ref, registry):
        return UNKNOWN_REGISTRY
    if feedback.registry_ref.fingerprint != registry.fingerprint:
        return OTHER_FINGERPRINT
    observed_schemas = {(observation.tool_id, observation.schema_fingerprint) for observation in feedback.observations}
    if len(observed_schemas) > 1:
        return MIXED
    for tool_id, schema in observed_schemas:
        tool = registry.tool(tool_id)
        if tool is None:
            return UNKNOWN_TOOL
        if tool.schema_fingerprint != schema:
            return OTHER_SCHEMA
    return None


def _same_place(ref: AgentToolRegistryRef, registry: AgentToolRegistrySnapshot) -> bool:
    referenced_place = (ref.registry_id, ref.scope, ref.scope_id)
    return referenced_place == (registry.registry_id, registry.scope, registry.scope_id)


def _doubt_experience(experience: ToolExperience, *, at: Instant) -> ToolExperience:
    changed_fields = {
        "mismatch_count": experience.mismatch_count + 1,
        "confidence": ExperienceConfidence.LOW,
        "updated_at": at,
    }
    return experience.model_copy(update=changed_fields)


def _learn_feedback(
    feedback: AgentToolUsageFeedback,
    earlier_experience: ToolExperience | None,
    outcomes: Sequence[ToolOutcome],
    *,
    at: Instant,
) -> FeedbackJudgement:
    first_observation = feedback.observations[0]
    new_successes = outcomes.count(ToolOutcome.SUCCEEDED)
    success_count = new_successes + (earlier_experience.success_count if earlier_experience is not None else 0)
    has_note = not similarity.is_blank(feedback.operator_note or "")
    is_accepted = has_note or success_count >= REPEATED
    confidence = ExperienceConfidence.LOW
    if is_accepted:
        confidence = ExperienceConfidence.HIGH if has_note or success_count >= SURE else ExperienceConfidence.MEDIUM
    summary = kept_words(feedback.user_visible_result_summary or "") or kept_words(first_observation.summary)
    experience = ToolExperience(
        registry_id=feedback.registry_ref.registry_id,
        tool_id=first_observation.tool_id,
        schema_fingerprint=first_observation.schema_fingerprint,
        task_signature=first_observation.task_signature,
        reason=summary or (earlier_experience.reason if earlier_experience is not None else ""),
        guidance=kept_words(feedback.operator_note or "")
        or (earlier_experience.guidance if earlier_experience is not None else ""),
        success_count=success_count,
        failure_count=len(outcomes)
        - new_successes
        + (earlier_experience.failure_count if earlier_experience is not None else 0),
        mismatch_count=earlier_experience.mismatch_count if earlier_experience is not None else 0,
        confidence=confidence,
        status=ExperienceStatus.ACTIVE if is_accepted else ExperienceStatus.CANDIDATE,
        created_at=earlier_experience.created_at if earlier_experience is not None else at,
        # Feedback does not restore what was forgotten.
        forgotten_at=earlier_experience.forgotten_at if earlier_experience is not None else None,
        updated_at=at,
    )
    if not is_accepted:
        deferred_decision = ExperienceDecision.DEFERRED_UNTIL_REPEATED
        return FeedbackJudgement(decision=deferred_decision, reason=ONCE, experience=experience)
    return FeedbackJudgement(decision=ExperienceDecision.ACCEPTED_AS_EVIDENCE, reason=ACCEPTED, experience=experience)


def kept_words(text: str, /) -> str:
    """Return the stored part of a summary: its words on one line, clipped; nothing of a payload or a log."""
    if rules.is_raw(text):
        return ""
    return " ".join(text.split())[: limits.TOOL_REASON_CHARS]


@dataclass(frozen=True, slots=True)
class ToolHints:
    """The hints, best first, and why others are missing."""

    hints: tuple[AgentToolHint, ...]
    status: ToolExperienceStatus


def select_hints(
    registries: Mapping[str, AgentToolRegistrySnapshot],
    experiences: Mapping[str, ToolExperience],
    refs: Sequence[AgentToolRegistryRef],
) -> ToolHints:
    """Return the hints of `experiences`, by id, for the tools of `refs`; without these, for all `registries`, by id.

    Certain ones come first, then those with more successes, then newer ones. Uncertain ones are left
    out, with the reason.
    """
    wanted_refs = {ref.registry_id: ref for ref in refs} or {
        name: registry_snapshot.ref for name, registry_snapshot in registries.items()
    }
    rejections: list[AgentToolRejection] = []
    matching_registries: dict[str, AgentToolRegistrySnapshot] = {}
    for registry_id, ref in wanted_refs.items():
        registry = registries.get(registry_id)
        if registry is None or not _same_place(ref, registry):
            rejections.append(AgentToolRejection(registry_id=registry_id, reason=HintRejection.REGISTRY_NOT_FOUND))
        elif ref.fingerprint != registry.fingerprint:
            mismatch = HintRejection.REGISTRY_FINGERPRINT_MISMATCH
            rejections.append(AgentToolRejection(registry_id=registry_id, reason=mismatch))
        else:
            matching_registries[registry_id] = registry
    hints: list[AgentToolHint] = []
    for experience_id, experience in experiences.items():
        if not experience.is_governed or experience.registry_id not in matching_registries:
            continue
        hint = _make_hint(experience_id, experience, matching_registries[experience.registry_id])
        if isinstance(hint, AgentToolHint):
            hints.append(hint)
        else:
            rejections.append(hint)
    hints.sort(
        key=lambda hint: (-_SURENESS[hint.confidence], -hint.success_count, -hint.updated_at, hint.experience_id)
    )
    best_hints = tuple(hints[:TOOL_HINTS])
    status = ToolExperienceStatus(
        reason=ExperienceReason.GOVERNED_TOOL_EXPERIENCE_AVAILABLE
        if best_hints
        else ExperienceReason.NO_GOVERNED_TOOL_EXPERIENCE,
        available=bool(best_hints),
        host_fallback_required=not best_hints,
        registry_refs_checked=len(wanted_refs),
        governed_experience_candidates=len(hints),
        rejected=tuple(rejections[:TOOL_REJECTIONS]),
        budget_limited=len(hints) > TOOL_HINTS,
    )
    return ToolHints(best_hints, status)


def _make_hint(
    experience_id: str, experience: ToolExperience, registry: AgentToolRegistrySnapshot
) -> AgentToolHint | AgentToolRejection:
    tool = registry.tool(experience.tool_id)
    rejection_reason = HintRejection.TOOL_NOT_IN_REGISTRY
    if tool is not None:
        rejection_reason = HintRejection.DISABLED if tool.disabled else HintRejection.STALE_SCHEMA
    if tool is None or tool.disabled or tool.schema_fingerprint != experience.schema_fingerprint:
        return AgentToolRejection(
            registry_id=registry.registry_id,
            tool_id=experience.tool_id,
            experience_id=experience_id,
            reason=rejection_reason,
        )
    return AgentToolHint(
        registry_id=registry.registry_id,
        registry_ref=registry.ref,
        tool_id=tool.tool_id,
        display_name=tool.display_name,
        schema_fingerprint=tool.schema_fingerprint,
        experience_id=experience_id,
        reason=experience.reason or f"succeeded {experience.success_count} times",
        guidance=experience.guidance,
        confidence=experience.confidence,
        success_count=experience.success_count,
        failure_count=experience.failure_count,
        updated_at=experience.updated_at,
        permission_tags=tool.permission_tags,
        risk_tags=tool.risk_tags,
    )


def count_tools(
    registries: Mapping[str, AgentToolRegistrySnapshot],
    experiences: Mapping[str, ToolExperience],
    *,
    forbidden: bool = False,
) -> AgentToolRegistryReport:
    """Return the counts of known tools."""
    tools = [tool for registry in registries.values() for tool in registry.tools]
    governed_experiences = [experience for experience in experiences.values() if experience.is_governed]
    return AgentToolRegistryReport(
        registries=len(registries),
        tools=len(tools),
        disabled_tools=sum(tool.disabled for tool in tools),
        governed_experiences=len(governed_experiences),
        candidate_experiences=sum(
            experience.status is ExperienceStatus.CANDIDATE for experience in experiences.values()
        ),
        stale_experiences=sum(
            not _experience_stands(experience, registries.get(experience.registry_id))
            for experience in governed_experiences
        ),
        forbidden_by_profile=forbidden,
    )


def _experience_stands(experience: ToolExperience, registry: AgentToolRegistrySnapshot | None) -> bool:
    tool = registry.tool(experience.tool_id) if registry is not None else None
    return tool is not None and tool.schema_fingerprint == experience.schema_fingerprint
