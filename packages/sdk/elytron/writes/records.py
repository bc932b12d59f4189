"""Commit of new record versions, in the host's collection or in the runtime's own."""

from collections.abc import AsyncIterator, Mapping, Sequence

from elytron.context import OperationContext
from elytron.documents.planes import id_of
from elytron.documents.stored_values import ChangeSet, documents_at
from elytron.writes.commit import SettledChanges, settle_changes
from elytron_core.clock import Instant
from elytron_core.contracts.records import RecordItem, RecordPutRequest
from elytron_core.errors import PreconditionFailed, Unsupported
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.facts import FactPrivacy
from elytron_core.planes.records import RECORDS, Record, new_record, put_record
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports import store
from elytron_core.ports.store import Document, DocumentRef, JournalAction
from elytron_core.scope import Scope


def record_ref(
    space: SpaceRecord, namespace: tuple[str, ...], key: str, /, *, collection: str = RECORDS
) -> DocumentRef:
    """Return where the record of this name is stored, or would be."""
    return DocumentRef(collection, space.record_key(namespace, key))


def item_of(ref: DocumentRef, record: Record, /, *, score: float | None = None) -> RecordItem:
    """Return the record stored at `ref` as callers see it."""
    return RecordItem(
        id=id_of(ref),
        namespace=record.namespace,
        key=record.key,
        value=record.value,
        text=record.text,
        privacy=record.privacy,
        version=record.version,
        created_at=record.created_at,
        updated_at=record.updated_at,
        expires_at=record.expires_at,
        score=score,
    )


def is_disclosed(record: Record, /, *, include_private: bool) -> bool:
    """Return whether a record is shown to this request."""
    return include_private or record.privacy is not FactPrivacy.PRIVATE


async def records_below(
    ctx: OperationContext,
    space: SpaceId,
    prefix: tuple[str, ...],
    /,
    *,
    collection: str = RECORDS,
    is_exact: bool = False,
) -> AsyncIterator[tuple[Document, Record]]:
    """Yield the stored records whose namespace begins with `prefix`, including deleted and expired ones.

    With `is_exact`, records of namespaces below it are not read.
    """
    space_record = await ctx.spaces.find(space)
    if space_record is None:
        return
    # Keys begin with a tag of the namespace's first part, so others are not read.
    key_prefix = space_record.namespace_key(prefix) if prefix else ""
    if not is_exact:
        key_prefix = key_prefix.partition(".")[0] + "." if prefix else ""
    async for document in store.scan_documents(ctx.store, space, collection, prefix=key_prefix):
        record = Record.from_bytes(document.body)
        if record.namespace[: len(prefix)] == prefix:
            yield document, record


class RecordCommit(Value):
    """The records after a put, in request order; `sequence` is 0 if nothing changed."""

    refs: tuple[DocumentRef, ...]
    records: tuple[Record, ...]
    changed: bool
    sequence: int = 0


async def put_records(
    ctx: OperationContext,
    scope: Scope,
    collection: str,
    requests: Sequence[RecordPutRequest],
    /,
    *,
    has_history: bool,
    dry_run: bool = False,
) -> RecordCommit:
    """Store values in `collection` in one commit, each replacing the one of its name.

    Without `has_history`, earlier versions are left out. Raises PreconditionFailed, with nothing stored, if a record
    has another version than the expected one, Unsupported for a time to live in a profile that cannot keep it.
    """
    if any(each.ttl_s is not None for each in requests) and (ctx.profile.is_esp or not ctx.store.capabilities.ttl):
        raise Unsupported("this store or profile does not support a time to live: leave ttl_s out")

    record_names = [(request.namespace, request.key) for request in requests]

    async def plan(space: SpaceRecord) -> SettledChanges[RecordCommit]:
        changes = ChangeSet(space)
        stored_documents = await documents_of_names(ctx, scope.space, space, record_names, collection=collection)
        record_commit = plan_records(stored_documents, requests, changes, at=ctx.clock.now(), has_history=has_history)
        record_commit = record_commit.model_copy(update={"changed": record_commit.changed and not dry_run})
        return SettledChanges(record_commit, None if dry_run else changes)

    record_commit, sequence = await settle_changes(ctx, scope.space, plan)
    return record_commit.model_copy(update={"sequence": sequence})


NamedDocuments = Mapping[tuple[tuple[str, ...], str], tuple[DocumentRef, Document | None]]
"""Records by namespace and key, as stored, with the ref of each."""


async def documents_of_names(
    ctx: OperationContext,
    space: SpaceId,
    record: SpaceRecord,
    names: Sequence[tuple[tuple[str, ...], str]],
    /,
    *,
    collection: str,
) -> NamedDocuments:
    """Return the records of these names, and the ref of each."""
    refs = {name: record_ref(record, *name, collection=collection) for name in names}
    stored_documents = await documents_at(ctx.store, space, refs.values())
    return {name: (ref, stored_documents.get(ref)) for name, ref in refs.items()}


def plan_records(
    documents_by_name: NamedDocuments,
    requests: Sequence[RecordPutRequest],
    changes: ChangeSet,
    /,
    *,
    at: Instant,
    has_history: bool,
) -> RecordCommit:
    """Add the next versions of records that were read to `changes`. Raises PreconditionFailed."""
    refs: list[DocumentRef] = []
    records: list[Record] = []
    for request in requests:
        ref, document = documents_by_name[request.namespace, request.key]
        current_record = Record.from_bytes(document.body) if document is not None else None
        revision = document.revision if document is not None else 0
        require_version(current_record, request.expected_version, at)
        next_record = new_record(
            namespace=request.namespace,
            key=request.key,
            value=request.value,
            text=request.text,
            privacy=request.privacy,
            expires_at=Instant(at + request.ttl_s * 1000) if request.ttl_s is not None else None,
            at=at,
        )
        record = put_record(current_record, next_record, has_history=has_history)
        if record is not current_record:
            changes.put(ref, record, expects=revision, action=JournalAction.WRITE)
        elif request.expected_version is not None:
            changes.require(ref, revision=revision)
        refs.append(ref)
        records.append(record)
    return RecordCommit(refs=tuple(refs), records=tuple(records), changed=bool(changes))


def require_version(record: Record | None, expected_version: int | None, now: Instant, /) -> None:
    """Raise PreconditionFailed unless the record has the expected version; 0 expects none."""
    version = record.version if record is not None and record.is_alive(now) else 0
    if expected_version is not None and expected_version != version:
        raise PreconditionFailed
