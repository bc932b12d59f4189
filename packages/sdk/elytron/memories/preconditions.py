"""The version of the one thing that a request names, and changes that are made only where it still has that version."""

from dataclasses import dataclass, replace

from elytron.context import OperationContext
from elytron.memories.lookup import memory_place
from elytron_core import strict_json
from elytron_core.contracts.control import (
    MemoryCorrectRequest,
    MemoryEraseRequest,
    MemoryForgetRequest,
    MemoryGetRequest,
)
from elytron_core.contracts.facts import CandidateResolveRequest, FactChangeRequest, FactDetailRequest
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
from elytron_core.errors import Conflict, InvalidInput, PreconditionFailed
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.records import RECORDS
from elytron_core.planes.skills import SKILLS
from elytron_core.planes.space import SpaceRecord
from elytron_core.planes.tools import REGISTRIES
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    DocumentRef,
    ErasureReceipt,
    ErasureTarget,
    RequireRevision,
    Store,
)
from elytron_core.scope import ScopedRequest, is_scoped
from elytron_store.wrappers.wrapper import PassingStore

READS: tuple[type[Value], ...] = (
    MemoryGetRequest,
    FactDetailRequest,
    RuntimeSkillDetailRequest,
    AgentToolRegistryGetRequest,
    RecordGetRequest,
)
"""Requests that read one thing, whose version may be returned beside it."""
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
"""Requests that change one thing, and may demand its version. What is forgotten or erased must be one memory alone."""
ANY = "*"


@dataclass(frozen=True, slots=True)
class DocumentVersion:
    """Revision of a document, 0: not there. `tag` represents it, and reveals nothing else of it."""

    space: SpaceId
    ref: DocumentRef
    revision: int
    tag: str


async def version_of(ctx: OperationContext, request: Value, /) -> DocumentVersion | None:
    """Return the version of the one thing that `request` names; None where it names none, or there is no space yet."""
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
    """Return a context in which `request` changes its thing only while its version is one of `tags`.

    Raises PreconditionFailed if it is another now, InvalidInput for a request that names no single thing.
    """
    if not isinstance(request, CHANGES) or len(getattr(request, "ids", ("",))) != 1:
        raise InvalidInput(field="If-Match", problem="is for changes of one thing that has a version")
    version = await version_of(ctx, request)
    if version is None or not version.revision or (ANY not in tags and version.tag not in tags):
        raise PreconditionFailed
    return replace(ctx, store=_DemandingStore(ctx.store, version))


class _DemandingStore(PassingStore):
    """Lets the first commit of a space through only where a document is at its version still, in one step with it."""

    def __init__(self, store: Store, version: DocumentVersion, /) -> None:
        super().__init__(store)
        self._version = version
        self._is_met = False

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        version = self._version
        if self._is_met or batch.space != version.space:
            return await self._inner.commit(batch)
        expected = {change.ref: change.expects for change in (*batch.puts, *batch.deletes)}
        expected |= {require.ref: require.revision for require in batch.requires}
        if expected.setdefault(version.ref, version.revision) != version.revision:
            raise PreconditionFailed
        if len(expected) > len(batch.puts) + len(batch.deletes) + len(batch.requires):
            batch = replace(batch, requires=(*batch.requires, RequireRevision(version.ref, version.revision)))
        try:
            committed = await self._inner.commit(batch)
        except Conflict:
            await self._require()
            raise
        self._is_met = True
        return committed

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
