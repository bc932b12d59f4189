"""Import mode `bootstrap`: new content of an archive is added to a space that may hold memories.

Its commits are rehearsed first and merged into one batch. Nothing is stored before that.
"""

import asyncio
from bisect import bisect_left
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice
from typing import NamedTuple, TypeVar

from elytron.context import OperationContext
from elytron.documents.planes import BOOTSTRAP_HOMES
from elytron.embedding.embed_pass import nudge_embedding
from elytron.indexing.index_manager import SpaceIndexes
from elytron.intake import OwnOutput, find_future_claims, scrub_request
from elytron.state.change_lines import ChangeLines, LostRaces
from elytron.state.conversation_heads import HeadCache
from elytron.state.encoders import RuntimeEncoders
from elytron.state.space_records import SpaceRecords
from elytron.transcript import with_founded_citations
from elytron.transfer.archive import GUARDS, ArchiveReader, bring_documents, bring_guards
from elytron.transfer.restore import ArchiveSurvey, in_thread, survey_archive
from elytron.writes.commit import commit_write
from elytron.writes.facts import draft_of, plan_facts
from elytron.writes.skills import plan_skills
from elytron.writes.transcript import ChangedTurn, TurnRules, plan_turns
from elytron_core import limits
from elytron_core.clock import Instant
from elytron_core.contracts.archive import ArchiveWord, ImportMode, MemoryImportReport
from elytron_core.contracts.facts import FactDraft
from elytron_core.contracts.transcript import (
    LongTermExtraction,
    MemoryWriteReport,
    MemoryWriteRequest,
    ProcedureSource,
    RuntimeSkillWrite,
    TranscriptWrite,
    TurnDraft,
    WriteDecision,
    WriteOutcome,
)
from elytron_core.errors import Conflict, LimitExceeded
from elytron_core.ids import SpaceId, TurnId
from elytron_core.planes import embedding, transcript
from elytron_core.planes import facts as planes_facts
from elytron_core.planes.facts import is_replaceable
from elytron_core.planes.skills import SKILLS, Skill, SkillSource
from elytron_core.planes.space import COLLECTIONS, SPACE, SpaceRecord
from elytron_core.planes.transcript import cited_turn
from elytron_core.policy.admission.rules import as_claims
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    JournalEntry,
    PutChange,
    RequireRevision,
    Store,
    count_scanned,
    scan_entries,
)
from elytron_core.scope import ConversationKey, FutureClaim, Scope
from elytron_store.engine import PassingStore

_BEYOND = 1 << 62
"""A sequence that no journal has: rehearsed entries never mix with those of the store."""
_WAY_OUT = "restore it in full into an empty space, or export less of it; nothing was stored"


