"""Stored records as callers see them, and walks over those of a namespace."""

from collections.abc import AsyncIterator

from elytron.context import OperationContext
from elytron.documents.plane_documents import id_of
from elytron_core.contracts.knowledge.records import RecordItem
from elytron_core.ids import SpaceId
from elytron_core.planes.knowledge.long_term import Privacy
from elytron_core.planes.knowledge.records import RECORDS, Record
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports import store_pages
from elytron_core.ports.store import Document, Ref


def record_ref(space: SpaceRecord, namespace: tuple[str, ...], key: str, /, *, collection: str = RECORDS) -> Ref:
    """Return where the record of this name is stored, or would be."""
    return Ref(collection, space.record_key(namespace, key))


def item_of(ref: Ref, record: Record, /, *, score: float | None = None) -> RecordItem:
    """Return the record stored at `ref` as a caller sees it."""
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
    return include_private or record.privacy is not Privacy.PRIVATE


async def records_below(
    ctx: OperationContext, space: SpaceId, prefix: tuple[str, ...], /, *, collection: str = RECORDS
) -> AsyncIterator[tuple[Document, Record]]:
    """Yield the stored records whose namespace begins with `prefix`, deleted and expired ones too."""
    found = await ctx.spaces.find(space)
    if found is None:
        return
    # Keys begin with a tag of the namespace's first part: others are not read.
    begin = found.namespace_key(prefix).partition(".")[0] + "." if prefix else ""
    async for document in store_pages.documents(ctx.store, space, collection, prefix=begin):
        record = Record.from_bytes(document.body)
        if record.namespace[: len(prefix)] == prefix:
            yield document, record
