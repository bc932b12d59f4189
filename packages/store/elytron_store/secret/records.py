"""Documents of a space under its user's secret, in the plain space of its name.

The slot names the inner space of the sealed documents, how the user's key is derived, and the data keys under it. The
count of attempts, the grant and shared sessions are stored next to it. None of them holds content. The plain space
contains nothing else, and no writer adds to it: every batch of a plain space requires that it has no slot.
"""

import os
from enum import StrEnum
from typing import Annotated, Final, Self

from pydantic import ConfigDict, Field, model_validator

from elytron_core.clock import Clock, Instant
from elytron_core.errors import InvalidInput, SealBroken
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.ports.store import (
    Batch,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    JournalAction,
    PutChange,
    RequireRevision,
)
from elytron_store.sealed.records import WrappedKey

SECRET_SLOT: Final = DocumentRef("space_secret", "0")
ATTEMPTS: Final = DocumentRef("space_secret", "1")
GRANT: Final = DocumentRef("space_secret", "2")
HOLD: Final = DocumentRef("space_secret", "3")
"""Hold of the process that seals a space, in a separate space."""
SECRET_GUARD: Final = DocumentRef("elytron_seal", "1")
"""Guard of an inner space, in addition to that of a store that is sealed as a whole."""
RECORD: Final = DocumentRef("space", "0")
"""The record that each space begins with, and the subject of the entries that these documents leave."""
INNER_PREFIX: Final = "elytron.secret."
"""Prefix of the names of inner spaces, which no request may use."""
SLOT_WHAT: Final = "the record of a space's secret"
USER_KEY: Final = "user"
"""Id of the wrapping key in the records of data keys."""
SALT_BYTES: Final = 16
MEMORY_KIB_MAX: Final = 256 * 1024


class SecretSlotState(StrEnum):
    """State of a space's secret."""

    MAKING = "making"
    SEALED = "sealed"
    RENEWING = "renewing"
    DESTROYED = "destroyed"


class _SecretRecord(Value):
    model_config = ConfigDict(strict=True, ser_json_bytes="base64", val_json_bytes="base64")


class SecretKind(StrEnum):
    """Form of a user's secret."""

    WORDS = "words"
    PASSPHRASE = "passphrase"  # noqa: S105 - the word, not one of them


class KeyDerivation(StrEnum):
    """Function from a secret to a key."""

    BIP85 = "bip85"
    ARGON2ID = "argon2id"
    SCRYPT = "scrypt"


class DerivationTerms(_SecretRecord):
    """Parameters of the derivation of a user's key, within limits: altered ones cannot exhaust a server."""

    function: KeyDerivation
    index: Annotated[int, Field(ge=0, lt=1 << 31)] = 0
    """Number of the child key of words."""
    salt: Annotated[bytes, Field(max_length=64)] = b""
    memory_kib: Annotated[int, Field(ge=0, le=MEMORY_KIB_MAX)] = 0
    rounds: Annotated[int, Field(ge=0, le=16)] = 0
    lanes: Annotated[int, Field(ge=0, le=16)] = 0

    @model_validator(mode="after")
    def _require_strength(self) -> Self:
        if self.function is KeyDerivation.BIP85:
            return self
        if len(self.salt) < SALT_BYTES or self.memory_kib < 8 * 1024 or not (self.rounds and self.lanes):
            raise ValueError("weaker than any that this version creates")
        return self

    @property
    def kind(self) -> SecretKind:
        """Return the form of the secret."""
        return SecretKind.WORDS if self.function is KeyDerivation.BIP85 else SecretKind.PASSPHRASE


class SecretRenewal(_SecretRecord):
    """An inner space that replaces another, and its data keys under the user's key."""

    inner: str
    keys: tuple[WrappedKey, ...] = ()