class RehearsalStore(PassingStore):
    """A store that collects the commits to one space, and reads its documents as these commits would leave them.

    The journal, blobs and other spaces are read from the store.
    """

    def __init__(self, store: Store, space: SpaceId, /) -> None:
        super().__init__(store)
        self._space = space
        self._overlays: dict[str, dict[str, Document | None]] = {}
        self._expects: dict[DocumentRef, int] = {}
        self._requires: dict[DocumentRef, RequireRevision] = {}
        self._entries: list[EntryDraft] = []
        self._bytes = 0

    @property
    def changed(self) -> Collection[DocumentRef]:
        """The committed documents."""
        return self._expects.keys()

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        """Add `batch`. Raises LimitExceeded if everything together exceeds one import."""
        # Other tasks run between the parts of a long import.
        await asyncio.sleep(0)
        for require in batch.requires:
            if require.ref not in self._expects:
                self._requires.setdefault(require.ref, require)
        # The first expectation counts: it is about the store's state.
        for change in batch.puts:
            self._expects.setdefault(change.ref, change.expects)
            self._leave(change.ref, Document(change.ref, change.expects + 1, change.body))
        for delete in batch.deletes:
            self._expects.setdefault(delete.ref, delete.expects)
            self._leave(delete.ref, None)
        for entry in batch.entries:
            entry_at = batch.at if entry.at is None else entry.at
            self._entries.append(EntryDraft(entry.action, entry.ref, entry.digest, entry_at, entry.covers))
        self._require_bounds()
        return CommitReceipt(_BEYOND, _BEYOND + len(batch.entries) - 1)

    def merged(self, *, at: Instant) -> Batch | None:
        """Return all commits as one batch; None if there were none."""
        if not self._entries:
            return None
        return self._merged(at)

    def _merged(self, at: Instant) -> Batch:
        puts: list[PutChange] = []
        deletes: list[DeleteChange] = []
        requires = list(self._requires.values())
        for ref, expected_revision in self._expects.items():
            document = self._overlays[ref.collection][ref.key]
            if document is not None:
                puts.append(PutChange(ref, document.body, expected_revision))
            elif expected_revision:
                deletes.append(DeleteChange(ref, expected_revision))
            elif ref not in self._requires:
                # Created and removed within the import: all that is left is that it is absent.
                requires.append(RequireRevision(ref, 0))
        return Batch(
            space=self._space,
            at=at,
            entries=tuple(self._entries),
            puts=tuple(puts),
            deletes=tuple(deletes),
            requires=tuple(requires),
            is_import=True,
        )

    async def get(self, space: SpaceId, refs: Sequence[DocumentRef], /) -> Sequence[Document | None]:
        """Return the documents as the commits would leave them."""
        documents = await self._inner.get(space, refs)
        if space != self._space:
            return documents
        return [
            self._overlays.get(ref.collection, {}).get(ref.key, document)
            for ref, document in zip(refs, documents, strict=True)
        ]

    async def scan(
        self,
        space: SpaceId,
        collection: str,
        /,
        *,
        prefix: str = "",
        after: str = "",
        limit: int,
        descending: bool = False,
    ) -> Sequence[Document]:
        """Return the documents of a collection as the commits would leave them."""
        overlay = self._overlays.get(collection) if space == self._space else None
        if not overlay:
            return await super().scan(space, collection, prefix=prefix, after=after, limit=limit, descending=descending)
        documents: list[Document] = []
        while len(documents) < limit:
            page = await self._inner.scan(
                space, collection, prefix=prefix, after=after, limit=limit, descending=descending
            )
            key_window = _KeyWindow(prefix, after, page[-1].ref.key if page else "", descending)
            window_documents = [
                document for key, document in overlay.items() if document is not None and key_window.has(key)
            ]
            window_documents += [document for document in page if document.ref.key not in overlay]
            documents += sorted(window_documents, key=lambda document: document.ref.key, reverse=descending)
            if not page:
                break
            after = key_window.last
        return documents[:limit]

    async def count(self, space: SpaceId, collection: str, /) -> int:
        """Return the number of documents as the commits would leave them."""
        if space != self._space or not self._overlays.get(collection):
            return await super().count(space, collection)
        return await count_scanned(self, space, collection)

    def _leave(self, ref: DocumentRef, document: Document | None) -> None:
        collection = self._overlays.setdefault(ref.collection, {})
        earlier_document = collection.get(ref.key)
        self._bytes += _document_size(document) - _document_size(earlier_document)
        collection[ref.key] = document

    def _require_bounds(self) -> None:
        changes = len(self._expects) + len(self._requires) + len(self._entries)
        for bound_name, allowed_amount, actual_amount in (
            ("changes in one import", limits.IMPORT_CHANGES, changes),
            ("bytes in one import", limits.IMPORT_BYTES, self._bytes),
        ):
            if actual_amount > allowed_amount:
                raise LimitExceeded(what=bound_name, limit=allowed_amount, way_out=_WAY_OUT)


class _KeyWindow(NamedTuple):
    """The keys with a prefix after `after` and up to `last`; unbounded if `last` is empty."""

    prefix: str
    after: str
    last: str
    descending: bool

    def has(self, key: str, /) -> bool:
        """Return whether `key` is one of them."""
        return (
            key.startswith(self.prefix)
            and self._behind(key, self.after)
            and not (self.last and self._behind(key, self.last))
        )

    def _behind(self, key: str, place: str) -> bool:
        return not place or (key < place if self.descending else key > place)


def _document_size(document: Document | None) -> int:
    return 0 if document is None else len(document.body)


