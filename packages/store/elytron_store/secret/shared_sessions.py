"""Unlocked spaces shared by the processes of one server, stored under a key that only they have."""

from contextlib import suppress
from typing import Final

from elytron_core.clock import Instant
from elytron_core.errors import Conflict, InvalidInput, SealBroken, StoreCorrupt
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document, DocumentRef, ErasureTarget, PutChange
from elytron_core.strict_json import keyed_tag
from elytron_store.sealed.providers import LocalKeys
from elytron_store.secret.keeper import SecretKeeper, UserKey
from elytron_store.secret.records import SECRET_SLOT, SecretSlot, SharedSession, secret_batch
from elytron_store.secret.sessions import current_caller

_KEY_ID: Final = "server"
_TAG_CHARS: Final = 32


class SharedSessions:
    """Stores a caller's unlocked sessions for the other processes with the same key, and opens theirs.

    A copy of the store opens nothing with it, since the key is in no store. Each is bound to its caller, its end and
    the generation of the space's secret, so that a lock ends it in every process.
    """

    def __init__(self, keeper: SecretKeeper, key: bytes, /) -> None:
        self._keeper = keeper
        self._store = keeper.store
        self._inner = keeper.store.inner
        self._key = key
        self._keys = LocalKeys({_KEY_ID: key}, current=_KEY_ID)

    async def put(self, space: SpaceId, /) -> None:
        """Store the session that the caller of this task has for `space`, unless it is a grant's."""
        session = self._store.sessions.of(space)
        if session is None or not session.user_key:
            return
        context = _session_context(space, session.inner, session.generation, session.until)
        wrapped_session = await self._keys.wrap(session.user_key, key_id=_KEY_ID, context=context)
        body = SharedSession(until=session.until, sealed=wrapped_session).to_bytes()
        former_document = await self._stored(space)
        change = PutChange(self._ref(), body, former_document.revision if former_document is not None else 0)
        with suppress(Conflict):  # the same caller is unlocking it in another process at this moment
            await self._inner.commit(secret_batch(space, self._store.clock, change))

    async def adopt(self, space: SpaceId, slot: SecretSlot, /) -> bool:
        """Open `space` for the caller of this task if another process stored its session; return whether it did."""
        document = await self._stored(space)
        if document is None or slot.terms is None:
            return False
        try:
            session = SharedSession.from_bytes(document.body)
            context = _session_context(space, slot.inner, slot.generation, session.until)
            user_key = await self._keys.unwrap(session.sealed, key_id=_KEY_ID, context=context)
        except (InvalidInput, SealBroken):
            return False  # altered, or from before a lock
        if self._store.clock.now() >= session.until:
            await self._erase(space)
            return False
        await self._keeper.begin(space, slot, UserKey(slot.terms, user_key), until=session.until)
        return True

    async def _stored(self, space: SpaceId) -> Document | None:
        """Return the caller's stored session; a damaged one is erased, since an unlock stores it again."""
        try:
            (document,) = await self._inner.get(space, (self._ref(),))
        except StoreCorrupt:
            await self._erase(space)
            return None
        return document

    async def _erase(self, space: SpaceId) -> None:
        await self._inner.erase(ErasureTarget(space=space, at=self._store.clock.now(), refs=(self._ref(),)))

    def _ref(self) -> DocumentRef:
        principal = keyed_tag(self._key, "shared session", current_caller().principal, size=_TAG_CHARS)
        return DocumentRef(SECRET_SLOT.collection, f"4.{principal}")


def _session_context(space: SpaceId, inner: str, generation: int, expires_at: Instant) -> bytes:
    """Return what binds a session to its space, to the period since the last lock, to its end and to its caller."""
    return f"{space}|{inner}|{generation}|{expires_at}|{current_caller().principal}".encode()
