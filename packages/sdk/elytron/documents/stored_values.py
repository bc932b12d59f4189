"""Typed documents of a space: read with their values, and collected into the changes of a batch; slots too."""

import os
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from os.path import commonprefix
from typing import Final, NamedTuple, TypeVar

from elytron.documents.planes import FOLDED
from elytron_core import limits
from elytron_core.errors import SealBroken, StoreCorrupt
from elytron_core.ids import FactId, SpaceId
from elytron_core.model import Value
from elytron_core.planes import facts
from elytron_core.planes.facts import Fact, FactKind, FactSlot
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import (
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    JournalAction,
    PutChange,
    RequireRevision,
    Store,
)
from elytron_core.scope import ConversationKey

ValueT = TypeVar("ValueT", bound=Value)


async def documents_at(store: Store, space: SpaceId, refs: Iterable[DocumentRef], /) -> dict[DocumentRef, Document]:
    """Return the documents at `refs`, any number of them, in that order; missing ones are left out."""
    unique_refs = list(dict.fromkeys(refs))
    documents: dict[DocumentRef, Document] = {}
    for start in range(0, len(unique_refs), limits.SCAN_MAX):
        page = await store.get(space, unique_refs[start : start + limits.SCAN_MAX])
        documents |= {document.ref: document for document in page if document is not None}
    return documents


async def values_at(
    store: Store, space: SpaceId, refs: Iterable[DocumentRef], kind: type[ValueT], /
) -> dict[DocumentRef, ValueT]:
    """Return the values of the documents at `refs`; missing ones are left out."""
    return {ref: kind.from_bytes(document.body) for ref, document in (await documents_at(store, space, refs)).items()}


async def value_at(store: Store, space: SpaceId, ref: DocumentRef, kind: type[ValueT], /) -> tuple[ValueT | None, int]:
    """Return the value of the document at `ref` and its revision; None and 0 if it is missing."""
    (document,) = await store.get(space, (ref,))
    return (kind.from_bytes(document.body), document.revision) if document is not None else (None, 0)


_NONCE_BYTES: Final = 12


def sealed_answer(plain_answer: bytes, record: SpaceRecord, key: str, request: bytes, /) -> bytes:
    """Return `plain_answer` sealed for storage under the idempotency key `key` of `request`."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(record.answer_key(key, request)).encrypt(nonce, plain_answer, None)


def opened_answer(answer: bytes, record: SpaceRecord, key: str, request: bytes, /) -> bytes:
    """Return the answer that `sealed_answer` made for the same key and request. Raises StoreCorrupt."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce, sealed_body = answer[:_NONCE_BYTES], answer[_NONCE_BYTES:]
    try:
        return AESGCM(record.answer_key(key, request)).decrypt(nonce, sealed_body, None)
    except (InvalidTag, ValueError):
        raise StoreCorrupt(what="the stored answer for an idempotency key") from None


_AT_ONCE = 500
"""Page size if other documents may be between the requested ones."""


async def documents_under(store: Store, space: SpaceId, collection: str, prefixes: Iterable[str], /) -> list[Document]:
    """Return every document of `collection` whose key begins with one of `prefixes`, in order.

    None of the prefixes may be the beginning of another.
    """
    ordered_prefixes = sorted(set(prefixes))
    shared_prefix = commonprefix(ordered_prefixes)  # noqa: RUF071 - no paths
    limit = limits.SCAN_MAX if len(ordered_prefixes) == 1 else _AT_ONCE
    documents: list[Document] = []
    last_key, prefix_index = "", 0
    while prefix_index < len(ordered_prefixes):
        # The key before all with this prefix: keys between are skipped.
        last_key = max(last_key, ordered_prefixes[prefix_index][:-1])
        page = await store.scan(space, collection, prefix=shared_prefix, after=last_key, limit=limit)
        for document in page:
            nearest_index = bisect_right(ordered_prefixes, document.ref.key) - 1
            if nearest_index >= 0 and document.ref.key.startswith(ordered_prefixes[nearest_index]):
                documents.append(document)
        if len(page) < limit:
            break
        last_key = page[-1].ref.key
        prefix_index = bisect_right(ordered_prefixes, last_key)
        if prefix_index and last_key.startswith(ordered_prefixes[prefix_index - 1]):
            prefix_index -= 1  # more of these may follow
    return documents


