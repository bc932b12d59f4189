"""The secret store passes the shared suite: for spaces without a secret, and for unlocked ones."""

from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
from tests.store.handles import Handles, Opener

from elytron_conformance import ReopenSuite, StoreSuite
from elytron_core.clock import FrozenClock, Instant
from elytron_core.errors import Conflict, SpaceIncomplete
from elytron_core.ids import RandomIds, SpaceId
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    EntryDraft,
    JournalAction,
    PutChange,
    Store,
    require_space,
    scan_spaces,
)
from elytron_store import limits
from elytron_store.memory import MemoryStore
from elytron_store.secret.holds import HoldRenewal
from elytron_store.secret.keeper import PlainContents, SecretKeeper, UserSecret
from elytron_store.secret.records import HOLD, RECORD, SECRET_SLOT, SecretKind, SecretSlotState, hold_space
from elytron_store.secret.store import SecretStore
from elytron_store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

WORDS = UserSecret(SecretKind.WORDS, "legal winner thank year wave sausage worth useful legal winner thank yellow")
FAR = Instant(1 << 50)
ENTRY = EntryDraft(JournalAction.LIFECYCLE, RECORD)


def secret_store(inner: Store) -> SecretStore:
    return SecretStore(inner, clock=FrozenClock())


class OpeningStore(SecretStore):
    """A store that seals each space under a secret before its first use."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner, clock=FrozenClock())
        contents = PlainContents((), (), frozenset())
        self._turn = anyio.Lock()
        self._keeper = SecretKeeper(self, ids=RandomIds(self.clock), contents=contents)

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        await self._open(batch.space)
        return await super().commit(batch)

    async def write_blob(self, space: SpaceId, key: str, chunks: AsyncIterable[bytes], /) -> int:
        await self._open(space)
        return await super().write_blob(space, key, chunks)

    async def _open(self, space: SpaceId) -> None:
        require_space(space)
        async with self._turn:
            if await self.slots.document(space) is None:
                key = await self._keeper.fresh_key(WORDS)
                await self._keeper.seal(space, key, until=FAR, copy=_copy_nothing)


async def _copy_nothing(_source: Store, _target: Store, _space: SpaceId) -> None:
    raise AssertionError


class TestSecretSpaces(StoreSuite):
    """Spaces under a secret, unlocked, over the memory engine."""

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = OpeningStore(MemoryStore())
        yield store
        await store.close()


class TestPlainSpaces(StoreSuite):
    """Spaces without a secret, over the memory engine."""

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = secret_store(MemoryStore())
        yield store
        await store.close()


class TestPlainSqliteSpaces(Handles, ReopenSuite):
    """Spaces without a secret, over SQLite."""

    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        async def opened() -> Store:
            return secret_store(await SqliteStore.open(tmp_path / "kept.db", clock=FrozenClock()))

        return opened


async def test_a_process_keeps_the_space_only_while_it_renews_its_lock() -> None:
    inner, clock = MemoryStore(), FrozenClock()
    first, second = SecretStore(inner, clock=clock), SecretStore(inner, clock=clock)
    ids, contents = RandomIds(clock), PlainContents((), (), frozenset())
    ada = SpaceId("ada")
    seen: list[SecretSlotState | None] = []

    async def look() -> None:
        found = await second.settle_slot(ada)
        seen.append(None if found is None else found[0].state)

    async def copy(_source: Store, _target: Store, _space: SpaceId) -> None:
        found = await first.slots.read(ada)
        assert found is not None
        hold = HoldRenewal(inner, SpaceId(found[0].inner), clock=clock)
        for _ in range(3):
            clock.advance(limits.SECRET_MAKING_MS - 1)
            await hold.renew()
            await look()
        with pytest.raises(SpaceIncomplete, match="within 30 s"):
            await second.get(ada, (SECRET_SLOT,))
        clock.advance(limits.SECRET_MAKING_MS)
        await look()
        with pytest.raises(Conflict):
            await hold.renew()

    await inner.commit(Batch(space=ada, at=clock.now(), entries=(ENTRY,), puts=(PutChange(RECORD, b"{}", 0),)))
    keeper = SecretKeeper(first, ids=ids, contents=contents)
    key = await keeper.fresh_key(WORDS)
    with pytest.raises(Conflict):
        await keeper.seal(ada, key, until=FAR, copy=copy)
    assert seen == [SecretSlotState.MAKING] * 3 + [None]
    assert [space async for space in scan_spaces(inner)] == [ada]


async def test_a_process_renews_its_lock_while_copying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SECRET_MAKING_MS", 30)
    inner, clock, ada = MemoryStore(), FrozenClock(), SpaceId("ada")
    store = SecretStore(inner, clock=clock)

    async def copy(_source: Store, _target: Store, _space: SpaceId) -> None:
        found = await store.slots.read(ada)
        assert found is not None
        while (hold := (await inner.get(hold_space(found[0].inner), (HOLD,)))[0]) is None or hold.revision < 2:
            await anyio.lowlevel.checkpoint()

    await inner.commit(Batch(space=ada, at=clock.now(), entries=(ENTRY,), puts=(PutChange(RECORD, b"{}", 0),)))
    keeper = SecretKeeper(store, ids=RandomIds(clock), contents=PlainContents((), (), frozenset()))
    await keeper.seal(ada, await keeper.fresh_key(WORDS), until=FAR, copy=copy)
    left = [space async for space in scan_spaces(inner)]
    assert [space for space in left if space.endswith(".hold")] == []