async def turns_here(ctx: OperationContext, scope: Scope, survey: ArchiveSurvey) -> set[DocumentRef]:
    """Return which of the archive's turns this very space contains: keyed tags never match by chance."""
    return await _present_refs(ctx, scope, [ref for ref in survey.bootstrap_refs if ref.collection == transcript.TURNS])


async def erased_here(
    ctx: OperationContext, scope: Scope, reader: ArchiveReader, survey: ArchiveSurvey
) -> set[DocumentRef]:
    """Return what of the archive this very space once contained and no longer does: its journal still names it."""
    archive_refs, record = survey.bootstrap_refs, survey.record
    journal_refs: set[DocumentRef] = set()
    runs: list[JournalEntry] = []
    async for entry in scan_entries(ctx.store, scope.space):
        if entry.covers > 1:
            runs.append(entry)
        elif entry.ref in archive_refs:
            journal_refs.add(entry.ref)
    if runs and record is not None and await ctx.spaces.find(scope.space) == SpaceRecord.from_bytes(record.body):
        # Entries of the archive's journal at a compacted run of ours were erased here too.
        run_ends = [compacted_run.sequence for compacted_run in runs]
        for entry in reader.entries():
            run_index = bisect_left(run_ends, entry.sequence)
            if run_index < len(runs) and runs[run_index].first <= entry.sequence and entry.ref in archive_refs:
                journal_refs.add(entry.ref)
    return journal_refs - await _present_refs(ctx, scope, sorted(journal_refs))


async def _present_refs(ctx: OperationContext, scope: Scope, refs: Sequence[DocumentRef]) -> set[DocumentRef]:
    present_refs: set[DocumentRef] = set()
    for start in range(0, len(refs), limits.SCAN_MAX):
        documents = await ctx.store.get(scope.space, refs[start : start + limits.SCAN_MAX])
        present_refs |= {document.ref for document in documents if document is not None}
    return present_refs


@dataclass(frozen=True, slots=True)
class ArchivedTurn:
    """A turn of an archive, and which of its messages are imported, in order."""

    turn: TurnId
    parts: tuple[int, ...]


DraftT = TypeVar("DraftT", FactDraft, RuntimeSkillWrite)


class RenamedTurns:
    """New ids of the turns imported so far."""

    def __init__(self) -> None:
        self._places: dict[tuple[TurnId, int], str] = {}
        self._turns: dict[TurnId, TurnId] = {}

    def note(self, sources: Iterable[ArchivedTurn], decisions: Sequence[WriteDecision], /) -> None:
        """Record the outcome of each of `sources`."""
        for archived_turn, decision in zip(sources, decisions, strict=True):
            if decision.id is not None:
                turn = self._turns[archived_turn.turn] = TurnId(decision.id)
                for part, old_part in enumerate(archived_turn.parts):
                    self._places[archived_turn.turn, old_part] = transcript.message_id(turn, part)

    def cited_anew(self, draft: DraftT, /) -> DraftT:
        """Return a fact or skill that cites its turns by their new ids."""
        return draft.model_copy(update={"citations": tuple(dict.fromkeys(map(self._new, draft.citations)))})

    def _new(self, citation: str) -> str:
        cited_place = cited_turn(citation)
        if cited_place is None:
            return citation
        turn, part = cited_place
        return self._turns.get(turn, citation) if part is None else self._places.get((turn, part), citation)


TURNS_PER_WRITE = 200
MESSAGES = "messages"
REBUILT = frozenset(
    {
        SPACE,
        transcript.CONVERSATIONS,
        transcript.TURN_NAMES,
        planes_facts.SLOTS,
        transcript.DERIVED_REFS,
        embedding.VECTORS,
        embedding.TAG_LINKS,
    }
)
"""Collections that are rebuilt from what mode `bootstrap` imports."""
UNBROUGHT = frozenset(COLLECTIONS) - REBUILT - GUARDS - {transcript.TURNS, planes_facts.FACTS, SKILLS, *BOOTSTRAP_HOMES}
"""Collections from which mode `bootstrap` imports nothing."""
DOCUMENTS_PER_PART = 256
_STORED_OUTCOMES = frozenset({WriteOutcome.STORED, WriteOutcome.UPDATED})