class SoundDocuments(NamedTuple):
    """The readable documents of a prefix, and the keys of the unreadable ones."""

    documents: list[Document]
    damaged: list[str]


async def sound_documents(store: Store, space: SpaceId, collection: str, prefix: str, /) -> SoundDocuments:
    """Return every document of `collection` under `prefix`, in order, skipping those that the store does not serve.

    Raises StoreCorrupt and SealBroken for damage that belongs to no document.
    """
    scan_result = SoundDocuments([], [])
    last_key, limit = "", limits.SCAN_MAX
    while True:
        try:
            page = await store.scan(space, collection, prefix=prefix, after=last_key, limit=limit)
        except (StoreCorrupt, SealBroken) as error:
            document_prefix = f"document {collection}/"
            if not error.what.startswith(document_prefix):
                raise
            if limit > 1:  # documents before the damaged one are read in smaller pages
                limit //= 2
                continue
            last_key = error.what.removeprefix(document_prefix)
            scan_result.damaged.append(last_key)
            limit = limits.SCAN_MAX
            continue
        scan_result.documents.extend(page)
        if len(page) < limit:
            return scan_result
        last_key = page[-1].ref.key


class ChangeSet:
    """The puts, deletes, requirements and entries of one batch; a document is put once, with its last value."""

    def __init__(self, record: SpaceRecord, /) -> None:
        self._record = record
        self._puts: dict[DocumentRef, PutChange] = {}
        self._entries: list[EntryDraft] = []
        self._folded: dict[DocumentRef, Value] = {}
        self._deletes: dict[DocumentRef, DeleteChange] = {}
        self._requires: dict[DocumentRef, RequireRevision] = {}

    def put(self, ref: DocumentRef, value: Value, /, *, expects: int, action: JournalAction | None) -> bytes:
        """Write `value` at `ref`, now at revision `expects`; with `action`, add a journal entry. Return its bytes."""
        body = value.to_bytes()
        self._puts[ref] = PutChange(ref, body, expects)
        if isinstance(value, FOLDED):
            self._folded[ref] = value
        if action is not None:
            self._entries.append(EntryDraft(action, ref, self._record.digest(body)))
        return body

    def delete(self, ref: DocumentRef, /, *, expects: int, has_entry: bool = True) -> None:
        """Delete the document at `ref`, now at revision `expects`, with a journal entry unless it has none."""
        self._deletes[ref] = DeleteChange(ref, expects)
        if has_entry:
            self._entries.append(EntryDraft(JournalAction.DELETE, ref))

    def require(self, ref: DocumentRef, /, *, revision: int) -> None:
        """Require `ref` to be still at the revision that the batch was judged by; 0 if it was absent."""
        self._requires[ref] = RequireRevision(ref, revision)

    def join(self, other: "ChangeSet", /) -> None:
        """Add the changes of another part of the same write, which touches other documents."""
        self._puts |= {change.ref: change for change in other.puts}
        self._deletes |= {delete.ref: delete for delete in other.deletes}
        self._requires |= {require.ref: require for require in other.requires}
        self._entries += other.entries
        self._folded |= other.folded

    @property
    def puts(self) -> tuple[PutChange, ...]:
        return tuple(self._puts.values())

    @property
    def deletes(self) -> tuple[DeleteChange, ...]:
        return tuple(self._deletes.values())

    @property
    def requires(self) -> tuple[RequireRevision, ...]:
        """Documents that must be unchanged since they were read; changed documents carry a revision anyway."""
        changed_refs = self._puts.keys() | self._deletes.keys()
        return tuple(requirement for ref, requirement in self._requires.items() if ref not in changed_refs)

    @property
    def entries(self) -> tuple[EntryDraft, ...]:
        return tuple(self._entries)

    @property
    def folded(self) -> Mapping[DocumentRef, Value]:
        """The part of the batch for an index."""
        return self._folded

    def __bool__(self) -> bool:
        return bool(self._puts or self._deletes)