class SecretSlot(_SecretRecord):
    """The secret of a space, as stored."""

    state: SecretSlotState
    inner: str
    generation: int = 1
    """Increased by each lock and each change of the secret: sessions and grants of an earlier one are invalid."""
    terms: DerivationTerms | None = None
    keys: tuple[WrappedKey, ...] = ()
    """Data keys of the inner space under the user's key; none for a destroyed space."""
    made_at: Instant
    until: Instant = Instant(0)
    """While it is being made or renewed: when the process doing it is considered dead, if it renewed no hold."""
    renewal: SecretRenewal | None = None
    """While it is being renewed: the inner space being filled."""
    former: str = ""
    """The inner space that was renewed, until it is swept."""
    is_swept: bool = True
    """False while earlier bytes may remain in the plain space: content, or data keys under a former secret."""

    @property
    def kind(self) -> SecretKind:
        """Return the form of the secret."""
        assert self.terms is not None
        return self.terms.kind

    def without_renewal(self) -> Self:
        """Return the slot as before a renewal."""
        return self.model_copy(update={"state": SecretSlotState.SEALED, "renewal": None, "until": Instant(0)})

    def renewed(self) -> Self:
        """Return the slot with the filled inner space in place of the old one; earlier sessions and grants end."""
        assert self.renewal is not None
        changes = {"inner": self.renewal.inner, "keys": self.renewal.keys, "former": self.inner, "is_swept": False}
        return self.without_renewal().model_copy(update={**changes, "generation": self.generation + 1})

    @property
    def filled(self) -> str:
        """Return the inner space being filled; empty if there is none."""
        if self.state is SecretSlotState.MAKING:
            return self.inner
        return self.renewal.inner if self.state is SecretSlotState.RENEWING and self.renewal is not None else ""

    @property
    def inners(self) -> tuple[SpaceId, ...]:
        """Return all inner spaces that the space may have."""
        renewal = self.renewal.inner if self.renewal is not None else ""
        return tuple(SpaceId(name) for name in (self.inner, renewal, self.former) if name)


class CallerAttempts(_SecretRecord):
    """One caller's attempts that did not open the space, and the time of the latest."""

    caller: str
    failed: Annotated[int, Field(ge=0)]
    at: Instant


class AttemptCount(_SecretRecord):
    """Recent attempts that did not open the space."""

    callers: tuple[CallerAttempts, ...] = ()


class SealingHold(_SecretRecord):
    """Temporary hold of a process on a space that it seals."""

    until: Instant


class GrantedKey(_SecretRecord):
    """A data key under the key of a grant."""

    number: int
    sealed: bytes


class GrantRecord(_SecretRecord):
    """Data keys of a space for background work, valid for a time: under a separate key, wrapped by the server's."""

    id: str
    made_at: Instant
    until: Instant
    key: WrappedKey
    keys: tuple[GrantedKey, ...]


class SharedSession(_SecretRecord):
    """A user's key for the processes of one server, valid for a time, under a key that only these have."""

    until: Instant
    sealed: bytes


def fresh_inner() -> SpaceId:
    """Return a new, unique name of an inner space."""
    return SpaceId(f"{INNER_PREFIX}{os.urandom(16).hex()}")


def hold_space(inner_space: str, /) -> SpaceId:
    """Return the name of the space with the hold of the process that fills the inner space `inner_space`."""
    return SpaceId(f"{inner_space}.hold")


def read_secret_slot(document: Document, /) -> SecretSlot:
    """Return the slot in `document`. Raises SealBroken."""
    try:
        slot = SecretSlot.from_bytes(document.body)
    except InvalidInput:
        raise SealBroken(what=SLOT_WHAT) from None
    # An abandoned or erased slot removes its inner space, which must never be a space with a user's name.
    if not all(inner_space.startswith(INNER_PREFIX) for inner_space in slot.inners):
        raise SealBroken(what=SLOT_WHAT)
    return slot


def secret_batch(
    space: SpaceId,
    clock: Clock,
    /,
    *changes: PutChange | DeleteChange,
    requires: tuple[RequireRevision, ...] = (),
    takes_back: bool = False,
) -> Batch:
    """Return a batch of changes to the documents of a space's secret; its entry names none of them."""
    return Batch(
        space=space,
        at=clock.now(),
        entries=(EntryDraft(JournalAction.MAINTENANCE, RECORD),),
        puts=tuple(change for change in changes if isinstance(change, PutChange)),
        deletes=tuple(change for change in changes if isinstance(change, DeleteChange)),
        requires=requires,
        takes_back=takes_back,
    )
