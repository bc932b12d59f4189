"""Stored documents at known places, and the values that they hold."""

from collections.abc import Iterable
from typing import TypeVar

from elytron_core import limits
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.ports.store import Document, Ref, Store

ValueT = TypeVar("ValueT", bound=Value)


async def documents_at(store: Store, space: SpaceId, refs: Iterable[Ref], /) -> dict[Ref, Document]:
    """Return the documents at `refs`, any number of them, in that order; missing ones are left out."""
    asked = list(dict.fromkeys(refs))
    found: dict[Ref, Document] = {}
    for start in range(0, len(asked), limits.SCAN_MAX):
        page = await store.get(space, asked[start : start + limits.SCAN_MAX])
        found |= {document.ref: document for document in page if document is not None}
    return found


async def values_at(store: Store, space: SpaceId, refs: Iterable[Ref], kind: type[ValueT], /) -> dict[Ref, ValueT]:
    """Return the values of the documents at `refs`; missing ones are left out."""
    return {ref: kind.from_bytes(one.body) for ref, one in (await documents_at(store, space, refs)).items()}


async def value_at(store: Store, space: SpaceId, ref: Ref, kind: type[ValueT], /) -> tuple[ValueT | None, int]:
    """Return the value of the document at `ref` and its revision; None and 0 if it is missing."""
    (document,) = await store.get(space, (ref,))
    return (kind.from_bytes(document.body), document.revision) if document is not None else (None, 0)
