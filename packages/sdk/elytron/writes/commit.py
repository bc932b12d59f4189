"""Commit of a planned write: planned again from fresh reads after a lost race, and answered once per key."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from elytron.context import OperationContext
from elytron.documents.stored_values import ChangeSet, opened_answer, sealed_answer
from elytron.embedding.embed_pass import nudge_embedding
from elytron.indexing.waiting_commits import fed_commit
from elytron.memories.links import link_written
from elytron.state.conversation_heads import GrownHead
from elytron.state.space_records import opening_changes
from elytron_core.contracts.transcript import MemoryWriteReport, MemoryWriteRequest, WriteDecision, WriteOutcome
from elytron_core.errors import Conflict, IdempotencyConflict
from elytron_core.ids import SpaceId
from elytron_core.model import Value, VouchedMaker
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import (
    Batch,
    BatchKey,
    CommitReceipt,
    DocumentRef,
    EntryDraft,
    JournalAction,
    RequireRevision,
    number_entries,
)

_REPORTS = VouchedMaker(MemoryWriteReport, "space", "decisions", "sequence", "changed")


@dataclass(frozen=True, slots=True)
class PlannedWrite:
    """A write ready to commit.

    `about` is the subject of its journal entry if nothing changes; `grown` is the head that other writes may build on.
    `beside` is committed in the same batch, and no part of the report.
    """

    changes: ChangeSet
    decisions: tuple[WriteDecision, ...]
    about: DocumentRef
    requires: tuple[RequireRevision, ...] = ()
    grown: GrownHead | None = None
    beside: ChangeSet | None = None

    def report(self, space: SpaceId, /, *, sequence: int = 0) -> MemoryWriteReport:
        """Return the receipt of the write once it is committed at `sequence`."""
        return _REPORTS.make(space=space, decisions=self.decisions, sequence=sequence, changed=bool(self.changes))


Plan = Callable[[SpaceRecord], Awaitable[PlannedWrite]]


async def commit_write(
    ctx: OperationContext, space: SpaceId, request: MemoryWriteRequest, plan: Plan, /
) -> MemoryWriteReport:
    """Plan and commit until no other commit interferes; return the report with its sequence.

    `plan` reads, judges and ends without waiting, so that what it took from the runtime's memory (see `Heads`) is
    still true when the batch is handed to the store. Raises the last Conflict after `RACES` lost ones.
    """
    async with ctx.lines.race(space) as change_line:
        while True:
            record, is_new = await ctx.spaces.found_or_new(space)
            planned_write = await plan(record)
            await link_written(ctx, space, record, planned_write.changes)
            if request.dry_run:
                return _rehearsed_report(planned_write.report(space))
            is_recorded = bool(planned_write.changes) or request.idempotency_key is not None
            if not is_recorded and not planned_write.beside:
                return planned_write.report(space)
            # Writes that build on a head are grouped with the others of its line.
            if await (
                change_line.waited(planned_write.about)
                if planned_write.grown is None
                else change_line.held_back(planned_write.about)
            ):
                continue
            batch = _write_batch(ctx, space, request, record, planned_write, is_new=is_new)
            try:
                receipt = await _commit_batch(ctx, batch, planned_write.grown)
            except IdempotencyConflict:
                ctx.spaces.forget(space)
                if await ctx.spaces.find(space) == record:
                    raise
                # Judged with the secret of a record that was not stored: a first write that was not the first.
                continue
            except Conflict as conflict:
                ctx.spaces.forget(space)
                await change_line.lost(conflict, planned_write.about if planned_write.grown is None else None)
                continue
            if receipt.replayed:
                return _first_report(request, record, receipt)
            _tell_fold(ctx, batch, planned_write, receipt)
            # Entries of `beside` follow the write's own, and are no part of its report.
            companion_count = len(planned_write.beside.entries) if planned_write.beside else 0
            return planned_write.report(space, sequence=receipt.last - companion_count if is_recorded else 0)


def _tell_fold(ctx: OperationContext, batch: Batch, planned_write: PlannedWrite, receipt: CommitReceipt) -> None:
    """Feed the index of the space with what was committed, and request its vectors."""
    entries = number_entries(batch, after=receipt.first - 1)
    if not planned_write.changes.deletes:  # deletions are left to the journal
        ctx.folds.feed(batch.space, fed_commit(entries, planned_write.changes.folded))
    nudge_embedding(ctx, batch.space)


def _first_report(request: MemoryWriteRequest, record: SpaceRecord, receipt: CommitReceipt) -> MemoryWriteReport:
    """Return the report of the first write with this key."""
    assert request.idempotency_key is not None
    stored_answer = opened_answer(receipt.answer, record, request.idempotency_key, request.write.to_bytes())
    first_report = MemoryWriteReport.from_bytes(stored_answer)
    return first_report.model_copy(update={"sequence": receipt.last, "duplicated": True})


async def _commit_batch(ctx: OperationContext, batch: Batch, grown_head: GrownHead | None) -> CommitReceipt:
    """Commit `batch`; others build on its expected head, unless the commit fails."""
    if grown_head is None:
        return await ctx.store.commit(batch)
    # Before the commit, so that concurrent writes build on it and share its flush.
    ctx.heads.expect(batch.space, grown_head)
    try:
        receipt = await ctx.store.commit(batch)
    except BaseException:
        ctx.heads.drop(batch.space, grown_head)
        raise
    (ctx.heads.drop if receipt.replayed else ctx.heads.confirm)(batch.space, grown_head)
    return receipt


def _rehearsed_report(report: MemoryWriteReport) -> MemoryWriteReport:
    """Return the report of a write that was only judged; what was not stored has no id yet."""
    reported_outcomes = {WriteOutcome.CONFIRMED, WriteOutcome.DUPLICATE, WriteOutcome.SKIPPED}
    decisions = tuple(
        decision if decision.outcome in reported_outcomes else decision.model_copy(update={"id": None})
        for decision in report.decisions
    )
    return report.model_copy(update={"decisions": decisions, "changed": False, "dry_run": True})


def _write_batch(
    ctx: OperationContext,
    space: SpaceId,
    request: MemoryWriteRequest,
    record: SpaceRecord,
    planned_write: PlannedWrite,
    *,
    is_new: bool,
) -> Batch:
    puts, requires, entries = opening_changes(record, is_new=is_new)
    idempotency = None
    if request.idempotency_key is not None:
        key, write_bytes = request.idempotency_key, request.write.to_bytes()
        sealed_report = sealed_answer(planned_write.report(space).to_bytes(), record, key, write_bytes)
        idempotency = BatchKey(key, record.digest(write_bytes), sealed_report)
    companion_changes = planned_write.beside or ChangeSet(record)
    has_entries = planned_write.changes.entries or companion_changes.entries
    own_entries = (
        planned_write.changes.entries if has_entries else (EntryDraft(JournalAction.WRITE, planned_write.about),)
    )
    return Batch(
        space=space,
        at=ctx.clock.now(),
        entries=(*entries, *own_entries, *companion_changes.entries),
        puts=(*puts, *planned_write.changes.puts, *companion_changes.puts),
        deletes=(*planned_write.changes.deletes, *companion_changes.deletes),
        requires=(*requires, *planned_write.requires, *planned_write.changes.requires, *companion_changes.requires),
        idempotency=idempotency,
    )


SettledT = TypeVar("SettledT")
ReportT = TypeVar("ReportT", bound=Value)


@dataclass(frozen=True, slots=True)
class SettledChanges(Generic[SettledT]):
    """A report, and the changes to commit before it, if any."""

    report: SettledT
    changes: ChangeSet | None = None


async def settle_report(
    ctx: OperationContext,
    space: SpaceId,
    plan: Callable[[SpaceRecord], Awaitable[SettledChanges[ReportT]]],
    /,
    *,
    takes_back: bool = False,
) -> ReportT:
    """Settle `plan` as `settle_changes` does and return its report with the journal sequence."""
    report, sequence = await settle_changes(ctx, space, plan, takes_back=takes_back)
    return report.model_copy(update={"sequence": sequence})


async def settle_changes(
    ctx: OperationContext,
    space: SpaceId,
    plan: Callable[[SpaceRecord], Awaitable[SettledChanges[SettledT]]],
    /,
    *,
    takes_back: bool = False,
) -> tuple[SettledT, int]:
    """Plan and commit until no other commit interferes; return report and journal sequence (0: nothing to commit).

    With `takes_back`, a store that is full takes it too (see `Batch`).
    Raises the last Conflict after `RACES` lost ones.
    """
    async with ctx.lines.race(space) as change_line:
        while True:
            record, is_new = await ctx.spaces.found_or_new(space)
            settled_changes = await plan(record)
            changes = settled_changes.changes or ChangeSet(record)
            puts, deletes = changes.puts, changes.deletes
            if not puts and not deletes:
                return settled_changes.report, 0
            # A plan writes last the documents that similar plans write too: the queue, a count, a candidate.
            contested_ref = (puts or deletes)[-1].ref
            if await change_line.waited(contested_ref):
                continue
            opening_puts, requires, opening_entries = opening_changes(record, is_new=is_new)
            batch = Batch(
                space=space,
                at=ctx.clock.now(),
                entries=(*opening_entries, *changes.entries),
                puts=(*opening_puts, *puts),
                deletes=deletes,
                requires=(*requires, *changes.requires),
                takes_back=takes_back,
            )
            try:
                return settled_changes.report, (await ctx.store.commit(batch)).last
            except Conflict as conflict:
                ctx.spaces.forget(space)
                await change_line.lost(conflict, contested_ref)
