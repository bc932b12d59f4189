"""The keys of spaces under their users' secrets, read from a space's slot and open during a session."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

from elytron_core.clock import Clock
from elytron_core.errors import Conflict, KeyDestroyed, SpaceLocked
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Batch, Document, EntryDraft, JournalAction, Store
from elytron_store.sealed.cipher import DataKey
from elytron_store.sealed.keyring import SpaceKeys
from elytron_store.secret.records import INNER_PREFIX, RECORD, SECRET_GUARD, SECRET_SLOT, SecretSlotState
from elytron_store.secret.sessions import SecretSlots, guard_revision


class _InnerKeyring(ABC):
    """Keys of inner spaces, which the store above erases with their slot."""

    def __init__(self, inner_store: Store, /) -> None:
        self._inner = inner_store

    async def guard(self, inner_space: SpaceId, /) -> int:
        return await guard_revision(self._inner, inner_space)

    async def find(self, space: str, /) -> SpaceKeys | None:
        return await self.ensure(space)

    @abstractmethod
    async def ensure(self, space: str, /) -> SpaceKeys: ...

    async def _space_keys(self, name: SpaceId, keys: Mapping[int, DataKey]) -> SpaceKeys:
        return SpaceKeys(name, slot=name.encode(), guard=await self.guard(name), keys=keys, guard_ref=SECRET_GUARD)

    async def remains(self, _space: SpaceId, /) -> AsyncIterator[SpaceId]:
        for no_space in ():
            yield no_space

    async def free(self, _space: SpaceId, _inner: SpaceId, /) -> None:  # noqa: B027 - nothing holds the name
        """Do nothing."""


class FixedKeyring(_InnerKeyring):
    """The keys of one inner space that is being filled."""

    def __init__(self, inner_store: Store, name: SpaceId, keys: Mapping[int, DataKey], /) -> None:
        super().__init__(inner_store)
        self._name = name
        self._keys = keys

    def tag(self, space: str, /) -> str:
        return f"{self._name}.{len(space)}"

    async def slot(self, _space: str, /) -> Document | None:
        return Document(SECRET_SLOT, 1, self._name.encode())

    async def ensure(self, _space: str, /) -> SpaceKeys:
        return await self._space_keys(self._name, self._keys)

    async def raise_guard(self, clock: Clock, /) -> None:
        """Invalidate all handles that opened the space before: their writes conflict, and they check again."""
        entry = EntryDraft(JournalAction.MAINTENANCE, RECORD)
        while True:
            change = (await self.ensure("")).guard_put()
            batch = Batch(space=self._name, at=clock.now(), entries=(entry,), puts=(change,), sealed=True)
            with suppress(Conflict):
                await self._inner.commit(batch)
                return

    async def destroy_keys(self, _space: SpaceId, /) -> SpaceId | None:
        return self._name


class SecretKeyring(_InnerKeyring):
    """Keys by the stored slots and the sessions of this process."""

    def __init__(self, slots: SecretSlots, /) -> None:
        super().__init__(slots.inner)
        self._secret_slots = slots

    def tag(self, space: str, /) -> str:
        return f"{INNER_PREFIX}{len(space)}"

    async def slot(self, space: str, /) -> Document | None:
        """Return what names the inner space: a lock or another secret does not change it."""
        entry = await self._secret_slots.read(SpaceId(space))
        if entry is None or entry[0].state is not SecretSlotState.SEALED:
            return None
        return Document(SECRET_SLOT, entry[1], entry[0].inner.encode())

    async def ensure(self, space: str, /) -> SpaceKeys:
        """Return the open keys of `space`. Raises SpaceLocked, SpaceIncomplete, KeyDestroyed."""
        entry = await self._secret_slots.read(SpaceId(space))
        if entry is None:
            raise KeyDestroyed
        session = self._secret_slots.require(SpaceId(space), entry[0])
        return await self._space_keys(session.inner, session.keys)

    async def destroy_keys(self, space: SpaceId, /) -> SpaceId | None:
        raise SpaceLocked(space=space)
