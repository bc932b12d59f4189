"""Governance without a model, and the input of every pass: the turns, the model if any, and earlier results.

It hides expired content, counts how often skills helped, and does the space's upkeep.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from elytron.context import OperationContext
from elytron.documents.planes import id_of
from elytron.documents.stored_values import ChangeSet, value_at, values_at
from elytron.erasure.removal import erase_many
from elytron.jobs.spending_budget import ModelAsker
from elytron.memories.links import RestingMemory, unlink_left
from elytron.ops.control import retire_memories
from elytron.ops.facts import merge_facts
from elytron.ops.skills import govern_runtime_skills
from elytron.ops.transcript import write_memory
from elytron.writes.commit import SettledChanges, commit_write, settle_changes
from elytron.writes.continuity import plan_drawn_notes
from elytron.writes.facts import keep_uses
from elytron.writes.records import records_below
from elytron.writes.skills import record_reuse
from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.contracts.continuity import NoteDraft, NotesWrite
from elytron_core.contracts.control import MemoryForgetRequest
from elytron_core.contracts.facts import MemoryMergeRequest
from elytron_core.contracts.maintenance.maintenance import ExtractionMethod, PassOutcome, PassStatus, SkillReuse
from elytron_core.contracts.skills import RuntimeSkillGovernRequest
from elytron_core.contracts.transcript import MemoryWrite, MemoryWriteReport, MemoryWriteRequest, WriteDecision
from elytron_core.ids import ConversationTag, SpaceId, TurnId
from elytron_core.model import Value
from elytron_core.planes import continuity, facts, jobs, transcript
from elytron_core.planes.facts import FACTS, Fact, is_replaceable
from elytron_core.planes.jobs import NOTHING, MaintainedTurns, MaintenancePass, ModelUsage
from elytron_core.planes.records import RUNTIME_RECORDS
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import DerivedMemoryPlane
from elytron_core.policy import maintenance
from elytron_core.policy.continuity import draw_notes
from elytron_core.ports import store
from elytron_core.ports.models import PromptMessage, PromptRole
from elytron_core.ports.store import DocumentRef, ErasureTarget, JournalAction
from elytron_core.profiles import MemoryPressure
from elytron_core.scope import Scope

ValueT = TypeVar("ValueT", bound=Value)
NEEDS_MODEL = "no_language_model"
MAINTENANCE = "maintenance"
"""The caller in audit trails of maintenance."""


@dataclass(frozen=True, slots=True)
class KnownTurn:
    """A stored turn by its id."""

    id: TurnId
    turn: transcript.Turn


async def _no_cancel() -> None:
    return


@dataclass(slots=True)
class PassWork:
    """One run of maintenance over some turns of a conversation; it collects every decision on a candidate."""

    ctx: OperationContext
    scope: Scope
    record: SpaceRecord
    turns: tuple[KnownTurn, ...]
    extraction: ExtractionMethod
    asker: ModelAsker | None = None
    reuse: SkillReuse | None = None
    pressure: MemoryPressure = MemoryPressure.NORMAL
    leaves_refused: bool = False
    """True if a turn that the model refused counts as unprocessed: its job can be retried."""
    beat: Callable[[], Awaitable[None]] = _no_cancel
    """Called before long work, to renew a lease."""
    decisions: list[WriteDecision] = field(default_factory=list[WriteDecision])

    def __post_init__(self) -> None:
        self.ctx = replace(self.ctx, caller=MAINTENANCE)

    @property
    def space(self) -> SpaceId:
        return self.scope.space

    @property
    def tag(self) -> ConversationTag:
        return self.record.conversation_tag(self.scope.conversation_key)

    @property
    def chars(self) -> int:
        """Return how many characters of messages a model may be shown at once."""
        return self.ctx.profile.budget.maintenance_chars

    @property
    def spent(self) -> ModelUsage:
        return self.asker.spent if self.asker is not None else NOTHING

    async def ask(self, instruction: str, data: str, shape: type[ValueT], /) -> ValueT:
        """Return the model's result for `data`. Raises BudgetReached, ModelError."""
        assert self.asker is not None
        await self.beat()
        prompt = (PromptMessage(PromptRole.SYSTEM, instruction), PromptMessage(PromptRole.USER, data))
        return await self.asker.structured(prompt, shape, max_tokens=limits.MODEL_ANSWER_TOKENS)

    async def write(self, write: MemoryWrite, /, *, key: str | None = None) -> MemoryWriteReport:
        """Write to the conversation, and collect the decisions; what was already written under `key` gives none."""
        request = MemoryWriteRequest(scope=self.scope, write=write, idempotency_key=key)
        report = await write_memory(self.ctx, request)
        if not report.duplicated:
            self.decisions += report.decisions
        return report

    async def state(self) -> continuity.ExecutionState | None:
        """Return the state of the conversation's work; None if it has none, or it is hidden."""
        ref = DocumentRef(continuity.EXECUTION, self.tag)
        state, _ = await value_at(self.ctx.store, self.space, ref, continuity.ExecutionState)
        return state if state is not None and state.forgotten_at is None else None

    async def current_facts(self) -> list[Fact]:
        """Return the space's current facts, newest first."""
        documents = await self.ctx.store.scan(self.space, FACTS, limit=limits.SCAN_MAX, descending=True)
        facts = [Fact.from_bytes(document.body) for document in documents]
        now = self.ctx.clock.now()
        return [fact for fact in facts if is_replaceable(fact, at=now)]


