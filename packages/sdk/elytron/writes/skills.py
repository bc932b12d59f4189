"""Written procedures become runtime skills: one per name, its newest version recalled."""

from functools import partial

from elytron.context import OperationContext
from elytron.records import Changes
from elytron.writes.committing import Planned, commit
from elytron_core.clock import Instant
from elytron_core.contracts.recalling import Plane
from elytron_core.contracts.writing import (
    MemoryWriteReport,
    MemoryWriteRequest,
    Outcome,
    Procedural,
    RuntimeSkillWrite,
    Verdict,
    WriteDecision,
)
from elytron_core.planes import procedural
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy import admission
from elytron_core.ports.store import Action, Ref
from elytron_core.scope import Scope


async def write_skills(
    ctx: OperationContext, scope: Scope, request: MemoryWriteRequest, write: Procedural, /
) -> MemoryWriteReport:
    """Judge each procedure and commit what was accepted; a known name is updated, another made."""
    return await commit(ctx, scope.space, request, partial(plan_skills, ctx, scope, write))


async def plan_skills(ctx: OperationContext, scope: Scope, write: Procedural, record: SpaceRecord, /) -> Planned:
    """Return what writing these procedures now would change, and what becomes of each."""
    refs = {_name(item): Ref(procedural.SKILLS, record.skill_tag(_name(item))) for item in write.writes}
    documents = await ctx.store.get(scope.space, tuple(refs.values()))
    known = {
        name: (procedural.Skill.from_bytes(document.body), document.revision)
        for name, document in zip(refs, documents, strict=True)
        if document is not None
    }
    now = ctx.clock.now()
    changes = Changes(record)
    decisions: list[WriteDecision] = []
    for item in write.writes:
        name = _name(item)
        judgement = admission.judge_skill(item)
        current, revision = known.get(name, (None, 0))
        if current is not None and item.observed_at is not None and item.observed_at < current.observed_at:
            older = "an older observation than the one that is kept"
            decisions.append(
                WriteDecision(plane=Plane.PROCEDURAL, id=current.name, outcome=Outcome.SKIPPED, reason=older, name=name)
            )
            continue
        outcome = judgement.outcome
        if judgement.verdict is Verdict.ACCEPT:
            skill = _skill(record, write, item, current, now)
            outcome = _outcome(current, skill)
            if outcome is not Outcome.CONFIRMED:
                known[name] = (skill, revision)
                changes.put(refs[name], skill, expects=revision, action=Action.WRITE)
        decisions.append(
            WriteDecision(
                plane=Plane.PROCEDURAL,
                id=name if judgement.verdict is Verdict.ACCEPT else None,
                outcome=outcome,
                verdict=judgement.verdict,
                reason=judgement.reason,
                name=name,
            )
        )
    return Planned(changes, tuple(decisions), next(iter(refs.values())))


def _name(write: RuntimeSkillWrite) -> str:
    return write.name if write.name.startswith(procedural.NAME_PREFIX) else procedural.NAME_PREFIX + write.name


def _outcome(current: procedural.Skill | None, skill: procedural.Skill) -> Outcome:
    if current is None:
        return Outcome.STORED
    same = {"recorded_at", "updated_at", "revision_count", "observed_at"}
    if current.model_dump(exclude=same) == skill.model_dump(exclude=same):
        return Outcome.CONFIRMED
    return Outcome.UPDATED


def _skill(
    record: SpaceRecord,
    write: Procedural,
    item: RuntimeSkillWrite,
    current: procedural.Skill | None,
    now: Instant,
) -> procedural.Skill:
    return procedural.Skill(
        id=record.skill_tag(_name(item)),
        name=_name(item),
        topic=item.topic,
        title=item.title,
        summary=item.summary,
        procedure=item.content,
        citations=item.citations,
        source=write.source,
        source_chat_id=item.source_chat_id,
        observed_at=item.observed_at if item.observed_at is not None else now,
        recorded_at=current.recorded_at if current is not None else now,
        updated_at=now,
        enabled=current.enabled if current is not None else True,
        revision_count=current.revision_count + 1 if current is not None else 1,
    )
