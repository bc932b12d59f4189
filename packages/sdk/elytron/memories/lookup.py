"""Lookup of a memory by id (turn, turn#part, fact id, skill name, or a plane's word and key), and its version.

A change requires that the memory its request names still has the version that the caller saw.
"""

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final, NamedTuple

from elytron.context import OperationContext
from elytron.documents.hits import fact_hit, skill_hit, turn_hit
from elytron.documents.planes import HOMES, StoredMemory, at_of, is_expired, kept_memory, place_of, title_of
from elytron.documents.stored_values import documents_at
from elytron_core import limits, strict_json
from elytron_core.clock import Instant
from elytron_core.contracts.facts import CandidateResolveRequest, FactChangeRequest, FactDetailRequest
from elytron_core.contracts.memories import (
    MemoryCorrectRequest,
    MemoryEraseRequest,
    MemoryForgetRequest,
    MemoryGetRequest,
)
from elytron_core.contracts.recall import RecallHit, RecallPlane
from elytron_core.contracts.records import RecordDeleteRequest, RecordGetRequest, RecordPutRequest
from elytron_core.contracts.skills import (
    RuntimeSkillDeleteRequest,
    RuntimeSkillDetailRequest,
    RuntimeSkillEditRequest,
    RuntimeSkillSetEnabledRequest,
)
from elytron_core.contracts.tools import (
    AgentToolRegistryDeleteRequest,
    AgentToolRegistryGetRequest,
    AgentToolRegistryUpsertRequest,
)
from elytron_core.errors import Conflict, InvalidInput, NotFound, PreconditionFailed
from elytron_core.ids import FactId, SpaceId, TurnId, is_id
from elytron_core.model import Value
from elytron_core.planes import facts, skills, transcript
from elytron_core.planes.facts import Fact, FactPrivacy
from elytron_core.planes.records import RECORDS
from elytron_core.planes.skills import SKILLS
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.tools import REGISTRIES
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    Document,
    DocumentRef,
    ErasureReceipt,
    ErasureTarget,
    JournalAction,
    JournalEntry,
    RequireRevision,
    Store,
    require_ref,
)
from elytron_core.scope import Scope, ScopedRequest, is_scoped
from elytron_store.engine import PassingStore


@dataclass(frozen=True, slots=True)
class MessageMemory:
    """One message of a stored turn."""

    plane: ClassVar = RecallPlane.TRANSCRIPT
    ref: DocumentRef
    revision: int
    turn: transcript.Turn
    part: int

    @property
    def id(self) -> str:
        return transcript.message_id(TurnId(self.ref.key), self.part)


@dataclass(frozen=True, slots=True)
class FactMemory:
    """A stored fact."""

    plane: ClassVar = RecallPlane.LONG_TERM
    ref: DocumentRef
    revision: int
    fact: facts.Fact


@dataclass(frozen=True, slots=True)
class SkillMemory:
    """A stored skill."""

    plane: ClassVar = RecallPlane.PROCEDURAL
    ref: DocumentRef
    revision: int
    skill: skills.Skill


Memory = MessageMemory | FactMemory | SkillMemory | StoredMemory


def hit_of(memory: Memory, now: Instant, /) -> RecallHit:
    """Return the hit of a memory, with its freshness at `now`."""
    match memory:
        case MessageMemory():
            return turn_hit(TurnId(memory.ref.key), memory.turn, memory.part)
        case FactMemory():
            return fact_hit(memory.fact, now=now)
        case SkillMemory():
            return skill_hit(memory.skill)
        case StoredMemory():
            return memory.to_hit(now=now)


def readable_hit(memory: Memory, now: Instant, /) -> RecallHit:
    """Return the hit of a memory, without text that may not be read."""
    hit = hit_of(memory, now)
    is_closed = isinstance(memory, MessageMemory) and not memory.turn.is_readable(memory.part)
    return hit.model_copy(update={"text": ""}) if is_closed else hit


async def find_memory(ctx: OperationContext, scope: Scope, memory_id: str, /) -> Memory | None:
    """Return the memory with this id, including forgotten or closed ones; None if there is none."""
    return (await find_all(ctx, scope, (memory_id,)))[memory_id]


