"""A new data key for a space under its user's secret: everything is resealed, and nothing of the old remains."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import elytron
from elytron.memories.tag_links import tagged_turns
from elytron.runtime import MemoryRuntime
from elytron.secrets.forms import SecretState
from elytron_core.clock import FrozenClock
from elytron_core.errors import Conflict, ElytronError, NotFound, SecretRefused, SpaceIncomplete, SpaceLocked
from elytron_core.ids import SpaceId
from elytron_core.planes.embedding import KEY, TAG_LINKS
from elytron_core.ports.store import Batch, CommitReceipt, Store, scan_documents, scan_spaces
from elytron_store.engine import PassingStore
from elytron_store.memory import MemoryStore
from elytron_store.secret.records import INNER_PREFIX, SECRET_SLOT, SecretSlot, read_secret_slot

pytestmark = pytest.mark.anyio

WORDS = "legal winner thank year wave sausage worth useful legal winner thank yellow"
OTHER_WORDS = "ozone drill grab fiber curtain grace pudding thank cruise elder eight picnic"
ADA = SpaceId("ada")


async def slot_in(store: Store) -> SecretSlot:
    (found,) = await store.get(ADA, (SECRET_SLOT,))
    assert found is not None
    return read_secret_slot(found)


async def sealed(memory: MemoryRuntime) -> None:
    for number in range(3):
        await memory.add(f"heronsnest {number}: the boat key is under the oar", conversation="boats", tags=["key"])
    await memory.add_fact("key", "heronsnest is where the key is")
    await memory.secrets.seal("ada", words=WORDS)


async def found(memory: MemoryRuntime) -> list[str]:
    return [hit.text for hit in (await memory.search("heronsnest")).hits]


@pytest.mark.parametrize("engine", ["sqlite", "file"])
async def test_everything_is_resealed_and_nothing_remains_under_the_older_key(engine: str, tmp_path: Path) -> None:
    place = tmp_path / "store" / ("kept.db" if engine == "sqlite" else "kept")
    place.parent.mkdir()
    async with elytron.open(f"{engine}:{place}", space="ada") as memory:
        await sealed(memory)
        await memory.secrets.grant("ada")
        before = await slot_in(memory.store)
        old = [(await memory.store.scan(SpaceId(before.inner), "turns", limit=10))[0].body, before.keys[0].wrapped]
        told, state = await found(memory), (await memory.inspect(fingerprints=True)).state_fingerprint
        assert (await memory.secrets.rotate("ada", words=WORDS)).state is SecretState.UNLOCKED
        assert await found(memory) == told
        assert (await memory.inspect(fingerprints=True)).state_fingerprint == state
        status = await memory.secrets.status("ada")
        assert status.grant_until is None
        after = await slot_in(memory.store)
        assert (after.keys[0].wrapped == before.keys[0].wrapped, after.generation) == (False, before.generation + 1)
        assert {space async for space in scan_spaces(memory.store)} == {"ada", after.inner}
        held = b"".join(path.read_bytes() for path in place.parent.rglob("*") if path.is_file())
        assert [part for part in old if part in held] == []
        await memory.add("heronsnest, said later")
        await memory.secrets.lock("ada")
    async with elytron.open(f"{engine}:{place}", space="ada") as memory:
        await memory.secrets.unlock("ada", words=WORDS)
        assert len(await found(memory)) == len(told) + 1
        assert (await memory.context.store.check()).ok


async def test_tag_links_are_recreated_under_a_new_key() -> None:
    async with elytron.open(MemoryStore(), space="ada") as memory:
        await sealed(memory)

        async def links() -> set[str]:
            inner = SpaceId((await slot_in(memory.store)).inner)
            return {each.ref.key async for each in scan_documents(memory.store, inner, TAG_LINKS)}

        turns = await tagged_turns(memory.context, ADA, ["key"])
        assert turns is not None
        before = await links()
        await memory.secrets.rotate("ada", words=WORDS)
        assert await links() == set()
        assert await tagged_turns(memory.context, ADA, ["key"]) == turns
        after = await links()
        # Next to the links are the mark and a list for each turn, whose names are not seals.
        assert (len(after), before & after) == (len(before), {KEY, *turns})


async def test_an_empty_space_gets_a_new_key_too() -> None:
    async with elytron.open(MemoryStore(), space="ada") as memory:
        await memory.secrets.seal("ada", words=WORDS)
        before = await slot_in(memory.store)
        await memory.secrets.rotate("ada", words=WORDS)
        assert (await slot_in(memory.store)).inner != before.inner
        await memory.add("heronsnest")
        assert await found(memory) == ["heronsnest"]


async def test_a_new_data_key_needs_the_secret() -> None:
    async with elytron.open(MemoryStore(), space="ada") as memory:
        with pytest.raises(NotFound):
            await memory.secrets.rotate("ada", words=WORDS)
        await sealed(memory)
        before = await slot_in(memory.store)
        with pytest.raises(SecretRefused):
            await memory.secrets.rotate("ada", words=OTHER_WORDS)
        assert await slot_in(memory.store) == before
        await memory.secrets.lock("ada")
        assert (await memory.secrets.rotate("ada", words=WORDS)).state is SecretState.LOCKED
        await memory.secrets.unlock("ada", words=WORDS)
        assert len(await found(memory)) == 4


class MeanwhileStore(PassingStore):
    """Does something once, before the first batch of an inner space that it has not seen."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.meanwhile: Callable[[], Awaitable[None]] | None = None
        self._seen: set[SpaceId] = set()

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        work = self.meanwhile
        if work is not None and batch.space.startswith(INNER_PREFIX) and batch.space not in self._seen:
            self.meanwhile = None
            await work()
        self._seen.add(batch.space)
        return await self._inner.commit(batch)


