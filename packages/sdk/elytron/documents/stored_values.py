"""Stored documents at known places, and the values that they hold."""

import os
from bisect import bisect_right
from collections.abc import Iterable
from os.path import commonprefix
from typing import Final, NamedTuple, TypeVar

from elytron_core import limits
from elytron_core.errors import SealBroken, StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import Document, DocumentRef, Store

ValueT = TypeVar("ValueT", bound=Value)


async def documents_at(store: Store, space: SpaceId, refs: Iterable[DocumentRef], /) -> dict[DocumentRef, Document]:
    """Return the documents at `refs`, any number of them, in that order; missing ones are left out."""
    asked = list(dict.fromkeys(refs))
    found: dict[DocumentRef, Document] = {}
    for start in range(0, len(asked), limits.SCAN_MAX):
        page = await store.get(space, asked[start : start + limits.SCAN_MAX])
        found |= {document.ref: document for document in page if document is not None}
    return found


async def values_at(
    store: Store, space: SpaceId, refs: Iterable[DocumentRef], kind: type[ValueT], /
) -> dict[DocumentRef, ValueT]:
    """Return the values of the documents at `refs`; missing ones are left out."""
    return {ref: kind.from_bytes(one.body) for ref, one in (await documents_at(store, space, refs)).items()}


async def value_at(store: Store, space: SpaceId, ref: DocumentRef, kind: type[ValueT], /) -> tuple[ValueT | None, int]:
    """Return the value of the document at `ref` and its revision; None and 0 if it is missing."""
    (document,) = await store.get(space, (ref,))
    return (kind.from_bytes(document.body), document.revision) if document is not None else (None, 0)


_NONCE_BYTES: Final = 12


def sealed_answer(answer: bytes, record: SpaceRecord, key: str, request: bytes, /) -> bytes:
    """Return `answer` as it is kept under the idempotency key `key` of `request`."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(record.answer_key(key, request)).encrypt(nonce, answer, None)


def opened_answer(kept: bytes, record: SpaceRecord, key: str, request: bytes, /) -> bytes:
    """Return the answer that `sealed_answer` made for the same key and request. Raises StoreCorrupt."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce, sealed = kept[:_NONCE_BYTES], kept[_NONCE_BYTES:]
    try:
        return AESGCM(record.answer_key(key, request)).decrypt(nonce, sealed, None)
    except (InvalidTag, ValueError):
        raise StoreCorrupt(what="the answer kept for an idempotency key") from None


_AT_ONCE = 500
"""Page size if other documents may be between the requested ones."""


async def documents_under(store: Store, space: SpaceId, collection: str, prefixes: Iterable[str], /) -> list[Document]:
    """Return every document of `collection` whose key begins with one of `prefixes`, in their order.

    None of the prefixes may be the beginning of another.
    """
    wanted = sorted(set(prefixes))
    shared = commonprefix(wanted)  # noqa: RUF071 - no paths
    limit = limits.SCAN_MAX if len(wanted) == 1 else _AT_ONCE
    found: list[Document] = []
    after, place = "", 0
    while place < len(wanted):
        # The key before all with this prefix: keys between are skipped.
        after = max(after, wanted[place][:-1])
        page = await store.scan(space, collection, prefix=shared, after=after, limit=limit)
        for document in page:
            nearest = bisect_right(wanted, document.ref.key) - 1
            if nearest >= 0 and document.ref.key.startswith(wanted[nearest]):
                found.append(document)
        if len(page) < limit:
            break
        after = page[-1].ref.key
        place = bisect_right(wanted, after)
        if place and after.startswith(wanted[place - 1]):
            place -= 1  # more of these may follow
    return found


class SoundDocuments(NamedTuple):
    """The documents of a prefix that can be read, and the keys of those that cannot."""

    documents: list[Document]
    damaged: list[str]


async def sound_documents(store: Store, space: SpaceId, collection: str, prefix: str, /) -> SoundDocuments:
    """Return every document of `collection` under `prefix`, in their order, past those that the store does not serve.

    Raises StoreCorrupt and SealBroken for damage that is no document's.
    """
    found = SoundDocuments([], [])
    after, limit = "", limits.SCAN_MAX
    while True:
        try:
            page = await store.scan(space, collection, prefix=prefix, after=after, limit=limit)
        except (StoreCorrupt, SealBroken) as error:
            place = f"document {collection}/"
            if not error.what.startswith(place):
                raise
            if limit > 1:  # documents before the damaged one are read in smaller pages
                limit //= 2
                continue
            after = error.what.removeprefix(place)
            found.damaged.append(after)
            limit = limits.SCAN_MAX
            continue
        found.documents.extend(page)
        if len(page) < limit:
            return found
        after = page[-1].ref.key