async def find_all(ctx: OperationContext, scope: Scope, ids: Iterable[str], /) -> dict[str, Memory | None]:
    """Return the memory with each of `ids`, as `find_memory` does."""
    memories, now = await find_stored(ctx, scope, ids), ctx.clock.now()
    return {
        memory_id: None if memory is None or is_gone(memory, now) else memory for memory_id, memory in memories.items()
    }


async def find_stored(ctx: OperationContext, scope: Scope, ids: Iterable[str], /) -> dict[str, Memory | None]:
    """Return the memory with each of `ids`, including erased messages of remaining turns."""
    record = await ctx.spaces.find(scope.space)
    if record is None:
        return dict.fromkeys(ids)
    place_by_id = {memory_id: memory_place(record, memory_id) for memory_id in ids}
    memories = await stored_at(ctx, scope, dict.fromkeys(ref for ref, _ in place_by_id.values() if ref is not None))
    return {
        memory_id: _part_of(memories[ref], part) if ref is not None and ref in memories else None
        for memory_id, (ref, part) in place_by_id.items()
    }


async def stored_at(ctx: OperationContext, scope: Scope, refs: Iterable[DocumentRef], /) -> dict[DocumentRef, Memory]:
    """Return the memory at each existing one of `refs`; for a turn its first message."""
    return {
        ref: _stored_memory(document) for ref, document in (await documents_at(ctx.store, scope.space, refs)).items()
    }


def _stored_memory(document: Document) -> Memory:
    """Return the memory in a document; for a turn its first message."""
    ref, revision = document.ref, document.revision
    match ref.collection:
        case facts.FACTS:
            return FactMemory(ref, revision, facts.Fact.from_bytes(document.body))
        case skills.SKILLS:
            return SkillMemory(ref, revision, skills.Skill.from_bytes(document.body))
        case collection if collection in HOMES:
            return kept_memory(document)
        case _:
            return MessageMemory(ref, revision, transcript.Turn.from_bytes(document.body), 0)


def _part_of(memory: Memory, part: int) -> Memory | None:
    if not isinstance(memory, MessageMemory):
        return memory
    return replace(memory, part=part) if part < len(memory.turn.messages) else None


def parts_of(document: Document, /) -> Sequence[Memory]:
    """Return the memories in a document: for a turn its messages, in order."""
    memory = _stored_memory(document)
    if not isinstance(memory, MessageMemory):
        return (memory,)
    return [replace(memory, part=part) for part in range(len(memory.turn.messages))]


def is_gone(memory: Memory, now: Instant, /) -> bool:
    """Return whether a stored memory is gone: an erased message, or an expired one."""
    if isinstance(memory, StoredMemory):
        return is_expired(memory.value, now)
    return isinstance(memory, MessageMemory) and memory.part in memory.turn.erased


async def must_find(ctx: OperationContext, scope: Scope, memory_id: str, /) -> Memory:
    """Return the memory with this id. Raises NotFound, also for a message that may not be read."""
    memory = await find_memory(ctx, scope, memory_id)
    is_closed = isinstance(memory, MessageMemory) and not memory.turn.is_readable(memory.part)
    if memory is None or is_closed:
        raise NotFound(what="memory", name=memory_id)
    return memory


def memory_place(record: SpaceRecord, memory_id: str, /) -> tuple[DocumentRef | None, int]:
    """Return where a memory of this id would be stored, and which part of the document it is."""
    if memory_id.startswith(skills.NAME_PREFIX):
        return DocumentRef(skills.SKILLS, record.skill_tag(memory_id)), 0
    if is_id(memory_id):
        return DocumentRef(facts.FACTS, FactId(memory_id)), 0
    turn, _, part_text = memory_id.partition("#")
    ref = place_of(memory_id) or DocumentRef(transcript.TURNS, turn)
    try:
        require_ref(ref)
    except InvalidInput:
        return None, 0
    is_valid_part = not part_text or (part_text.isascii() and part_text.isdigit())
    return (ref, int(part_text or "0")) if is_valid_part else (None, 0)


OPEN_PRIVACIES: Final = (FactPrivacy.PUBLIC.value, FactPrivacy.SHARED.value)
"""Planes that are disclosed by default."""
_PRIVATE_PROBLEM: Final = "names a private memory: pass include_private"


def may_disclose(fact: Fact, /, *, include_private: bool) -> bool:
    """Return whether a fact may be shown to this request."""
    return include_private or fact.privacy is not facts.FactPrivacy.PRIVATE


