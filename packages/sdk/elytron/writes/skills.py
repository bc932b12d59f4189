"""Written procedures become runtime skills.

There is one skill per name: its newest revision is recalled, and duplicates are merged.
"""

from collections.abc import Iterable, Iterator
from functools import partial

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet, documents_at
from elytron.writes.commit import PlannedWrite, SettledChanges, settle_changes, settle_report
from elytron_core import limits
from elytron_core.clock import Instant, order_time
from elytron_core.contracts.recall import RecallPlane
from elytron_core.contracts.skills import RuntimeSkillReuseReport
from elytron_core.contracts.transcript import ProcedureSource, RuntimeSkillWrite, WriteDecision, WriteOutcome
from elytron_core.errors import Conflict, NotFound, StoreError
from elytron_core.ids import SpaceId
from elytron_core.planes import skills
from elytron_core.planes.candidates import AdmissionVerdict
from elytron_core.planes.skills import SKILLS, ReuseOutcome, Skill, SkillState
from elytron_core.planes.space import SpaceRecord
from elytron_core.policy.admission import rules
from elytron_core.policy.skills import (
    SkillLooks,
    join_unique,
    merge_skills,
    retire_skill,
    revise_skill,
    touch_skill,
    with_outcome,
)
from elytron_core.ports.store import Document, DocumentRef, JournalAction
from elytron_core.scope import Scope


class SkillRepository:
    """Skills with their revisions, and pending changes; a skill reads back as it was last put."""

    def __init__(self, record: SpaceRecord, documents: Iterable[Document], /) -> None:
        self._record = record
        self.changes = ChangeSet(record)
        self._skills: dict[str, tuple[Skill, int]] = {}
        self._looks: SkillLooks | None = None
        for document in documents:
            skill = Skill.from_bytes(document.body)
            self._skills[skill.name] = (skill, document.revision)

    def get(self, name: str, /) -> Skill | None:
        """Return the skill of this name."""
        entry = self._skills.get(name)
        return entry[0] if entry is not None else None

    def must_get(self, name: str, /) -> Skill:
        """Return the skill of this name. Raises NotFound."""
        skill = self.get(name)
        if skill is None:
            raise NotFound(what="runtime skill", name=name)
        return skill

    def __iter__(self) -> Iterator[Skill]:
        """Yield the skills by name, so that no decision depends on their keys."""
        return (self._skills[name][0] for name in sorted(self._skills))

    def ref(self, skill: Skill, /) -> DocumentRef:
        """Return the reference of `skill`."""
        return DocumentRef(SKILLS, skill.id)

    def revision(self, skill: Skill, /) -> int:
        """Return the revision at which `skill` was read; 0 if it is new."""
        return self._skills[skill.name][1] if skill.name in self._skills else 0

    def put(self, skill: Skill, action: JournalAction, /) -> None:
        """Write `skill`, new or changed."""
        revision = self.revision(skill)
        self._skills[skill.name] = (skill, revision)
        if self._looks is not None:
            _look_at(self._looks, skill)
        self.changes.put(self.ref(skill), skill, expects=revision, action=action)

    def twins(self, skill: Skill, /) -> list[Skill]:
        """Return the other current skills that equal `skill`, by name.

        A disabled one counts, so that it is not learned again; a forgotten or retired one does not.
        """
        if self._looks is None:
            self._looks = SkillLooks()
            for other_skill in self:
                _look_at(self._looks, other_skill)
        return [self.must_get(name) for name in sorted(self._looks.twins(skill))]

    def digest(self, skill: Skill, /) -> str:
        """Return the digest of `skill`'s content in its lineage."""
        return self._record.digest(skill.content.encode("utf-8"))


def _look_at(looks: SkillLooks, skill: Skill) -> None:
    """Add `skill` to those that others are compared with, or remove it if it is no longer current."""
    if skill.forgotten_at is None and skill.state is not SkillState.RETIRED:
        looks.put(skill)
    else:
        looks.drop(skill.name)


async def read_skills(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, names: Iterable[str], /
) -> SkillRepository:
    """Return the skills of these names."""
    refs = [DocumentRef(SKILLS, record.skill_tag(name)) for name in names]
    return SkillRepository(record, (await documents_at(ctx.store, space, refs)).values())


async def read_all_skills(
    ctx: OperationContext, space: SpaceId, record: SpaceRecord, /, *, names: Iterable[str] = ()
) -> SkillRepository:
    """Return the skills of the space, at most `limits.SKILLS_COMPARED`, and always those of `names`."""
    documents = {
        document.ref: document for document in await ctx.store.scan(space, SKILLS, limit=limits.SKILLS_COMPARED)
    }
    # Less than a full page is everything.
    if len(documents) == limits.SKILLS_COMPARED:
        refs = [ref for name in names if (ref := DocumentRef(SKILLS, record.skill_tag(name))) not in documents]
        documents |= await documents_at(ctx.store, space, refs)
    return SkillRepository(record, documents.values())


OLDER = "an older observation than the stored one"


async def plan_skills(
    ctx: OperationContext, scope: Scope, write: ProcedureSource, record: SpaceRecord, /
) -> PlannedWrite:
    """Judge each procedure; a known name gets a revision, a duplicate is merged."""
    skill_names = [skills.full_name(item.name) for item in write.writes]
    repository = await read_all_skills(ctx, scope.space, record, names=skill_names)
    now = ctx.clock.now()
    decisions = tuple(_admit_skill(repository, record, write, item, now) for item in write.writes)
    return PlannedWrite(repository.changes, decisions, DocumentRef(skills.SKILLS, record.skill_tag(skill_names[0])))


