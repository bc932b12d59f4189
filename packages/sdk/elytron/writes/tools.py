"""Accepted feedback on a host's tools becomes experience."""

from elytron.context import OperationContext
from elytron.documents.planes import id_of
from elytron.documents.stored_values import ChangeSet
from elytron.writes.commit import PlannedWrite
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.tools import AgentToolUsageFeedback, AgentToolUsageFeedbackWrite, ExperienceDecision
from elytron_core.contracts.transcript import WriteDecision, WriteOutcome
from elytron_core.planes.candidates import AdmissionVerdict
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.tools import EXPERIENCES, REGISTRIES, StoredRegistry, ToolExperience
from elytron_core.policy.tools import judge_feedback
from elytron_core.ports.store import DocumentRef, JournalAction
from elytron_core.scope import Scope


async def plan_tool_feedback(
    ctx: OperationContext, scope: Scope, write: AgentToolUsageFeedbackWrite, record: SpaceRecord, /
) -> PlannedWrite:
    """Judge the feedback and return the resulting experience: counts and short words, never a result."""
    feedback = write.feedback
    registry_ref = DocumentRef(REGISTRIES, record.registry_tag(feedback.registry_ref.registry_id))
    experience_ref = _experience_ref(record, feedback)
    registry_document, experience_document = await ctx.store.get(scope.space, (registry_ref, experience_ref))
    judgement = judge_feedback(
        feedback,
        StoredRegistry.from_bytes(registry_document.body).snapshot if registry_document is not None else None,
        ToolExperience.from_bytes(experience_document.body) if experience_document is not None else None,
        at=ctx.clock.now(),
    )
    changes = ChangeSet(record)
    if judgement.experience is not None:
        stored_revision = experience_document.revision if experience_document is not None else 0
        changes.put(experience_ref, judgement.experience, expects=stored_revision, action=JournalAction.WRITE)
    verdict, outcome = _tool_outcome(judgement.decision, is_known=experience_document is not None)
    decision = WriteDecision(
        plane=RecallPlane.TOOL_EXPERIENCE,
        id=id_of(experience_ref) if verdict is not AdmissionVerdict.REJECT else None,
        outcome=outcome,
        verdict=verdict,
        reason=f"{judgement.decision}: {judgement.reason}",
        name=feedback.observations[0].tool_id if feedback.observations else None,
    )
    return PlannedWrite(changes, (decision,), experience_ref)


def _experience_ref(record: SpaceRecord, feedback: AgentToolUsageFeedback) -> DocumentRef:
    """Return the reference of the experience of the tool, schema and task that was first observed."""
    registry_id = feedback.registry_ref.registry_id
    if not feedback.observations:
        return DocumentRef(EXPERIENCES, record.experience_key(registry_id, "", "", ""))
    first_observation = feedback.observations[0]
    key = record.experience_key(
        registry_id, first_observation.tool_id, first_observation.schema_fingerprint, first_observation.task_signature
    )
    return DocumentRef(EXPERIENCES, key)


def _tool_outcome(decision: ExperienceDecision, *, is_known: bool) -> tuple[AdmissionVerdict, WriteOutcome]:
    match decision:
        case ExperienceDecision.ACCEPTED_AS_EVIDENCE:
            return AdmissionVerdict.ACCEPT, WriteOutcome.UPDATED if is_known else WriteOutcome.STORED
        case ExperienceDecision.DEFERRED_UNTIL_REPEATED:
            return AdmissionVerdict.DEFER, WriteOutcome.DEFERRED
        case _:
            return AdmissionVerdict.REJECT, WriteOutcome.REJECTED