def is_private(memory: Memory, /) -> bool:
    """Return whether a memory is shown only to a caller that requests private ones."""
    match memory:
        case FactMemory(fact=fact):
            return fact.privacy is FactPrivacy.PRIVATE
        case MessageMemory(turn=turn):
            return turn.is_private
        case StoredMemory(home=home, value=value):
            return home.privacy(value) is FactPrivacy.PRIVATE or home.is_private(value)
        case _:
            return False


def require_disclosed(memory: Memory, /, *, include_private: bool) -> None:
    """Raise InvalidInput for a memory that the caller did not request by name, and for a private document always."""
    if memory.plane is RecallPlane.PRIVATE_GARDEN:
        raise InvalidInput(field="id", problem="names a private document: use read_garden")
    if not include_private and is_private(memory):
        raise InvalidInput(field="id", problem=_PRIVATE_PROBLEM)


_STORING = frozenset({JournalAction.WRITE, JournalAction.MERGE, JournalAction.OPERATOR})
_PAGE = 256
"""Journal entries read at once."""


async def latest_memories(
    ctx: OperationContext,
    space: SpaceId,
    hits: Callable[[Document], list[RecallHit]],
    /,
    *,
    collections: Collection[str],
    limit: int,
) -> tuple[RecallHit, ...]:
    """Return up to `limit` memories of `collections`, most recently stored first."""
    latest_hits: list[RecallHit] = []
    async for page in _journal_pages(ctx, space, collections):
        for document in await ctx.store.get(space, page):
            latest_hits += reversed(hits(document)) if document is not None else ()
        if len(latest_hits) >= limit:
            break
    return tuple(latest_hits[:limit])


async def _journal_pages(
    ctx: OperationContext, space: SpaceId, collections: Collection[str]
) -> AsyncIterator[tuple[DocumentRef, ...]]:
    """Yield pages of what the journal says was stored, each document once, latest first."""
    if await ctx.spaces.find(space) is None:
        return
    past_refs: set[DocumentRef] = set()
    last_sequence = (await ctx.folds.current(space)).watermark
    while last_sequence > 0:
        page_start = max(0, last_sequence - _PAGE)
        journal_entries = await ctx.store.journal(space, after=page_start, limit=last_sequence - page_start)
        entries = [entry for entry in journal_entries if entry.sequence <= last_sequence]
        if entries:
            # The first may represent a compacted run that begins long before.
            page_start = min(page_start, entries[0].first - 1)
        stored_refs = (entry.ref for entry in reversed(entries) if entry.action in _STORING)
        page = tuple(
            dict.fromkeys(ref for ref in stored_refs if ref.collection in collections and ref not in past_refs)
        )
        past_refs.update(page)
        if page:
            yield page
        last_sequence = page_start


_STORED_PAGE = 256


class DocumentMark(NamedTuple):
    """The position of a document in this order."""

    number: int
    """For a turn, its journal sequence; for a fact nothing; for others the time when they were stored."""
    key: str


async def documents_as_stored(
    ctx: OperationContext, space: SpaceId, collection: str, /, *, after: DocumentMark | None, most_often: int
) -> AsyncIterator[tuple[DocumentMark, Document | None]]:
    """Yield the documents after `after`, and None for each lost turn, which the journal names but the store lacks.

    The first page is of what is `most_often` all that is looked at.
    """
    documents: AsyncIterator[tuple[DocumentMark, Document | None]]
    match collection:
        case transcript.TURNS:
            documents = _by_journal(ctx, space, after.number if after is not None else 0, most_often)
        case facts.FACTS:
            documents = _by_key(ctx, space, collection, after.key if after is not None else "", most_often)
        case _:
            documents = _by_time(ctx, space, collection, after)
    async for marked_document in documents:
        yield marked_document


async def _by_journal(
    ctx: OperationContext, space: SpaceId, last_sequence: int, most_often: int
) -> AsyncIterator[tuple[DocumentMark, Document | None]]:
    page_size = min(most_often, _STORED_PAGE)
    while entries := await ctx.store.journal(space, after=last_sequence, limit=page_size):
        storing_entries = [
            entry for entry in entries if entry.ref.collection == transcript.TURNS and _stores_turn(entry)
        ]
        documents = await ctx.store.get(space, [entry.ref for entry in storing_entries]) if storing_entries else ()
        for entry, document in zip(storing_entries, documents, strict=True):
            if document is not None:
                yield DocumentMark(entry.sequence, document.ref.key), document
            elif await _is_missing(ctx, space, entry):
                yield DocumentMark(entry.sequence, entry.ref.key), None
        last_sequence, page_size = entries[-1].sequence, _STORED_PAGE