async def bootstrap_space(
    ctx: OperationContext, scope: Scope, reader: ArchiveReader, /, *, word: ArchiveWord, dry_run: bool
) -> MemoryImportReport:
    """Add the archive's new turns and records, and its newest version of each fact and skill.

    Turns keep their conversations, or all go to the scope's if it names one. Repeating it changes nothing. What was
    erased in this very space since the archive was taken stays erased. Citations of messages that are not here are
    dropped. It is one commit, so it is whole or absent. After a lost race, other changes of the same documents and
    conversations in this runtime wait until it is through.

    Raises, with nothing stored, LimitExceeded if it exceeds one import, StoreBudgetExceeded if a bounded store has no
    room for it, and the last Conflict after `RACES` lost ones.
    """
    survey = await asyncio.to_thread(survey_archive, reader)
    lost_races = LostRaces()
    with ExitStack() as held_locks:
        while True:
            local_refs = await turns_here(ctx, scope, survey) | await erased_here(ctx, scope, reader, survey)
            rehearsal = RehearsalStore(ctx.store, scope.space)
            report = await _add_archive(
                _rehearsal_context(ctx, rehearsal), scope, reader, local_refs, survey.counts, word=word
            )
            batch = await asyncio.to_thread(rehearsal.merged, at=ctx.clock.now())
            if dry_run:
                return report.model_copy(update={"changed": False, "dry_run": True})
            if batch is None:
                return report
            try:
                receipt = await ctx.store.commit(batch)
            except Conflict as conflict:
                ctx.spaces.forget(scope.space)
                await lost_races.lost(conflict)
                held_locks.enter_context(ctx.lines.hold_documents(scope.space, rehearsal.changed))
                continue
            nudge_embedding(ctx, scope.space)
            return report.model_copy(update={"sequence": receipt.last})


def _rehearsal_context(ctx: OperationContext, rehearsal: RehearsalStore) -> OperationContext:
    """Return a context in which nothing rehearsed reaches the runtime's caches of its store."""
    spaces = SpaceRecords(rehearsal, ctx.clock, ctx.ids)
    return replace(
        ctx,
        store=rehearsal,
        spaces=spaces,
        heads=HeadCache(rehearsal),
        folds=SpaceIndexes(
            rehearsal, forget=spaces.forget, max_bytes=1, max_spaces=1, statements=ctx.models.statements
        ),
        encoders=RuntimeEncoders(ctx.clock, current=None, former=None),
        lines=ChangeLines(),
    )


async def _add_archive(
    ctx: OperationContext,
    scope: Scope,
    reader: ArchiveReader,
    local_refs: set[DocumentRef],
    counts: Mapping[str, int],
    /,
    *,
    word: ArchiveWord,
) -> MemoryImportReport:
    """Write what is new in the archive, plane by plane, and count the outcomes."""
    imported_counts: Counter[str] = Counter()
    skipped_counts: Counter[str] = Counter()
    deleted_counts: Counter[str] = Counter()
    skipped_counts.update(ref.collection for ref in local_refs)
    left_out = Counter({name: count for name, count in counts.items() if name in UNBROUGHT})
    renamed_turns = RenamedTurns()
    future_claims: list[FutureClaim] = []
    async for plane, archive_write, target_scope, sources in _archive_writes(
        scope, reader, local_refs, left_out, now=ctx.clock.now()
    ):
        marked_write = as_claims(archive_write) if word is ArchiveWord.CLAIMED else archive_write
        write = _cited_anew(marked_write, renamed_turns)
        report = await _commit_part(ctx, target_scope, MemoryWriteRequest(scope=target_scope, write=write), write)
        future_claims += find_future_claims(ctx, write, plane)
        renamed_turns.note(sources, report.decisions if sources else ())
        stored_count = sum(decision.outcome in _STORED_OUTCOMES for decision in report.decisions)
        deleted_count = report.count(WriteOutcome.DELETED)
        imported_counts[plane] += stored_count
        deleted_counts[plane] += deleted_count
        skipped_counts[plane] += len(report.decisions) - stored_count - deleted_count
    async for collection, part in in_thread(_archive_parts(reader, BOOTSTRAP_HOMES, local_refs)):
        part_count = await bring_documents(ctx, scope, collection, part)
        imported_counts[collection] += part_count.stored
        skipped_counts[collection] += part_count.skipped
    if not GUARDS.isdisjoint(counts):
        # After the facts: what the archive believes was allowed there.
        home_of = partial(_home_of, scope)
        for collection, part_count in (
            await bring_guards(ctx, scope, reader, local_refs, home_of=home_of, word=word)
        ).items():
            imported_counts[collection] += part_count.stored
            skipped_counts[collection] += part_count.skipped
    return MemoryImportReport(
        space=scope.space,
        mode=ImportMode.BOOTSTRAP,
        contents=dict(counts),
        imported={name: count for name, count in imported_counts.items() if count},
        skipped={name: count for name, count in skipped_counts.items() if count},
        deleted={name: count for name, count in deleted_counts.items() if count},
        left_out=dict(sorted(left_out.items())),
        future_claims=tuple(future_claims[: limits.FUTURE_CLAIMS]),
        changed=bool(imported_counts.total() + deleted_counts.total()),
    )