class SlotKey(NamedTuple):
    """Kind, topic and home of a slot."""

    kind: FactKind
    topic: str
    home: ConversationKey | None = None


@dataclass(frozen=True, slots=True)
class StoredSlot:
    """A slot with the ids of its facts, oldest first. `earlier` are its documents under earlier builds' keys."""

    key: SlotKey
    ref: DocumentRef
    facts: tuple[FactId, ...] = ()
    revision: int = 0
    earlier: Mapping[DocumentRef, int] = field(default_factory=dict[DocumentRef, int])

    def put(self, changes: ChangeSet, /) -> None:
        """Add the list to a batch, all of it in one document; an empty one is deleted."""
        for ref, revision in self.earlier.items():
            changes.delete(ref, expects=revision)
        if self.facts:
            slot = FactSlot(kind=self.key.kind, topic=self.key.topic, facts=self.facts)
            changes.put(self.ref, slot, expects=self.revision, action=None)
        elif self.revision:
            changes.delete(self.ref, expects=self.revision)


def key_of(fact: Fact, /) -> SlotKey:
    """Return the slot of which a fact is a version."""
    return SlotKey(fact.kind, fact.topic, fact.home)


def slot_ref(record: SpaceRecord, key: SlotKey, /) -> DocumentRef:
    """Return where the slot is stored."""
    return DocumentRef(facts.SLOTS, record.slot_tag(*key))


async def read_slots(
    store: Store, space: SpaceId, record: SpaceRecord, keys: Iterable[SlotKey], /
) -> dict[DocumentRef, StoredSlot]:
    """Return the slots of `keys` by their refs; one that is not stored has no facts."""
    keys_by_ref: dict[DocumentRef, list[SlotKey]] = {}
    for key in keys:
        keys_by_ref.setdefault(slot_ref(record, key), []).append(key)
    earlier_refs = {
        ref: [DocumentRef(facts.SLOTS, tag) for key in same_place_keys for tag in record.earlier_slot_tags(*key)]
        for ref, same_place_keys in keys_by_ref.items()
    }
    documents = await documents_at(
        store, space, (slot_place for ref in keys_by_ref for slot_place in (ref, *earlier_refs[ref]))
    )
    slots: dict[DocumentRef, StoredSlot] = {}
    for ref, (key, *_) in keys_by_ref.items():
        slot_documents = {
            slot_place: documents[slot_place] for slot_place in (ref, *earlier_refs[ref]) if slot_place in documents
        }
        stored_slots = [FactSlot.from_bytes(document.body) for document in slot_documents.values()]
        fact_ids = [name for slot in stored_slots for name in slot.facts]
        slots[ref] = StoredSlot(
            key=key._replace(topic=stored_slots[0].topic) if stored_slots else key,
            ref=ref,
            # An id begins with its time, so separate lists can be merged in order.
            facts=tuple(fact_ids if len(stored_slots) < 2 else sorted(fact_ids)),
            revision=slot_documents[ref].revision if ref in slot_documents else 0,
            earlier={
                slot_place: document.revision for slot_place, document in slot_documents.items() if slot_place != ref
            },
        )
    return slots


async def read_slot(store: Store, space: SpaceId, record: SpaceRecord, key: SlotKey, /) -> StoredSlot:
    """Return the slot of `key`."""
    (slot,) = (await read_slots(store, space, record, (key,))).values()
    return slot


async def versions_of(store: Store, space: SpaceId, slot: StoredSlot, /) -> list[Fact]:
    """Return the newest versions of a slot that are stored, oldest first."""
    refs = [DocumentRef(facts.FACTS, name) for name in slot.facts[-limits.SCAN_MAX :]]
    return list((await values_at(store, space, refs, Fact)).values())


def remaining_of(versions: Iterable[Fact], /, *, without: Collection[str]) -> tuple[str, ...]:
    """Return the ids of other versions that are still believed for some time, as many as one request can name."""
    believed_ids = [fact.id for fact in versions if fact.is_believed and fact.id not in without]
    return tuple(believed_ids[-limits.WRITES_PER_REQUEST :])
