"""Slots as stored: where the versions of a fact are listed, and the versions themselves."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from elytron.documents.change_set import ChangeSet
from elytron.documents.stored_values import documents_at, values_at
from elytron_core import limits
from elytron_core.ids import FactId, SpaceId
from elytron_core.planes import facts
from elytron_core.planes.facts import Fact, FactKind, FactSlot
from elytron_core.planes.space import SpaceRecord
from elytron_core.ports.store import DocumentRef, Store
from elytron_core.scope import ConversationKey


class SlotKey(NamedTuple):
    """Kind, topic and home of a slot."""

    kind: FactKind
    topic: str
    home: ConversationKey | None = None


@dataclass(frozen=True, slots=True)
class StoredSlot:
    """A slot with the ids of its facts, oldest first. `earlier` are its documents under the forms of earlier builds."""

    key: SlotKey
    ref: DocumentRef
    facts: tuple[FactId, ...] = ()
    revision: int = 0
    earlier: Mapping[DocumentRef, int] = field(default_factory=dict[DocumentRef, int])

    def put(self, changes: ChangeSet, /) -> None:
        """Add the list to a batch, all of it in one document; an empty one goes."""
        for ref, revision in self.earlier.items():
            changes.delete(ref, expects=revision)
        if self.facts:
            slot = FactSlot(kind=self.key.kind, topic=self.key.topic, facts=self.facts)
            changes.put(self.ref, slot, expects=self.revision, action=None)
        elif self.revision:
            changes.delete(self.ref, expects=self.revision)


def key_of(fact: Fact, /) -> SlotKey:
    """Return which slot a fact is a version of."""
    return SlotKey(fact.kind, fact.topic, fact.home)


def slot_ref(record: SpaceRecord, key: SlotKey, /) -> DocumentRef:
    """Return where the slot is stored."""
    return DocumentRef(facts.SLOTS, record.slot_tag(*key))


async def read_slots(
    store: Store, space: SpaceId, record: SpaceRecord, keys: Iterable[SlotKey], /
) -> dict[DocumentRef, StoredSlot]:
    """Return the slots of `keys` by their places; one that is not stored has no facts."""
    places: dict[DocumentRef, list[SlotKey]] = {}
    for key in keys:
        places.setdefault(slot_ref(record, key), []).append(key)
    earlier = {
        ref: [DocumentRef(facts.SLOTS, tag) for key in same for tag in record.earlier_slot_tags(*key)]
        for ref, same in places.items()
    }
    found = await documents_at(store, space, (one for ref in places for one in (ref, *earlier[ref])))
    slots: dict[DocumentRef, StoredSlot] = {}
    for ref, (key, *_) in places.items():
        known = {one: found[one] for one in (ref, *earlier[ref]) if one in found}
        stored = [FactSlot.from_bytes(document.body) for document in known.values()]
        names = [name for slot in stored for name in slot.facts]
        slots[ref] = StoredSlot(
            key=key._replace(topic=stored[0].topic) if stored else key,
            ref=ref,
            # An id begins with its time: lists that were kept apart come into one order.
            facts=tuple(names if len(stored) < 2 else sorted(names)),
            revision=known[ref].revision if ref in known else 0,
            earlier={one: document.revision for one, document in known.items() if one != ref},
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
    """Return the ids of other versions that are believed to hold at some time, as many as one request can name."""
    found = [fact.id for fact in versions if fact.is_believed and fact.id not in without]
    return tuple(found[-limits.WRITES_PER_REQUEST :])
