"""Written procedures become runtime skills: one per name, its newest revision recalled, duplicates merged."""

from elytron.context import OperationContext
from elytron.memories.skills import SkillShelf, whole_shelf
from elytron.writes.commit import Planned
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.conversation.write import (
    Outcome,
    Procedural,
    RuntimeSkillWrite,
    Verdict,
    WriteDecision,
)
from elytron_core.contracts.knowledge.recall import Plane
from elytron_core.planes.knowledge import procedural
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.admission import rules
from elytron_core.policy.skills import quality
from elytron_core.ports.store import Action, Ref
from elytron_core.scope import Scope

OLDER = "an older observation than the one that is kept"


async def plan_skills(ctx: OperationContext, scope: Scope, write: Procedural, record: SpaceRecord, /) -> Planned:
    """Judge each procedure; a known name gets a revision, a duplicate is merged."""
    names = [procedural.full_name(item.name) for item in write.writes]
    shelf = await whole_shelf(ctx, scope.space, record, names=names)
    now = ctx.clock.now()
    decisions = tuple(_admit(shelf, record, write, item, now) for item in write.writes)
    return Planned(shelf.changes, decisions, Ref(procedural.SKILLS, record.skill_tag(names[0])))


def _admit(
    shelf: SkillShelf, record: SpaceRecord, write: Procedural, item: RuntimeSkillWrite, now: Instant
) -> WriteDecision:
    name = procedural.full_name(item.name)
    judgement = rules.judge_skill(item)
    if judgement.verdict is not Verdict.ACCEPT:
        return _decision(name, None, judgement.outcome, judgement.reason, verdict=judgement.verdict)
    current = shelf.get(name)
    if current is not None and item.observed_at is not None and item.observed_at < current.observed_at:
        return _decision(name, current.name, Outcome.SKIPPED, OLDER)
    skill = _skill(record, write, item, current, now)
    if current is not None and current.is_recallable and current.content == skill.content:
        return _confirm(shelf, name, current, skill)
    twins = shelf.twins(skill)
    newer = next((twin for twin in twins if twin.observed_at > skill.observed_at), None)
    if newer is not None and current is None:
        confirmed = _confirm(shelf, name, newer, skill)
        return confirmed.model_copy(update={"reason": f"the same as {newer.name}, which was observed later"})
    if current is not None:
        skill = quality.revised(current, skill, digest=shelf.digest(current))
    reason = judgement.reason
    for twin in twins if newer is None else ():
        skill = quality.merged(skill, twin, digest=shelf.digest(twin))
        shelf.put(quality.retired(twin, by=name), Action.MERGE)
        reason = f"it supersedes {', '.join(one.name for one in twins)}, which says the same"
    if reason and not skill.enabled:
        reason += "; it is disabled, as that was"
    shelf.put(skill, Action.WRITE)
    return _decision(name, name, Outcome.STORED if current is None else Outcome.UPDATED, reason)


def _confirm(shelf: SkillShelf, name: str, known: procedural.Skill, skill: procedural.Skill) -> WriteDecision:
    """Take note that `known` was found again: its citations grow, nothing else changes."""
    citations = quality.joined(known.citations, skill.citations, most=limits.CITATIONS)
    if citations != known.citations:
        shelf.put(known.model_copy(update={"citations": citations}), Action.MERGE)
    return _decision(name, known.name, Outcome.CONFIRMED, "")


def _decision(
    name: str, kept: str | None, outcome: Outcome, reason: str, *, verdict: Verdict = Verdict.ACCEPT
) -> WriteDecision:
    return WriteDecision(plane=Plane.PROCEDURAL, id=kept, outcome=outcome, verdict=verdict, reason=reason, name=name)


def _skill(
    record: SpaceRecord,
    write: Procedural,
    item: RuntimeSkillWrite,
    current: procedural.Skill | None,
    now: Instant,
) -> procedural.Skill:
    name = procedural.full_name(item.name)
    return procedural.Skill(
        id=record.skill_tag(name),
        name=name,
        topic=item.topic,
        title=item.title,
        summary=item.summary,
        procedure=item.content,
        citations=item.citations,
        source=write.source,
        source_chat_id=item.source_chat_id,
        observed_at=item.observed_at if item.observed_at is not None else now,
        recorded_at=now,
        updated_at=now,
        enabled=current.enabled if current is not None else True,
    )