def _admit_skill(
    repository: SkillRepository, record: SpaceRecord, write: ProcedureSource, item: RuntimeSkillWrite, now: Instant
) -> WriteDecision:
    name = skills.full_name(item.name)
    judgement = rules.judge_skill(item)
    if judgement.verdict is not AdmissionVerdict.ACCEPT:
        return _skill_decision(name, None, judgement.outcome, judgement.reason, verdict=judgement.verdict)
    stored_skill = repository.get(name)
    observed_at = order_time(item.observed_at, recorded_at=now)
    if stored_skill is not None and observed_at < order_time(
        stored_skill.observed_at, recorded_at=stored_skill.updated_at, now=now
    ):
        return _skill_decision(name, stored_skill.name, WriteOutcome.SKIPPED, OLDER)
    skill = _next_skill(record, write, item, stored_skill, now)
    if stored_skill is not None and stored_skill.is_recallable and stored_skill.content == skill.content:
        return _confirm_skill(repository, name, stored_skill, skill)
    twins = repository.twins(skill)
    newer_twin = next((twin for twin in twins if twin.ordered_at > skill.ordered_at), None)
    if newer_twin is not None and stored_skill is None:
        confirmation = _confirm_skill(repository, name, newer_twin, skill)
        return confirmation.model_copy(update={"reason": f"the same as {newer_twin.name}, which was observed later"})
    if stored_skill is not None:
        skill = revise_skill(stored_skill, skill, digest=repository.digest(stored_skill))
    reason = judgement.reason
    for twin in twins if newer_twin is None else ():
        skill = merge_skills(skill, twin, digest=repository.digest(twin))
        repository.put(retire_skill(twin, by=name), JournalAction.MERGE)
        reason = f"it supersedes {', '.join(one.name for one in twins)}, which says the same thing"
    if reason and not skill.enabled:
        reason += "; it is disabled, as the replaced one was"
    repository.put(skill, JournalAction.WRITE)
    return _skill_decision(name, name, WriteOutcome.STORED if stored_skill is None else WriteOutcome.UPDATED, reason)


def _confirm_skill(
    repository: SkillRepository, name: str, stored_skill: skills.Skill, skill: skills.Skill
) -> WriteDecision:
    """Record that `stored_skill` was observed again: its citations grow, nothing else changes."""
    citations = join_unique(stored_skill.citations, skill.citations, most=limits.CITATIONS)
    if citations != stored_skill.citations:
        repository.put(stored_skill.model_copy(update={"citations": citations}), JournalAction.MERGE)
    return _skill_decision(name, stored_skill.name, WriteOutcome.CONFIRMED, "")


def _skill_decision(
    name: str,
    skill_id: str | None,
    outcome: WriteOutcome,
    reason: str,
    *,
    verdict: AdmissionVerdict = AdmissionVerdict.ACCEPT,
) -> WriteDecision:
    return WriteDecision(
        plane=RecallPlane.PROCEDURAL, id=skill_id, outcome=outcome, verdict=verdict, reason=reason, name=name
    )


def _next_skill(
    record: SpaceRecord,
    write: ProcedureSource,
    item: RuntimeSkillWrite,
    stored_skill: skills.Skill | None,
    now: Instant,
) -> skills.Skill:
    name = skills.full_name(item.name)
    return skills.Skill(
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
        enabled=stored_skill.enabled if stored_skill is not None else True,
    )


async def record_reuse(
    ctx: OperationContext, scope: Scope, names: Iterable[str], outcome: ReuseOutcome, /, *, note: str = ""
) -> RuntimeSkillReuseReport:
    """Record the outcome of the skills of these names; `note` must be free of secrets.

    A success counts and takes back a pending revision, a mismatch counts and asks for one, a neutral outcome is only
    noted.
    """
    unique_names = tuple(dict.fromkeys(names))

    async def plan(record: SpaceRecord) -> SettledChanges[RuntimeSkillReuseReport]:
        repository = await read_skills(ctx, scope.space, record, unique_names)
        all_skills = tuple(skill for skill in repository)
        for skill in all_skills:
            updated_skill = with_outcome(skill, outcome, at=ctx.clock.now(), note=note)
            repository.put(updated_skill, JournalAction.MAINTENANCE)
        recorded_names = tuple(skill.name for skill in all_skills)
        report = RuntimeSkillReuseReport(
            space=scope.space,
            changed=bool(all_skills),
            recorded=recorded_names,
            unknown=tuple(name for name in unique_names if name not in recorded_names),
        )
        return SettledChanges(report, repository.changes)

    return await settle_report(ctx, scope.space, plan)


async def touch_skills(ctx: OperationContext, scope: Scope, names: tuple[str, ...], /) -> None:
    """Count one use of each of the named skills; within six hours, as one.

    Nothing fails because of it: if the store takes no write now, or others keep winning the race, the use is counted
    later.
    """
    try:
        await settle_changes(ctx, scope.space, partial(_touch_skills, ctx, scope, names))
    except (Conflict, StoreError):
        return


async def _touch_skills(
    ctx: OperationContext, scope: Scope, names: tuple[str, ...], record: SpaceRecord
) -> SettledChanges[None]:
    repository = await read_skills(ctx, scope.space, record, names)
    now = ctx.clock.now()
    for skill in tuple(repository):
        touched_skill = touch_skill(skill, at=now)
        if touched_skill is not skill:
            repository.put(touched_skill, JournalAction.MAINTENANCE)
    return SettledChanges(None, repository.changes)