Write = TranscriptWrite | LongTermExtraction | ProcedureSource


class _ToldPart(NamedTuple):
    """A part of an archive as a write, and the turns that it contains."""

    plane: str
    write: Write
    scope: Scope
    sources: tuple[ArchivedTurn, ...] = ()


def _cited_anew(write: Write, renamed: RenamedTurns) -> Write:
    """Return facts and skills that cite what was imported with them by its ids here."""
    match write:
        case LongTermExtraction(facts=facts):
            return write.model_copy(update={"facts": tuple(map(renamed.cited_anew, facts))})
        case ProcedureSource(writes=skills):
            return write.model_copy(update={"writes": tuple(map(renamed.cited_anew, skills))})
        case TranscriptWrite():
            return write


async def _commit_part(
    ctx: OperationContext, scope: Scope, request: MemoryWriteRequest, write: Write
) -> MemoryWriteReport:
    # An archive may be older than a rule, or foreign.
    scrubbed_request, _ = await scrub_request(write, own=OwnOutput.STRIP)
    match scrubbed_request:
        case TranscriptWrite():
            plan = partial(plan_turns, ctx, scope, scrubbed_request, TurnRules(ChangedTurn.KEEP_FIRST))
        case LongTermExtraction():
            plan = partial(plan_facts, ctx, scope, await with_founded_citations(ctx, scope.space, scrubbed_request))
        case ProcedureSource():
            plan = partial(plan_skills, ctx, scope, await with_founded_citations(ctx, scope.space, scrubbed_request))
    return await commit_write(ctx, scope.space, request, plan)


def _archive_parts(
    reader: ArchiveReader, collections: Collection[str], local_refs: Collection[DocumentRef]
) -> Iterator[tuple[str, list[Document]]]:
    """Yield the archive's documents of `collections` in parts of one collection each, without `local_refs`."""
    new_documents = (
        one for one in reader.documents() if one.ref.collection in collections and one.ref not in local_refs
    )
    for collection, documents in groupby(new_documents, key=lambda document: document.ref.collection):
        while documents_part := list(islice(documents, DOCUMENTS_PER_PART)):
            yield collection, documents_part


async def _archive_documents(reader: ArchiveReader, local_refs: Collection[DocumentRef]) -> AsyncIterator[Document]:
    async for _, part in in_thread(_archive_parts(reader, (transcript.TURNS, planes_facts.FACTS, SKILLS), local_refs)):
        for document in part:
            yield document


