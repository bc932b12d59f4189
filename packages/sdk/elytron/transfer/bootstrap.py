"""Mode `bootstrap` of an import: what is new of an archive is added to a space that may hold memories."""

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
from elytron.documents.planes import BROUGHT
from elytron.embedding.embed_pass import nudge_embedding
from elytron.indexing.index_manager import SpaceIndexes
from elytron.intake import OwnOutput, scrub_request
from elytron.state.conflict_retry import ChangeLines, LostRaces
from elytron.state.conversation_heads import HeadCache
from elytron.state.encoders import RuntimeEncoders
from elytron.state.space_records import SpaceRecords
from elytron.transcript import with_founded_citations
from elytron.transfer.archive import GUARDS, ArchiveReader, bring_documents, bring_guards
from elytron.transfer.rehearsal import RehearsalStore
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
from elytron_core.errors import Conflict
from elytron_core.ids import TurnId
from elytron_core.planes import embedding, transcript
from elytron_core.planes import facts as planes_facts
from elytron_core.planes.skills import SKILLS, Skill, SkillSource
from elytron_core.planes.space import COLLECTIONS, SPACE, SpaceRecord
from elytron_core.planes.transcript import cited_turn
from elytron_core.policy.admission.rules import as_claims
from elytron_core.policy.temporal import validity
from elytron_core.ports.store import Document, DocumentRef, JournalEntry, scan_entries
from elytron_core.scope import ConversationKey, Scope


async def turns_here(ctx: OperationContext, scope: Scope, survey: ArchiveSurvey) -> set[DocumentRef]:
    """Return which of the archive's turns this very space holds: keyed tags never meet by chance."""
    return await _present_refs(ctx, scope, [ref for ref in survey.brought if ref.collection == transcript.TURNS])


async def erased_here(
    ctx: OperationContext, scope: Scope, reader: ArchiveReader, survey: ArchiveSurvey
) -> set[DocumentRef]:
    """Return what of the archive this very space once held and holds no more: its journal still names it."""
    brought, record = survey.brought, survey.record
    named: set[DocumentRef] = set()
    runs: list[JournalEntry] = []
    async for entry in scan_entries(ctx.store, scope.space):
        if entry.covers > 1:
            runs.append(entry)
        elif entry.ref in brought:
            named.add(entry.ref)
    if runs and record is not None and await ctx.spaces.find(scope.space) == SpaceRecord.from_bytes(record.body):
        # Entries of the archive's journal at a compacted run of ours were erased here too.
        ends = [run.sequence for run in runs]
        for entry in reader.entries():
            place = bisect_left(ends, entry.sequence)
            if place < len(runs) and runs[place].first <= entry.sequence and entry.ref in brought:
                named.add(entry.ref)
    return named - await _present_refs(ctx, scope, sorted(named))


async def _present_refs(ctx: OperationContext, scope: Scope, refs: Sequence[DocumentRef]) -> set[DocumentRef]:
    present: set[DocumentRef] = set()
    for start in range(0, len(refs), limits.SCAN_MAX):
        found = await ctx.store.get(scope.space, refs[start : start + limits.SCAN_MAX])
        present |= {document.ref for document in found if document is not None}
    return present


@dataclass(frozen=True, slots=True)
class ArchivedTurn:
    """A turn of an archive, and which of its messages are brought along, in their order."""

    turn: TurnId
    parts: tuple[int, ...]


DraftT = TypeVar("DraftT", FactDraft, RuntimeSkillWrite)


class RenamedTurns:
    """The new ids of turns that were brought along so far."""

    def __init__(self) -> None:
        self._places: dict[tuple[TurnId, int], str] = {}
        self._turns: dict[TurnId, TurnId] = {}

    def note(self, sources: Iterable[ArchivedTurn], decisions: Sequence[WriteDecision], /) -> None:
        """Remember what became of each of `sources`."""
        for source, decision in zip(sources, decisions, strict=True):
            if decision.id is not None:
                turn = self._turns[source.turn] = TurnId(decision.id)
                for part, old in enumerate(source.parts):
                    self._places[source.turn, old] = transcript.message_id(turn, part)

    def cited_anew(self, draft: DraftT, /) -> DraftT:
        """Return a fact or skill that cites its turns by their new ids."""
        return draft.model_copy(update={"citations": tuple(dict.fromkeys(map(self._new, draft.citations)))})

    def _new(self, citation: str) -> str:
        place = cited_turn(citation)
        if place is None:
            return citation
        turn, part = place
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
"""Collections that are made again of what mode `bootstrap` brings."""
UNBROUGHT = frozenset(COLLECTIONS) - REBUILT - GUARDS - {transcript.TURNS, planes_facts.FACTS, SKILLS, *BROUGHT}
"""Collections of which mode `bootstrap` brings nothing."""
DOCUMENTS_PER_PART = 256
_KEPT = frozenset({WriteOutcome.STORED, WriteOutcome.UPDATED})