def _stores_turn(entry: JournalEntry) -> bool:
    """Return whether `entry` stored a turn, or a repair added it to the journal again, without its digest."""
    return entry.action is JournalAction.WRITE or (entry.action is JournalAction.MAINTENANCE and not entry.digest)


async def _is_missing(ctx: OperationContext, space: SpaceId, entry: JournalEntry) -> bool:
    """Return whether the journal still has a turn that the store no longer finds; an erasure removes the digest."""
    if not entry.digest:
        return False
    current_entries = await ctx.store.journal(space, after=entry.sequence - 1, limit=1)
    (document,) = await ctx.store.get(space, (entry.ref,))
    return document is None and bool(current_entries) and current_entries[0] == entry


async def _by_key(
    ctx: OperationContext, space: SpaceId, collection: str, last_key: str, most_often: int
) -> AsyncIterator[tuple[DocumentMark, Document]]:
    page_size = min(most_often, _STORED_PAGE)
    while documents := await ctx.store.scan(space, collection, after=last_key, limit=page_size):
        for document in documents:
            yield DocumentMark(0, document.ref.key), document
        last_key, page_size = documents[-1].ref.key, _STORED_PAGE


async def _by_time(
    ctx: OperationContext, space: SpaceId, collection: str, after: DocumentMark | None
) -> AsyncIterator[tuple[DocumentMark, Document]]:
    marked_documents: list[tuple[int, str, DocumentMark, Document]] = []
    async for _, document in _by_key(ctx, space, collection, "", limits.SCAN_MAX):
        at, name = _stored_at(document)
        marked_documents.append((at, name, DocumentMark(at, document.ref.key), document))
    marked_documents.sort(key=lambda one: one[:3])
    index_by_mark = {document_mark: index for index, (_, _, document_mark, _) in enumerate(marked_documents)}
    first_index = 0
    if after is not None:
        # For a document overwritten since, only the time is left; what shares it is repeated rather than left out.
        later_indexes = (index for index, (at, _, _, _) in enumerate(marked_documents) if at >= after.number)
        first_index = index_by_mark[after] + 1 if after in index_by_mark else next(later_indexes, len(marked_documents))
    for _, _, document_mark, document in marked_documents[first_index:]:
        yield document_mark, document


def _stored_at(document: Document) -> tuple[int, str]:
    if document.ref.collection == skills.SKILLS:
        skill = skills.Skill.from_bytes(document.body)
        return skill.recorded_at, skill.name
    value = kept_memory(document).value
    return at_of(value), title_of(value)


READS: tuple[type[Value], ...] = (
    MemoryGetRequest,
    FactDetailRequest,
    RuntimeSkillDetailRequest,
    AgentToolRegistryGetRequest,
    RecordGetRequest,
)
"""Requests that read one thing, whose version may be returned with it."""
CHANGES: tuple[type[Value], ...] = (
    MemoryForgetRequest,
    MemoryCorrectRequest,
    MemoryEraseRequest,
    FactChangeRequest,
    CandidateResolveRequest,
    RuntimeSkillEditRequest,
    RuntimeSkillSetEnabledRequest,
    RuntimeSkillDeleteRequest,
    AgentToolRegistryUpsertRequest,
    AgentToolRegistryDeleteRequest,
    RecordPutRequest,
    RecordDeleteRequest,
)
"""Requests that change one thing, and may require its version. Forgetting or erasing must name a single memory."""
ANY = "*"


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """Revision of a document, 0: absent. `tag` represents it, and reveals nothing else of it."""

    space: SpaceId
    ref: DocumentRef
    revision: int
    tag: str


async def version_of(ctx: OperationContext, request: Value, /) -> DocumentVersion | None:
    """Return the version of the one thing that `request` names; None if it names none, or there is no space yet."""
    if not is_scoped(request) or not isinstance(request, READS + CHANGES):
        return None
    space = ctx.scope_of(request).space
    record = await ctx.spaces.find(space)
    ref = _named_ref(record, request) if record is not None else None
    if record is None or ref is None:
        return None
    revision = await _document_revision(ctx.store, space, ref)
    return DocumentVersion(space, ref, revision, tag_of(record, ref, revision))


