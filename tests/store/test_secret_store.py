"""The store of secrets passes the shared suite: for spaces under no secret, and for those that are unlocked."""

from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

import anyio
import pytest
from tests.store.handles import Handles, Opener

from elytron_core.clock import FrozenClock, Instant
from elytron_core.ids import RandomIds, SpaceId
from elytron_core.ports.store import Batch, CommitReceipt, Store, require_space
from elytron_store.conformance import ReopenSuite, StoreSuite
from elytron_store.memory import MemoryStore
from elytron_store.secret.derivation.terms import SecretKind
from elytron_store.secret.keeper import PlainContents, SecretKeeper, UserSecret
from elytron_store.secret.store import SecretStore
from elytron_store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

WORDS = UserSecret(SecretKind.WORDS, "legal winner thank year wave sausage worth useful legal winner thank yellow")
FAR = Instant(1 << 50)


def secret_store(inner: Store) -> SecretStore:
    return SecretStore(inner, clock=FrozenClock())


class OpeningStore(SecretStore):
    """A store that puts each space under a secret before its first use."""

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
            if await self.seats.document(space) is None:
                await self._keeper.seal(space, WORDS, until=FAR, copy=_copy_nothing)


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
    """Spaces under no secret, over the memory engine."""

    @pytest.fixture
    async def store(self) -> AsyncIterator[Store]:
        store = secret_store(MemoryStore())
        yield store
        await store.close()


class TestPlainSqliteSpaces(Handles, ReopenSuite):
    """Spaces under no secret, over SQLite."""

    @pytest.fixture
    def opener(self, tmp_path: Path) -> Opener:
        async def opened() -> Store:
            return secret_store(await SqliteStore.open(tmp_path / "kept.db", clock=FrozenClock()))

        return opened