async def read_turns(
    ctx: OperationContext, scope: Scope, record: SpaceRecord, numbers: Sequence[int], /
) -> tuple[KnownTurn, ...]:
    """Return the turns of the scope's conversation with these sequences, except erased ones."""
    tag = record.conversation_tag(scope.conversation_key)
    ids = [transcript.turn_id(tag, number) for number in numbers]
    refs = [DocumentRef(transcript.TURNS, turn_id) for turn_id in ids]
    turns = await values_at(ctx.store, scope.space, refs, transcript.Turn)
    return tuple(KnownTurn(TurnId(ref.key), turn) for ref, turn in turns.items())


async def read_maintained(ctx: OperationContext, scope: Scope, record: SpaceRecord, /) -> MaintainedTurns:
    """Return which turns of the scope's conversation are processed."""
    ref = DocumentRef(jobs.MAINTAINED, record.conversation_tag(scope.conversation_key))
    progress, _ = await value_at(ctx.store, scope.space, ref, MaintainedTurns)
    return progress or MaintainedTurns()


async def mark_maintained(work: PassWork, numbers: Sequence[int], /, *, waits: bool = False) -> None:
    """Store that these turns are processed, or with `waits` that they wait for a model."""

    def marked(progress: MaintainedTurns) -> MaintainedTurns:
        for number in numbers:
            progress = progress.put_off(number) if waits else progress.plus(number)
        return progress

    await _change_maintained(work, marked)


async def mark_noted(work: PassWork, through: int, /) -> None:
    """Store that daily notes were written from the turns up to `through`."""
    await _change_maintained(work, lambda progress: progress.model_copy(update={"noted": max(progress.noted, through)}))


async def _change_maintained(work: PassWork, change: Callable[[MaintainedTurns], MaintainedTurns]) -> None:
    async def plan(record: SpaceRecord) -> SettledChanges[None]:
        ref = DocumentRef(jobs.MAINTAINED, record.conversation_tag(work.scope.conversation_key))
        progress, revision = await value_at(work.ctx.store, work.space, ref, MaintainedTurns)
        after = change(progress or MaintainedTurns())
        changes = ChangeSet(record)
        if after != (progress or MaintainedTurns()):
            changes.put(ref, after, expects=revision, action=JournalAction.MAINTENANCE)
        return SettledChanges(None, changes)

    await settle_changes(work.ctx, work.space, plan)


def skipped_outcome(of: MaintenancePass, reason: str, /) -> PassOutcome:
    """Return the outcome of a part that did not run."""
    return PassOutcome(of=of, status=PassStatus.SKIPPED, reason=reason)


