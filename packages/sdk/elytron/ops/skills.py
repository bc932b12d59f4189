"""Operations on runtime skills: read, edit, enable, delete, record outcomes, govern. None executes a skill."""

from collections.abc import Callable

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet
from elytron.intake import admit_texts
from elytron.memories.audit_trail import event_of, note_events
from elytron.memories.links import links_of_skills
from elytron.writes.commit import SettledChanges, settle_report
from elytron.writes.skills import SkillRepository, read_all_skills, read_skills, record_reuse
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.skills import (
    AgentSkillDirAddRequest,
    AgentSkillDirectoryReport,
    RuntimeSkillDeleteRequest,
    RuntimeSkillDetailReport,
    RuntimeSkillDetailRequest,
    RuntimeSkillEditRequest,
    RuntimeSkillGovernReport,
    RuntimeSkillGovernRequest,
    RuntimeSkillListReport,
    RuntimeSkillListRequest,
    RuntimeSkillMutationReport,
    RuntimeSkillReuseReport,
    RuntimeSkillReuseRequest,
    RuntimeSkillSetEnabledRequest,
    RuntimeSkillSummary,
    SkillRefusal,
)
from elytron_core.errors import NotFound
from elytron_core.ids import SpaceId
from elytron_core.planes.audit_trail import AuditAction
from elytron_core.planes.skills import Skill, SkillState
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.admission import rules
from elytron_core.policy.skills import (
    govern_skills,
    revise_skill,
    skill_lineage,
    skill_quality,
    state_of,
    write_skill_file,
)
from elytron_core.ports.store import JournalAction
from elytron_core.text import similarity

_REFUSALS = {
    rules.EMPTY: SkillRefusal.EMPTY,
    rules.RAW: SkillRefusal.RAW_PAYLOAD_OR_LOG,
    rules.WEAK: SkillRefusal.WEAK_PROCEDURE,
}


async def list_runtime_skills(ctx: OperationContext, request: RuntimeSkillListRequest, /) -> RuntimeSkillListReport:
    """Return the requested skills: those in use first, then by quality."""
    scope = ctx.scope_of(request)
    record = await ctx.spaces.find(scope.space)
    skills = list(await read_all_skills(ctx, scope.space, record)) if record is not None else []
    now = ctx.clock.now()
    summaries = [
        summary
        for skill in skills
        if (request.include_disabled or skill.enabled)
        and (request.include_retired or skill.state is not SkillState.RETIRED)
        and _matches_query(skill, request.query)
        for summary in [summary_of(skill, now)]
    ]
    summaries.sort(key=lambda one: (list(SkillState).index(one.state), -one.quality, one.name))
    return RuntimeSkillListReport(
        space=scope.space,
        total=len(skills),
        active=sum(skill.is_recallable for skill in skills),
        disabled=sum(not skill.enabled for skill in skills),
        retired=sum(skill.state is SkillState.RETIRED for skill in skills),
        runtime_skills=tuple(summaries[: request.limit]),
        clipped=len(summaries) > request.limit or len(skills) >= limits.SKILLS_COMPARED,
    )


async def get_runtime_skill(ctx: OperationContext, request: RuntimeSkillDetailRequest, /) -> RuntimeSkillDetailReport:
    """Return one skill with its history. Raises NotFound."""
    scope = ctx.scope_of(request)
    repository = await _find_skills(ctx, scope.space, request.name)
    skill = repository.must_get(request.name)
    return RuntimeSkillDetailReport(
        space=scope.space,
        skill=summary_of(skill, ctx.clock.now()),
        procedure=skill.procedure,
        citations=skill.citations,
        source_chat_id=skill.source_chat_id,
        lineage=skill_lineage(skill, digest=repository.digest(skill)),
        strategy_diffs=skill.diffs,
        last_outcome_at=skill.last_outcome_at,
        last_outcome_note=skill.last_outcome_note,
        raw_content=write_skill_file(skill),
    )


