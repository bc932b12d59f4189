"""Feedback of a host's tools is judged, and becomes experience if accepted."""

from elytron.context import OperationContext
from elytron.documents.change_set import Changes
from elytron.documents.planes import id_of
from elytron.writes.commit import Planned
from elytron_core.contracts.recall import Plane
from elytron_core.contracts.tools import AgentToolUsageFeedback, AgentToolUsageFeedbackWrite, ExperienceDecision
from elytron_core.contracts.transcript import Outcome, WriteDecision
from elytron_core.planes.candidates import Verdict
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.tools import EXPERIENCES, REGISTRIES, KeptRegistry, ToolExperience
from elytron_core.policy.tools import judge_feedback
from elytron_core.ports.store import Action, Ref
from elytron_core.scope import Scope


async def plan_tool_feedback(
    ctx: OperationContext, scope: Scope, write: AgentToolUsageFeedbackWrite, record: SpaceRecord, /
) -> Planned:
    """Judge the feedback and return what it teaches: counts and short words, never a result."""
    feedback = write.feedback
    registry_ref = Ref(REGISTRIES, record.registry_tag(feedback.registry_ref.registry_id))
    experience_ref = _experience_ref(record, feedback)
    registry, known = await ctx.store.get(scope.space, (registry_ref, experience_ref))
    judgement = judge_feedback(
        feedback,
        KeptRegistry.from_bytes(registry.body).snapshot if registry is not None else None,
        ToolExperience.from_bytes(known.body) if known is not None else None,
        at=ctx.clock.now(),
    )
    changes = Changes(record)
    if judgement.experience is not None:
        expects = known.revision if known is not None else 0
        changes.put(experience_ref, judgement.experience, expects=expects, action=Action.WRITE)
    verdict, outcome = _outcome(judgement.decision, is_known=known is not None)
    decision = WriteDecision(
        plane=Plane.TOOL_EXPERIENCE,
        id=id_of(experience_ref) if verdict is not Verdict.REJECT else None,
        outcome=outcome,
        verdict=verdict,
        reason=f"{judgement.decision}: {judgement.reason}",
        name=feedback.observations[0].tool_id if feedback.observations else None,
    )
    return Planned(changes, (decision,), experience_ref)


def _experience_ref(record: SpaceRecord, feedback: AgentToolUsageFeedback) -> Ref:
    """Return the reference of the experience of the tool, schema and task that was first observed."""
    registry = feedback.registry_ref.registry_id
    if not feedback.observations:
        return Ref(EXPERIENCES, record.experience_key(registry, "", "", ""))
    first = feedback.observations[0]
    key = record.experience_key(registry, first.tool_id, first.schema_fingerprint, first.task_signature)
    return Ref(EXPERIENCES, key)


def _outcome(decision: ExperienceDecision, *, is_known: bool) -> tuple[Verdict, Outcome]:
    match decision:
        case ExperienceDecision.ACCEPTED_AS_EVIDENCE:
            return Verdict.ACCEPT, Outcome.UPDATED if is_known else Outcome.STORED
        case ExperienceDecision.DEFERRED_UNTIL_REPEATED:
            return Verdict.DEFER, Outcome.DEFERRED
        case _:
            return Verdict.REJECT, Outcome.REJECTED