def ended_outcome(of: MaintenancePass, counts: dict[str, int], /, *, changed: int) -> PassOutcome:
    """Return the outcome of a part that ran; zero counts are left out."""
    totals = {name: count for name, count in counts.items() if count}
    return PassOutcome(of=of, status=PassStatus.DONE if changed else PassStatus.UNCHANGED, counts=totals)


OUTLIVED = "it was not confirmed within the lifetime of such facts"
IN_THE_MONTH = "the month's note includes it"


async def govern_space(work: PassWork, /) -> PassOutcome:
    """Hide outdated tasks and projects, reversibly, and count what exceeds the budget."""
    await keep_uses(work.ctx, work.space)
    facts = await work.current_facts()
    stale_ids = maintenance.outlived_facts(facts, work.ctx.clock.now())[: limits.WRITES_PER_REQUEST]
    if stale_ids:
        await retire_memories(work.ctx, MemoryForgetRequest(scope=work.scope, ids=stale_ids, reason=OUTLIVED))
    counts = {"outlived": len(stale_ids), **maintenance.over_budget(fact for fact in facts if fact.id not in stale_ids)}
    return ended_outcome(MaintenancePass.GOVERNANCE, counts, changed=len(stale_ids))


async def note_reuse(work: PassWork, /) -> PassOutcome:
    """Record the outcome of the skills that the reply used."""
    if work.reuse is None:
        return skipped_outcome(MaintenancePass.SKILL_REUSE, "nothing_reported")
    reuse = work.reuse
    report = await record_reuse(work.ctx, work.scope, reuse.names, reuse.outcome, note=reuse.note)
    counts = {reuse.outcome.value: len(report.recorded), "unknown": len(report.unknown)}
    return ended_outcome(MaintenancePass.SKILL_REUSE, counts, changed=report.changed)


async def maintain_space(work: PassWork, /) -> PassOutcome:
    """Write notes of old days, roll them into months, merge near duplicates, trim, remove expired records, govern
    skills, index."""
    note_count = await _draw_notes(work)
    rollup_count = await _roll_up(work)
    merge_count = await _reconcile_facts(work)
    trim_count = await _trim_evidence(work)
    expiry_count = await _remove_expired(work)
    skills = await govern_runtime_skills(work.ctx, RuntimeSkillGovernRequest(scope=work.scope))
    index = await work.ctx.folds.current(work.space)
    counts = {
        "notes_drawn": note_count,
        "notes_rolled_up": rollup_count,
        "facts_reconciled": merge_count,
        "facts_trimmed": trim_count,
        "records_expired": expiry_count,
        "skills_retired": len(skills.retired) + len(skills.merged),
        "skills_pruned": len(skills.pruned),
        "indexed": index.units,
    }
    return ended_outcome(
        MaintenancePass.HYGIENE,
        counts,
        changed=note_count + rollup_count + merge_count + trim_count + expiry_count + skills.changed,
    )


async def _roll_up(work: PassWork) -> int:
    """Roll daily notes older than a week into the notes of up to four months; the days are hidden, reversibly."""
    documents = await work.ctx.store.scan(work.space, continuity.NOTES, prefix=f"{work.tag}.", limit=limits.SCAN_MAX)
    notes = [continuity.DailyNote.from_bytes(document.body) for document in documents]
    visible_notes = [note for note in notes if note.forgotten_at is None]
    months = {note.period: note for note in visible_notes if note.grain is continuity.NoteGrain.MONTH}
    before = work.ctx.clock.now() - maintenance.NOTES_AFTER_DAYS * DAY_MS
    days: dict[str, list[continuity.DailyNote]] = {}
    for note in visible_notes:
        if note.grain is continuity.NoteGrain.DAY and note.observed_at < before:
            days.setdefault(maintenance.month_of(note.period), []).append(note)
    rollup_count = 0
    fitting = {period: maintenance.fitting_days(days[period], months.get(period)) for period in sorted(days)}
    for period in [period for period, month_days in fitting.items() if month_days][: maintenance.ROLLUPS]:
        month = months.get(period)
        source_notes = [*((month,) if month is not None else ()), *fitting[period]]
        cited = [citation for note in source_notes for citation in note.citations]
        draft = NoteDraft(
            period=period,
            text=maintenance.rolled_up(fitting[period], month),
            citations=tuple(dict.fromkeys(cited)),
        )
        # The month first: if interrupted in between, the days are still shown.
        await work.write(NotesWrite(notes=(draft,)))
        ids = tuple(day.id for day in fitting[period])[: limits.WRITES_PER_REQUEST]
        await retire_memories(work.ctx, MemoryForgetRequest(scope=work.scope, ids=ids, reason=IN_THE_MONTH))
        rollup_count += len(ids)
    return rollup_count