class GatedStore(PassingStore):
    """Holds batches of inner spaces back until a gate opens."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self.gate, self.reached = asyncio.Event(), asyncio.Event()
        self.gate.set()

    async def commit(self, batch: Batch, /) -> CommitReceipt:
        if batch.space.startswith(INNER_PREFIX) and not self.gate.is_set():
            self.reached.set()
            await self.gate.wait()
        return await self._inner.commit(batch)


@pytest.mark.parametrize(("is_meanwhile", "said"), [(True, SpaceIncomplete), (False, SpaceLocked)])
async def test_a_write_of_another_process_under_the_older_key_does_not_arrive(
    is_meanwhile: bool, said: type[ElytronError]
) -> None:
    store = MemoryStore()
    ours, theirs = MeanwhileStore(store), GatedStore(store)
    async with elytron.open(ours, space="ada") as first, elytron.open(theirs, space="ada") as second:
        await sealed(first)
        await second.secrets.unlock("ada", words=WORDS)
        await second.add("heronsnest, said by the other")
        theirs.gate.clear()
        late = asyncio.create_task(second.add("heronsnest, said too late"))
        await theirs.reached.wait()

        async def release() -> None:
            theirs.gate.set()
            with pytest.raises(said):
                await late

        if is_meanwhile:
            ours.meanwhile = release
        await first.secrets.rotate("ada", words=WORDS)
        if not is_meanwhile:
            await release()
        with pytest.raises(SpaceLocked):
            await found(second)
        await second.secrets.unlock("ada", words=WORDS)
        assert sorted(await found(second)) == sorted(await found(first))
        assert [text for text in await found(first) if "too late" in text] == []
        assert len(await found(first)) == 5
        await second.add("heronsnest, said in time")
        assert len(await found(first)) == 6


async def test_a_lock_ends_a_renewal_and_loses_nothing() -> None:
    store = MemoryStore()
    ours = MeanwhileStore(store)
    async with elytron.open(ours, space="ada") as first, elytron.open(store, space="ada") as second:
        await sealed(first)
        before = await slot_in(store)

        async def lock() -> None:
            assert (await second.secrets.status("ada")).state is SecretState.MAKING
            await second.secrets.lock("ada")

        ours.meanwhile = lock
        with pytest.raises(Conflict):
            await first.secrets.rotate("ada", words=WORDS)
        assert (await first.secrets.status("ada")).state is SecretState.LOCKED
        assert {space async for space in scan_spaces(store)} == {"ada", before.inner}
        await first.secrets.unlock("ada", words=WORDS)
        assert len(await found(first)) == 4


async def test_a_session_survives_a_check_during_a_key_renewal() -> None:
    store = MemoryStore()
    ours, clock = MeanwhileStore(store), FrozenClock()
    async with elytron.open(ours, space="ada", clock=clock) as first:
        await sealed(first)
        ours.meanwhile = first.secrets.look
        assert (await first.secrets.rotate("ada", words=WORDS)).state is SecretState.UNLOCKED
        assert len(await found(first)) == 4