@admit_texts
async def edit_runtime_skill(ctx: OperationContext, request: RuntimeSkillEditRequest, /) -> RuntimeSkillMutationReport:
    """Make the edit the skill's next revision. Raises NotFound.

    An invalid procedure is refused in the report; an edit that changes nothing makes no revision.
    """
    texts = {
        "topic": request.topic,
        "title": request.title,
        "summary": request.summary,
        "procedure": request.procedure,
    }
    new_texts = {name: text for name, text in texts.items() if text is not None}

    def edited(skill: Skill, repository: SkillRepository) -> Skill | SkillRefusal:
        now = ctx.clock.now()
        edited_skill = skill.model_copy(
            update={**new_texts, "updated_at": now, "observed_at": now, "revision_pending": False}
        )
        # First, so that an old skill that is saved unchanged is not rejected.
        if edited_skill.content == skill.content:
            return skill
        if similarity.is_blank(edited_skill.topic) or similarity.is_blank(edited_skill.title):
            return SkillRefusal.EMPTY
        procedure_flaw = rules.procedure_flaw(edited_skill.procedure)
        if procedure_flaw is not None:
            return _REFUSALS[procedure_flaw]
        return revise_skill(skill, edited_skill, digest=repository.digest(skill), reason=request.edit_reason)

    return await _mutate_skill(ctx, request, request.name, edited)


@admit_texts
async def set_runtime_skill_enabled(
    ctx: OperationContext, request: RuntimeSkillSetEnabledRequest, /
) -> RuntimeSkillMutationReport:
    """Enable or disable a skill in recall; enabling also restores a retired one. Raises NotFound."""

    def switched(skill: Skill, _: SkillRepository) -> Skill:
        if not request.enabled:
            return skill.model_copy(update={"enabled": False})
        restored_fields: dict[str, object] = {"enabled": True}
        if skill.state is SkillState.RETIRED:
            restored_fields |= {"state": SkillState.ACTIVE, "superseded_by": None, "updated_at": ctx.clock.now()}
        return skill.model_copy(update=restored_fields)

    action = AuditAction.ENABLED if request.enabled else AuditAction.DISABLED
    return await _mutate_skill(ctx, request, request.name, switched, action=action, reason=request.reason)


@admit_texts
async def delete_runtime_skill(
    ctx: OperationContext, request: RuntimeSkillDeleteRequest, /
) -> RuntimeSkillMutationReport:
    """Remove a skill and its links; it can be learned again. Raises NotFound."""
    scope = ctx.scope_of(request)

    async def plan(record: SpaceRecord) -> SettledChanges[RuntimeSkillMutationReport]:
        repository = await read_skills(ctx, scope.space, record, (request.name,))
        skill = repository.must_get(request.name)
        report = RuntimeSkillMutationReport(space=scope.space, name=request.name, changed=True)
        link_refs = await links_of_skills(ctx, scope.space, record, (skill,))
        changes = ChangeSet(record)
        event = event_of(ctx, AuditAction.DELETED, at=ctx.clock.now(), reason=request.reason)
        await note_events(ctx, scope.space, record, changes, {repository.ref(skill): (event,)})
        for ref, revision in {repository.ref(skill): repository.revision(skill), **link_refs}.items():
            changes.delete(ref, expects=revision)
        return SettledChanges(report, changes)

    return await settle_report(ctx, scope.space, plan, takes_back=True)


@admit_texts
async def record_skill_reuse(ctx: OperationContext, request: RuntimeSkillReuseRequest, /) -> RuntimeSkillReuseReport:
    """Record the outcome of the skills that a reply used."""
    return await record_reuse(ctx, ctx.scope_of(request), request.names, request.outcome, note=request.note)


