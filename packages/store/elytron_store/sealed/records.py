"""Documents of the keyring in the inner store.

The reserved space `KEYRING` holds, per space of the store, two documents. The slot names its inner space
and whether it lives; the record holds what must vanish with the space: its wrapped data keys and its sealed name. They
are two so that the record can be physically erased while the slot, which reveals nothing, remains as its mark.
Inner spaces are named `tag.incarnation`: the tag is keyed by the names key, the incarnation is drawn again each time a
space is made, so nothing written under a destroyed key can ever be beside current documents.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from enum import StrEnum
from typing import TypeVar

from pydantic import ConfigDict, Field

from elytron_core.errors import InvalidInput, SealBroken
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.ports.store import Document, DocumentRef

KEYRING = SpaceId("elytron.keyring")
"""Not the form of an inner space's name, which is hex digits and a dot."""

SHARED = SpaceId("elytron.shared")
"""Written in plain text next to a keyring of a shared store, so that the store still opens without keys."""

INNER = re.compile(r"[0-9a-f]+\.[0-9a-f]{32}")
"""The names of inner spaces."""

RECORDS = "keyring"
SPACE_SLOTS = "seats"
NAMES = DocumentRef(RECORDS, "0")
SHARED_MARK = DocumentRef("shared_store", "0")
SLOT_WHAT = "the keyring's entry for a space"
RECORD_WHAT = "the keyring's record for a space"

SEALED_LOST = "nothing of this sealed store is left: restore it from a backup"

GUARD = DocumentRef("elytron_seal", "0")
"""In each inner space: written with its first batch, required by every later one, raised when the data key is rotated.
So a handle that is unaware of an erasure or a rotation gets a conflict and never writes under a key that is gone."""

QUARANTINE = "elytron_quarantine"
"""Collection of sealed bodies that do not open, filled by `repair`."""


class KeyLife(StrEnum):
    """State of a space's keys."""

    LIVE = "live"
    DESTROYED = "destroyed"


class _KeyringRecord(Value):
    model_config = ConfigDict(strict=True, ser_json_bytes="base64", val_json_bytes="base64")


class WrappedKey(_KeyringRecord):
    """A data key under the key-encryption key `key_id`."""

    number: int
    key_id: str
    wrapped: bytes
    created_at: int


class KeyringCoverage(StrEnum):
    """Extent of a keyring: a whole store, which opens only with keys, or spaces of a shared one."""

    STORE = "store"
    SPACES = "spaces"


class NamesRecord(_KeyringRecord):
    """Identity of the store, its key of names, and the keyring's extent."""

    identity: str
    """Random, and bound into every wrapped key, so that no key of another store opens here."""
    key: WrappedKey
    covers: KeyringCoverage = KeyringCoverage.SPACES


class SealedSpaceRecord(_KeyringRecord):
    """A space's sealed name and data keys, oldest first: the newest seals, all open what they sealed."""

    name: bytes
    keys: tuple[WrappedKey, ...] = Field(min_length=1)


class SpaceSlot(_KeyringRecord):
    """Inner space of a space, and its state."""

    inner: str
    life: KeyLife


_RecordT = TypeVar("_RecordT", bound=_KeyringRecord)


def read_record(model: type[_RecordT], body: bytes, /, *, what: str) -> _RecordT:
    """Return the record in `body`. Raises SealBroken, which names `what`, if it is not one."""
    try:
        return model.from_bytes(body)
    except InvalidInput:
        raise SealBroken(what=what) from None


def document_slot(document: Document | None, /) -> SpaceSlot | None:
    """Return the slot in `document`; None if there is none, it is damaged, or it was moved here from another space."""
    if document is None:
        return None
    with suppress(SealBroken):
        slot = read_record(SpaceSlot, document.body, what=SLOT_WHAT)
        return slot if tag_of(slot.inner) == document.ref.key else None
    return None


def space_slot_ref(tag: str, /) -> DocumentRef:
    return DocumentRef(SPACE_SLOTS, tag)


def record_ref(inner_space: str, /) -> DocumentRef:
    return DocumentRef(RECORDS, inner_space)


def shows_seal(spaces: Iterable[str], /) -> bool:
    """Return whether the names of a store's spaces show that it was sealed, even if its keyring is lost."""
    return any(space == KEYRING or INNER.fullmatch(space) for space in spaces)


def tag_of(inner_space: str, /) -> str:
    """Return the tag in the name of an inner space."""
    return inner_space.partition(".")[0]