async def bootstrap_space(
    ctx: OperationContext, scope: Scope, reader: ArchiveReader, /, *, word: ArchiveWord, dry_run: bool
) -> MemoryImportReport:
    """Add the archive's turns and records that are not here yet and its newest word on each fact and skill.

    Turns keep their conversations, or all go to the scope's if it names one. Doing it twice changes nothing. What
    was erased in this very space since the archive was taken stays erased. Messages that are not here are no longer
    cited. It is one commit, so it is whole or absent. After a lost race, other changes of the same documents and
    conversations in this runtime wait until it is through.

    Raises, with nothing stored, LimitExceeded if it is more than one import may be, StoreBudgetExceeded if a bounded
    store has no room for it, and the last Conflict after `RACES` lost ones.
    """
    survey = await asyncio.to_thread(survey_archive, reader)
    race = LostRaces()
    with ExitStack() as held:
        while True:
            known = await turns_here(ctx, scope, survey) | await erased_here(ctx, scope, reader, survey)
            rehearsal = RehearsalStore(ctx.store, scope.space)
            report = await _add_archive(
                _rehearsal_context(ctx, rehearsal), scope, reader, known, survey.counts, word=word
            )
            batch = await asyncio.to_thread(rehearsal.merged, at=ctx.clock.now())
            if dry_run:
                return report.model_copy(update={"changed": False, "dry_run": True})
            if batch is None:
                return report
            try:
                committed = await ctx.store.commit(batch)
            except Conflict as conflict:
                ctx.spaces.forget(scope.space)
                await race.lost(conflict)
                held.enter_context(ctx.lines.held(scope.space, rehearsal.changed))
                continue
            nudge_embedding(ctx, scope.space)
            return report.model_copy(update={"sequence": committed.last})


def _rehearsal_context(ctx: OperationContext, rehearsal: RehearsalStore) -> OperationContext:
    """Return a context in which nothing that is rehearsed reaches what the runtime remembers of its store."""
    spaces = SpaceRecords(rehearsal, ctx.clock, ctx.ids)
    return replace(
        ctx,
        store=rehearsal,
        spaces=spaces,
        heads=HeadCache(rehearsal),
        folds=SpaceIndexes(
            rehearsal, forget=spaces.forget, max_bytes=1, max_spaces=1, statements=ctx.models.statements
        ),
        encoders=RuntimeEncoders(ctx.clock, wanted=None, former=None),
        lines=ChangeLines(),
    )


async def _add_archive(
    ctx: OperationContext,
    scope: Scope,
    reader: ArchiveReader,
    known: set[DocumentRef],
    counts: Mapping[str, int],
    /,
    *,
    word: ArchiveWord,
) -> MemoryImportReport:
    """Write what is new of the archive, plane by plane, and count what became of it."""
    imported: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    deleted: Counter[str] = Counter()
    skipped.update(ref.collection for ref in known)
    left_out = Counter({name: count for name, count in counts.items() if name in UNBROUGHT})
    renamed = RenamedTurns()
    async for plane, told, target, sources in _archive_writes(scope, reader, known, left_out, now=ctx.clock.now()):
        claimed = as_claims(told) if word is ArchiveWord.CLAIMED else told
        write = _cited_anew(claimed, renamed)
        report = await _commit_part(ctx, target, MemoryWriteRequest(scope=target, write=write), write)
        renamed.note(sources, report.decisions if sources else ())
        stored = sum(decision.outcome in _KEPT for decision in report.decisions)
        ended = report.count(WriteOutcome.DELETED)
        imported[plane] += stored
        deleted[plane] += ended
        skipped[plane] += len(report.decisions) - stored - ended
    async for collection, part in in_thread(_archive_parts(reader, BROUGHT, known)):
        brought = await bring_documents(ctx, scope, collection, part)
        imported[collection] += brought.stored
        skipped[collection] += brought.skipped
    if not GUARDS.isdisjoint(counts):
        # Behind the facts: what the archive believes was allowed there.
        target = partial(_home_of, scope)
        for collection, brought in (await bring_guards(ctx, scope, reader, known, home_of=target, word=word)).items():
            imported[collection] += brought.stored
            skipped[collection] += brought.skipped
    return MemoryImportReport(
        space=scope.space,
        mode=ImportMode.BOOTSTRAP,
        imported={name: count for name, count in imported.items() if count},
        skipped={name: count for name, count in skipped.items() if count},
        deleted={name: count for name, count in deleted.items() if count},
        left_out=dict(sorted(left_out.items())),
        changed=bool(imported.total() + deleted.total()),
    )


Write = TranscriptWrite | LongTermExtraction | ProcedureSource


class _ToldPart(NamedTuple):
    """A part of an archive as a write, and the turns that it brings."""

    plane: str
    write: Write
    scope: Scope
    sources: tuple[ArchivedTurn, ...] = ()


def _cited_anew(write: Write, renamed: RenamedTurns) -> Write:
    """Return facts and skills that cite what was brought along with them by its ids here."""
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
    clean, _ = await scrub_request(write, own=OwnOutput.STRIP)
    match clean:
        case TranscriptWrite():
            plan = partial(plan_turns, ctx, scope, clean, TurnRules(ChangedTurn.KEEP_FIRST))
        case LongTermExtraction():
            plan = partial(plan_facts, ctx, scope, await with_founded_citations(ctx, scope.space, clean))
        case ProcedureSource():
            plan = partial(plan_skills, ctx, scope, await with_founded_citations(ctx, scope.space, clean))
    return await commit_write(ctx, scope.space, request, plan)