async def govern_runtime_skills(
    ctx: OperationContext, request: RuntimeSkillGovernRequest, /
) -> RuntimeSkillGovernReport:
    """Merge, retire and prune the skills of the space by quality and age, as one batch."""
    scope = ctx.scope_of(request)

    async def plan(record: SpaceRecord) -> SettledChanges[RuntimeSkillGovernReport]:
        repository = await read_all_skills(ctx, scope.space, record)
        skills = tuple(repository)
        governance = govern_skills(skills, at=ctx.clock.now(), digest=repository.digest)
        for skill in governance.changed:
            repository.put(skill, JournalAction.MAINTENANCE)
        report = RuntimeSkillGovernReport(
            space=scope.space,
            changed=governance.is_change and not request.dry_run,
            dry_run=request.dry_run,
            looked_at=len(skills),
            active=governance.names_in(SkillState.ACTIVE),
            stale=governance.names_in(SkillState.STALE),
            low_value=governance.names_in(SkillState.LOW_VALUE),
            retired=governance.names_in(SkillState.RETIRED),
            merged=governance.merged,
            pruned=tuple(skill.name for skill in governance.pruned),
        )
        if request.dry_run:
            return SettledChanges(report)
        deleted_revisions = {repository.ref(skill): repository.revision(skill) for skill in governance.pruned}
        deleted_revisions |= await links_of_skills(ctx, scope.space, record, governance.pruned)
        for ref, revision in deleted_revisions.items():
            repository.changes.delete(ref, expects=revision)
        return SettledChanges(report, repository.changes)

    return await settle_report(ctx, scope.space, plan)


async def add_agent_skill_dir(ctx: OperationContext, request: AgentSkillDirAddRequest, /) -> AgentSkillDirectoryReport:
    """Add a directory of agent skills, and return the contents of all of them."""
    return await ctx.skill_dirs.add(request.path, at=ctx.clock.now())


def summary_of(skill: Skill, at: Instant, /) -> RuntimeSkillSummary:
    """Return a summary of `skill`, in its state at `at`."""
    return RuntimeSkillSummary(
        name=skill.name,
        topic=skill.topic,
        title=skill.title,
        summary=skill.summary,
        origin=skill.origin,
        source=skill.source,
        state=state_of(skill, at=at),
        enabled=skill.enabled,
        forgotten=skill.forgotten_at is not None,
        quality=skill_quality(skill),
        revision=skill.revision_count,
        revision_pending=skill.revision_pending,
        use_count=skill.use_count,
        validated_count=skill.validated_count,
        mismatch_count=skill.mismatch_count,
        citations=len(skill.citations),
        supersedes=skill.supersedes,
        superseded_by=skill.superseded_by,
        observed_at=skill.observed_at,
        updated_at=skill.updated_at,
        last_used_at=skill.last_used_at,
    )


def _matches_query(skill: Skill, query: str | None) -> bool:
    """Return whether every word of the query is the prefix of a word in the skill's texts."""
    text = similarity.normalise_text(f"{skill.name} {skill.content}")
    return all(similarity.has_term(text, query_word) for query_word in similarity.normalise_text(query or "").split())


async def _find_skills(ctx: OperationContext, space: SpaceId, name: str) -> SkillRepository:
    record = await ctx.spaces.find(space)
    if record is None:
        raise NotFound(what="runtime skill", name=name)
    return await read_skills(ctx, space, record, (name,))


async def _mutate_skill(
    ctx: OperationContext,
    request: RuntimeSkillEditRequest | RuntimeSkillSetEnabledRequest,
    name: str,
    change: Callable[[Skill, SkillRepository], Skill | SkillRefusal],
    *,
    action: AuditAction | None = None,
    reason: str = "",
) -> RuntimeSkillMutationReport:
    """Commit the result of `change` for the skill called `name`, unless it is unchanged. Raises NotFound."""
    scope = ctx.scope_of(request)

    async def plan(record: SpaceRecord) -> SettledChanges[RuntimeSkillMutationReport]:
        repository = await read_skills(ctx, scope.space, record, (name,))
        skill = repository.must_get(name)
        change_result = change(skill, repository)
        refused = change_result if isinstance(change_result, SkillRefusal) else None
        resulting_skill = skill if isinstance(change_result, SkillRefusal) else change_result
        if resulting_skill != skill:
            repository.put(resulting_skill, JournalAction.OPERATOR)
            events = () if action is None else (event_of(ctx, action, at=ctx.clock.now(), reason=reason),)
            await note_events(ctx, scope.space, record, repository.changes, {repository.ref(resulting_skill): events})
        report = RuntimeSkillMutationReport(
            space=scope.space,
            name=name,
            changed=resulting_skill != skill,
            refused=refused,
            reason=next((text for text, refusal in _REFUSALS.items() if refusal is refused), ""),
            skill=summary_of(resulting_skill, ctx.clock.now()),
        )
        return SettledChanges(report, repository.changes)

    return await settle_report(ctx, scope.space, plan)
