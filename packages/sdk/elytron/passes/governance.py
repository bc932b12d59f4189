"""Governance without a model: it hides expired content, counts how often skills helped, and does the space's upkeep."""

from functools import partial

from elytron.documents.planes import id_of
from elytron.documents.stored_values import ChangeSet
from elytron.erasure.removal import erase_many
from elytron.memories.links import RestingMemory, unlink_left
from elytron.ops.facts import merge_facts
from elytron.ops.memories import retire_memories
from elytron.ops.skills import govern_runtime_skills
from elytron.passes.pass_work import PassWork, ended_outcome, mark_noted, read_maintained, skipped_outcome
from elytron.writes.commit import SettledChanges, commit_write, settle_changes
from elytron.writes.continuity import plan_drawn_notes
from elytron.writes.facts import keep_uses
from elytron.writes.records import records_below
from elytron.writes.skills import record_reuse
from elytron_core import limits
from elytron_core.clock import DAY_MS, Instant
from elytron_core.contracts.continuity import NoteDraft, NotesWrite
from elytron_core.contracts.facts import MemoryMergeRequest
from elytron_core.contracts.maintenance.maintenance import PassOutcome
from elytron_core.contracts.memories import MemoryForgetRequest
from elytron_core.contracts.skills import RuntimeSkillGovernRequest
from elytron_core.contracts.transcript import MemoryWriteRequest
from elytron_core.ids import TurnId
from elytron_core.planes import continuity, facts, transcript
from elytron_core.planes.jobs import MaintenancePass
from elytron_core.planes.records import RUNTIME_RECORDS
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.transcript import DerivedMemoryPlane
from elytron_core.policy import maintenance
from elytron_core.policy.continuity import draw_notes
from elytron_core.ports import store
from elytron_core.ports.store import ErasureTarget, JournalAction

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
    skill_reuse = work.reuse
    report = await record_reuse(work.ctx, work.scope, skill_reuse.names, skill_reuse.outcome, note=skill_reuse.note)
    counts = {skill_reuse.outcome.value: len(report.recorded), "unknown": len(report.unknown)}
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
    month_notes = {note.period: note for note in visible_notes if note.grain is continuity.NoteGrain.MONTH}
    cutoff = work.ctx.clock.now() - maintenance.NOTES_AFTER_DAYS * DAY_MS
    days_by_month: dict[str, list[continuity.DailyNote]] = {}
    for note in visible_notes:
        if note.grain is continuity.NoteGrain.DAY and note.observed_at < cutoff:
            days_by_month.setdefault(maintenance.month_of(note.period), []).append(note)
    rollup_count = 0
    fitting_days = {
        period: maintenance.fitting_days(days_by_month[period], month_notes.get(period))
        for period in sorted(days_by_month)
    }
    for period in [period for period, month_days in fitting_days.items() if month_days][: maintenance.ROLLUPS]:
        month_note = month_notes.get(period)
        source_notes = [*((month_note,) if month_note is not None else ()), *fitting_days[period]]
        cited_ids = [citation for note in source_notes for citation in note.citations]
        draft = NoteDraft(
            period=period,
            text=maintenance.rolled_up(fitting_days[period], month_note),
            citations=tuple(dict.fromkeys(cited_ids)),
        )
        # The month first: if interrupted in between, the days are still shown.
        await work.write(NotesWrite(notes=(draft,)))
        day_ids = tuple(day.id for day in fitting_days[period])[: limits.WRITES_PER_REQUEST]
        await retire_memories(work.ctx, MemoryForgetRequest(scope=work.scope, ids=day_ids, reason=IN_THE_MONTH))
        rollup_count += len(day_ids)
    return rollup_count


async def _reconcile_facts(work: PassWork) -> int:
    """Merge up to six pairs of facts that say nearly the same; merging can be undone."""
    report = await merge_facts(work.ctx, MemoryMergeRequest(scope=work.scope, limit=maintenance.RECONCILES))
    return sum(pair.changed for pair in report.pairs)


async def _trim_evidence(work: PassWork) -> int:
    """Cut the citations of the space's facts to the limit, with their links; return how many facts had more."""

    async def plan(record: SpaceRecord) -> SettledChanges[int]:
        changes = ChangeSet(record)
        trimmed_count = 0
        async for document in store.scan_documents(work.ctx.store, work.space, facts.FACTS):
            fact = facts.Fact.from_bytes(document.body)
            citations = facts.newest_citations(fact.citations)
            if citations == fact.citations or trimmed_count == limits.WRITES_PER_REQUEST:
                continue
            trimmed_count += 1
            trimmed_fact = fact.model_copy(update={"citations": citations})
            changes.put(document.ref, trimmed_fact, expects=document.revision, action=JournalAction.MAINTENANCE)
            former_memory = RestingMemory(DerivedMemoryPlane.SHARED_FACT, fact.id, fact.citations)
            await unlink_left(work.ctx, work.space, record, changes, former_memory, after=citations)
        return SettledChanges(trimmed_count, changes)

    trimmed_count, _ = await settle_changes(work.ctx, work.space, plan)
    return trimmed_count


async def _remove_expired(work: PassWork) -> int:
    """Erase up to `limits.WRITES_PER_REQUEST` expired records of the space; return their number."""
    now = work.ctx.clock.now()
    expired_ids: list[str] = []
    async for document, record in records_below(work.ctx, work.space, ()):
        if record.is_expired(now):
            expired_ids.append(id_of(document.ref))
        if len(expired_ids) == limits.WRITES_PER_REQUEST:
            break
    return await erase_many(work.ctx, work.scope, expired_ids) + await _remove_expired_own(work, now)


async def _remove_expired_own(work: PassWork, now: Instant) -> int:
    """Erase the runtime's own expired records of the space; return their number."""
    records = records_below(work.ctx, work.space, (), collection=RUNTIME_RECORDS)
    expired_refs = [document.ref async for document, record in records if record.is_expired(now)][
        : limits.WRITES_PER_REQUEST
    ]
    if expired_refs:
        await work.ctx.store.erase(ErasureTarget(space=work.space, at=now, refs=tuple(expired_refs)))
    return len(expired_refs)


async def _draw_notes(work: PassWork) -> int:
    """Write notes of up to four days older than a week; return how many notes were written or rewritten.

    Broken off before the last turn is written down, the days are read again and have their notes.
    """
    noted_sequence = (await read_maintained(work.ctx, work.scope, work.record)).noted
    key_before = transcript.turn_id(work.tag, noted_sequence)
    page = await work.ctx.store.scan(
        work.space, transcript.TURNS, prefix=f"{work.tag}.", after=key_before, limit=limits.SCAN_MAX
    )
    turns = [(TurnId(document.ref.key), transcript.Turn.from_bytes(document.body)) for document in page]
    proposal = draw_notes(turns, work.ctx.clock.now(), is_cut=len(page) == limits.SCAN_MAX)
    decision_count = 0
    if proposal.drafts:
        write = NotesWrite(notes=proposal.drafts)
        plan = partial(plan_drawn_notes, work.ctx, work.scope, write, turns)
        report = await commit_write(work.ctx, work.space, MemoryWriteRequest(scope=work.scope, write=write), plan)
        work.decisions += report.decisions
        decision_count = len(report.decisions)
    if proposal.through > noted_sequence:
        await mark_noted(work, proposal.through)
    return decision_count