def tag_of(record: SpaceRecord, ref: DocumentRef, revision: int, /) -> str:
    """Return the tag of a document at a revision, which reveals nothing else of it."""
    return strict_json.keyed_tag(
        bytes.fromhex(record.secret), "version", ref.collection, ref.key, str(revision), size=32
    )


async def demanding_context(ctx: OperationContext, request: Value, tags: tuple[str, ...], /) -> OperationContext:
    """Return a context in which `request` changes its target only while its version is one of `tags`.

    Raises PreconditionFailed if it is another now, InvalidInput for a request that names no single thing.
    """
    if not isinstance(request, CHANGES) or len(getattr(request, "ids", ("",))) != 1:
        raise InvalidInput(field="If-Match", problem="is only supported for changes of a single versioned item")
    version = await version_of(ctx, request)
    if version is None or not version.revision or (ANY not in tags and version.tag not in tags):
        raise PreconditionFailed
    return replace(ctx, store=_DemandingStore(ctx.store, version))


class _DemandingStore(PassingStore):
    """Allows the first commit of a space only while a document has its required version, atomically."""

    def __init__(self, store: Store, version: DocumentVersion, /) -> None:
        super().__init__(store)
        self._version = version
        self._is_met = False

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        version = self._version
        if self._is_met or batch.space != version.space:
            return await self._inner.commit(batch)
        expected_revisions = {change.ref: change.expects for change in (*batch.puts, *batch.deletes)}
        expected_revisions |= {require.ref: require.revision for require in batch.requires}
        # The write itself may already require a revision of it.
        if expected_revisions.setdefault(version.ref, version.revision) != version.revision:
            raise PreconditionFailed
        if len(expected_revisions) > len(batch.puts) + len(batch.deletes) + len(batch.requires):
            batch = replace(batch, requires=(*batch.requires, RequireRevision(version.ref, version.revision)))
        try:
            receipt = await self._inner.commit(batch)
        except Conflict:
            # It may be of another document: then the write is retried.
            await self._require()
            raise
        self._is_met = True
        return receipt

    async def erase(self, erasure: ErasureTarget, /) -> ErasureReceipt:
        if not self._is_met:
            await self._require()
        return await self._inner.erase(erasure)

    async def _require(self) -> None:
        """Raise PreconditionFailed if the document has another version now."""
        if await _document_revision(self._inner, self._version.space, self._version.ref) != self._version.revision:
            raise PreconditionFailed


async def _document_revision(store: Store, space: SpaceId, ref: DocumentRef) -> int:
    (document,) = await store.get(space, (ref,))
    return document.revision if document is not None else 0


def _named_ref(record: SpaceRecord, request: ScopedRequest) -> DocumentRef | None:
    """Return the reference of the one thing that `request` names."""
    match request:
        case (
            MemoryGetRequest(id=memory_id)
            | MemoryCorrectRequest(id=memory_id)
            | FactDetailRequest(id=memory_id)
            | FactChangeRequest(id=memory_id)
            | CandidateResolveRequest(id=memory_id)
            | MemoryForgetRequest(ids=(memory_id,))
            | MemoryEraseRequest(ids=(memory_id,))
        ):
            return memory_place(record, memory_id)[0]
        case (
            RuntimeSkillDetailRequest(name=name)
            | RuntimeSkillEditRequest(name=name)
            | RuntimeSkillSetEnabledRequest(name=name)
            | RuntimeSkillDeleteRequest(name=name)
        ):
            return DocumentRef(SKILLS, record.skill_tag(name))
        case AgentToolRegistryUpsertRequest(snapshot=snapshot):
            return DocumentRef(REGISTRIES, record.registry_tag(snapshot.registry_id))
        case AgentToolRegistryGetRequest(registry_id=name) | AgentToolRegistryDeleteRequest(registry_id=name):
            return DocumentRef(REGISTRIES, record.registry_tag(name))
        case (
            RecordGetRequest(namespace=namespace, key=key)
            | RecordPutRequest(namespace=namespace, key=key)
            | RecordDeleteRequest(namespace=namespace, key=key)
        ):
            return DocumentRef(RECORDS, record.record_key(namespace, key))
        case _:
            return None