async def _reconcile_facts(work: PassWork) -> int:
    """Merge up to six pairs of facts that say nearly the same; merging can be undone."""
    report = await merge_facts(work.ctx, MemoryMergeRequest(scope=work.scope, limit=maintenance.RECONCILES))
    return sum(pair.changed for pair in report.pairs)


async def _trim_evidence(work: PassWork) -> int:
    """Cut the citations of the space's facts to the limit, with their links; return how many facts had more."""

    async def plan(record: SpaceRecord) -> SettledChanges[int]:
        changes = ChangeSet(record)
        trimmed = 0
        async for document in store.scan_documents(work.ctx.store, work.space, facts.FACTS):
            fact = facts.Fact.from_bytes(document.body)
            citations = facts.newest_citations(fact.citations)
            if citations == fact.citations or trimmed == limits.WRITES_PER_REQUEST:
                continue
            trimmed += 1
            cut = fact.model_copy(update={"citations": citations})
            changes.put(document.ref, cut, expects=document.revision, action=JournalAction.MAINTENANCE)
            before = RestingMemory(DerivedMemoryPlane.SHARED_FACT, fact.id, fact.citations)
            await unlink_left(work.ctx, work.space, record, changes, before, after=citations)
        return SettledChanges(trimmed, changes)

    trimmed, _ = await settle_changes(work.ctx, work.space, plan)
    return trimmed


async def _remove_expired(work: PassWork) -> int:
    """Erase up to `limits.WRITES_PER_REQUEST` expired records of the space; return their number."""
    now = work.ctx.clock.now()
    expired: list[str] = []
    async for document, record in records_below(work.ctx, work.space, ()):
        if record.is_expired(now):
            expired.append(id_of(document.ref))
        if len(expired) == limits.WRITES_PER_REQUEST:
            break
    return await erase_many(work.ctx, work.scope, expired) + await _remove_expired_own(work, now)


async def _remove_expired_own(work: PassWork, now: Instant) -> int:
    """Erase the runtime's own expired records of the space; return their number."""
    records = records_below(work.ctx, work.space, (), collection=RUNTIME_RECORDS)
    expired = [document.ref async for document, record in records if record.is_expired(now)][
        : limits.WRITES_PER_REQUEST
    ]
    if expired:
        await work.ctx.store.erase(ErasureTarget(space=work.space, at=now, refs=tuple(expired)))
    return len(expired)


async def _draw_notes(work: PassWork) -> int:
    """Write notes of up to four days older than a week; return how many notes were written or rewritten.

    Broken off before the last turn is written down, the days are read again and have their notes.
    """
    noted = (await read_maintained(work.ctx, work.scope, work.record)).noted
    after = transcript.turn_id(work.tag, noted)
    page = await work.ctx.store.scan(
        work.space, transcript.TURNS, prefix=f"{work.tag}.", after=after, limit=limits.SCAN_MAX
    )
    turns = [(TurnId(document.ref.key), transcript.Turn.from_bytes(document.body)) for document in page]
    proposal = draw_notes(turns, work.ctx.clock.now(), is_cut=len(page) == limits.SCAN_MAX)
    count = 0
    if proposal.drafts:
        write = NotesWrite(notes=proposal.drafts)
        plan = partial(plan_drawn_notes, work.ctx, work.scope, write, turns)
        report = await commit_write(work.ctx, work.space, MemoryWriteRequest(scope=work.scope, write=write), plan)
        work.decisions += report.decisions
        count = len(report.decisions)
    if proposal.through > noted:
        await mark_noted(work, proposal.through)
    return count