async def _archive_writes(
    scope: Scope, reader: ArchiveReader, local_refs: Collection[DocumentRef], left_out: Counter[str], *, now: Instant
) -> AsyncIterator[_ToldPart]:
    """Yield the archive as writes, without those at `local_refs`: turns by conversation, then facts, then skills.

    What is hidden, closed or retired is counted in `left_out`.
    """
    pending_turns: list[tuple[TurnDraft, ArchivedTurn]] = []
    key: ConversationKey | None = None
    facts: dict[ConversationKey | None, list[FactDraft]] = {}
    skills: dict[SkillSource, list[RuntimeSkillWrite]] = {}
    async for document in _archive_documents(reader, local_refs):
        match document.ref.collection:
            case transcript.TURNS:
                turn = transcript.Turn.from_bytes(document.body)
                draft = _turn_draft(document, turn)
                if draft is None:
                    left_out[transcript.TURNS] += 1
                    continue
                if hidden_count := len(turn.messages) - len(turn.erased) - len(draft.messages):
                    left_out[MESSAGES] += hidden_count
                turn_key = ConversationKey(turn.channel, turn.conversation)
                if pending_turns and (turn_key != key or len(pending_turns) == TURNS_PER_WRITE):
                    assert key is not None
                    yield _turn_writes(pending_turns, _target_scope(scope, key))
                    pending_turns = []
                key = turn_key
                kept_parts = tuple(filter(turn.is_kept, range(len(turn.messages))))
                pending_turns.append((draft, ArchivedTurn(TurnId(document.ref.key), kept_parts)))
            case planes_facts.FACTS:
                fact = planes_facts.Fact.from_bytes(document.body)
                if is_replaceable(fact, at=now):
                    facts.setdefault(fact.home, []).append(draft_of(fact, citations=fact.citations))
                else:
                    left_out[planes_facts.FACTS] += 1
            case _:
                skill = Skill.from_bytes(document.body)
                if skill.is_recallable:
                    skills.setdefault(skill.source, []).append(_skill_write(skill))
                else:
                    left_out[SKILLS] += 1
    if pending_turns and key is not None:
        yield _turn_writes(pending_turns, _target_scope(scope, key))
    for belief_part in _belief_writes(scope, facts, skills):
        yield belief_part


def _belief_writes(
    scope: Scope,
    facts: dict[ConversationKey | None, list[FactDraft]],
    skills: dict[SkillSource, list[RuntimeSkillWrite]],
) -> Iterator[_ToldPart]:
    for home_key, drafts in facts.items():
        target_scope = _target_scope(scope, home_key) if home_key is not None else scope
        for start in range(0, len(drafts), TURNS_PER_WRITE):
            facts_part = tuple(drafts[start : start + TURNS_PER_WRITE])
            yield _ToldPart(planes_facts.FACTS, LongTermExtraction(facts=facts_part), target_scope)
    for source, writes in skills.items():
        for start in range(0, len(writes), TURNS_PER_WRITE):
            skills_part = tuple(writes[start : start + TURNS_PER_WRITE])
            yield _ToldPart(SKILLS, ProcedureSource(writes=skills_part, source=source), scope)


def _turn_writes(sourced_drafts: Sequence[tuple[TurnDraft, ArchivedTurn]], target_scope: Scope) -> _ToldPart:
    write = TranscriptWrite(turns=tuple(draft for draft, _ in sourced_drafts), origin=transcript.TurnOrigin.IMPORTED)
    return _ToldPart(transcript.TURNS, write, target_scope, tuple(source for _, source in sourced_drafts))


def _target_scope(scope: Scope, key: ConversationKey) -> Scope:
    if scope.conversation is not None or scope.chat is not None:
        return scope
    return scope.model_copy(update={"channel": key.channel, "conversation": key.conversation})


def _home_of(scope: Scope, key: ConversationKey) -> ConversationKey:
    return _target_scope(scope, key).conversation_key


def _turn_draft(document: Document, turn: transcript.Turn) -> TurnDraft | None:
    """Return the turn as a host would send it, without its forgotten and erased messages."""
    messages = tuple(
        message.model_copy(update={"at": transcript.ordered_at(turn, message)})
        for part, message in enumerate(turn.messages)
        if turn.is_kept(part)
    )
    if not messages:
        return None
    return TurnDraft(
        messages=messages,
        host_id=turn.host_id or f"archive:{document.ref.key}",
        delivery=turn.delivery,
        tags=turn.tags,
        metadata=turn.metadata,
        external_content_used=turn.uses_external_content,
    )


def _skill_write(skill: Skill) -> RuntimeSkillWrite:
    return RuntimeSkillWrite(
        name=skill.name,
        topic=skill.topic,
        title=skill.title,
        summary=skill.summary,
        content=skill.procedure,
        citations=skill.citations,
        source_chat_id=skill.source_chat_id,
        observed_at=skill.updated_at,
    )