def _archive_parts(
    reader: ArchiveReader, collections: Collection[str], known: Collection[DocumentRef]
) -> Iterator[tuple[str, list[Document]]]:
    """Yield the archive's documents of `collections` in parts, each of one collection, without what is `known`."""
    found = (one for one in reader.documents() if one.ref.collection in collections and one.ref not in known)
    for collection, documents in groupby(found, key=lambda document: document.ref.collection):
        while part := list(islice(documents, DOCUMENTS_PER_PART)):
            yield collection, part


async def _archive_documents(reader: ArchiveReader, known: Collection[DocumentRef]) -> AsyncIterator[Document]:
    async for _, part in in_thread(_archive_parts(reader, (transcript.TURNS, planes_facts.FACTS, SKILLS), known)):
        for document in part:
            yield document


async def _archive_writes(
    scope: Scope, reader: ArchiveReader, known: Collection[DocumentRef], left_out: Counter[str], *, now: Instant
) -> AsyncIterator[_ToldPart]:
    """Yield the archive as writes, without what is `known`: turns by conversation, then facts, then skills.

    What is hidden, closed or retired is counted in `left_out`.
    """
    pending: list[tuple[TurnDraft, ArchivedTurn]] = []
    key: ConversationKey | None = None
    facts: dict[ConversationKey | None, list[FactDraft]] = {}
    skills: dict[SkillSource, list[RuntimeSkillWrite]] = {}
    async for document in _archive_documents(reader, known):
        match document.ref.collection:
            case transcript.TURNS:
                turn = transcript.Turn.from_bytes(document.body)
                draft = _turn_draft(document, turn)
                if draft is None:
                    left_out[transcript.TURNS] += 1
                    continue
                if hidden := len(turn.messages) - len(turn.erased) - len(draft.messages):
                    left_out[MESSAGES] += hidden
                own = ConversationKey(turn.channel, turn.conversation)
                if pending and (own != key or len(pending) == TURNS_PER_WRITE):
                    assert key is not None
                    yield _turn_writes(pending, _target_scope(scope, key))
                    pending = []
                key = own
                parts = tuple(filter(turn.is_kept, range(len(turn.messages))))
                pending.append((draft, ArchivedTurn(TurnId(document.ref.key), parts)))
            case planes_facts.FACTS:
                fact = planes_facts.Fact.from_bytes(document.body)
                if validity.is_replaceable(fact, at=now):
                    facts.setdefault(fact.home, []).append(draft_of(fact, citations=fact.citations))
                else:
                    left_out[planes_facts.FACTS] += 1
            case _:
                skill = Skill.from_bytes(document.body)
                if skill.is_recallable:
                    skills.setdefault(skill.source, []).append(_skill_write(skill))
                else:
                    left_out[SKILLS] += 1
    if pending and key is not None:
        yield _turn_writes(pending, _target_scope(scope, key))
    for belief in _belief_writes(scope, facts, skills):
        yield belief


def _belief_writes(
    scope: Scope,
    facts: dict[ConversationKey | None, list[FactDraft]],
    skills: dict[SkillSource, list[RuntimeSkillWrite]],
) -> Iterator[_ToldPart]:
    for home, drafts in facts.items():
        target = _target_scope(scope, home) if home is not None else scope
        for start in range(0, len(drafts), TURNS_PER_WRITE):
            part = tuple(drafts[start : start + TURNS_PER_WRITE])
            yield _ToldPart(planes_facts.FACTS, LongTermExtraction(facts=part), target)
    for source, written in skills.items():
        for start in range(0, len(written), TURNS_PER_WRITE):
            chosen = tuple(written[start : start + TURNS_PER_WRITE])
            yield _ToldPart(SKILLS, ProcedureSource(writes=chosen, source=source), scope)


def _turn_writes(pending: Sequence[tuple[TurnDraft, ArchivedTurn]], target: Scope) -> _ToldPart:
    write = TranscriptWrite(turns=tuple(draft for draft, _ in pending), origin=transcript.TurnOrigin.IMPORTED)
    return _ToldPart(transcript.TURNS, write, target, tuple(source for _, source in pending))


def _target_scope(scope: Scope, key: ConversationKey) -> Scope:
    if scope.conversation is not None or scope.chat is not None:
        return scope
    return scope.model_copy(update={"channel": key.channel, "conversation": key.conversation})


def _home_of(scope: Scope, key: ConversationKey) -> ConversationKey:
    return _target_scope(scope, key).conversation_key


def _turn_draft(document: Document, turn: transcript.Turn) -> TurnDraft | None:
    """Return the turn as a host would send it, with its forgotten and erased messages left out."""
    messages = tuple(
        message.model_copy(update={"at": transcript.said_at(turn, message)})
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
