"""The sealed store: what the inner store may learn, and which tampering is refused."""

import base64
import dataclasses
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.sealing import KEYS, Witness, inner_space, plant, plant_blob, raw, raw_blob, seal

from elytron_conformance.examples import (
    ADA,
    AT,
    BOB,
    batch,
    blob,
    documents,
    fact,
    one,
    put,
    spaces,
    write_blob,
)
from elytron_core import limits
from elytron_core.clock import FrozenClock
from elytron_core.errors import Conflict, LimitExceeded, NotFound, SealBroken
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.ports.store import (
    Batch,
    BatchKey,
    CommitReceipt,
    Document,
    DocumentRef,
    ErasureTarget,
    PutChange,
    Store,
)
from elytron_store.file.store import FileStore
from elytron_store.memory import MemoryStore
from elytron_store.sealed.cipher import CHUNK_BYTES, OVERHEAD
from elytron_store.sealed.records import GUARD
from elytron_store.sealed.store import SealedStore
from elytron_store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

CANARY = "canary-\u7532-7e57"
FORMS = (CANARY.encode(), CANARY.encode().hex().encode(), base64.b64encode(CANARY.encode()).rstrip(b"="))
SECRET = SpaceId(CANARY)


async def tell_the_canary(store: Store) -> None:
    """Put the canary into everything that a caller can choose, through every call."""
    told = BatchKey(key=CANARY, digest=CANARY, answer=CANARY.encode())
    await store.commit(batch(PutChange(fact(1), CANARY.encode(), 0), space=SECRET, idempotency=told))
    await store.commit(batch(PutChange(fact(2), CANARY.encode() * 1000, 0), space=SECRET))
    await store.commit(batch(PutChange(fact(2), CANARY.encode(), 1), space=SECRET))
    assert (await store.commit(batch(PutChange(fact(1), b"", 0), space=SECRET, idempotency=told))).replayed
    await write_blob(store, "aa", CANARY.encode() * 30_000, space=SECRET)
    assert await blob(store, "aa", space=SECRET) == CANARY.encode() * 30_000
    assert await one(store, fact(1), space=SECRET) == Document(fact(1), 1, CANARY.encode())
    assert len(await documents(store, space=SECRET)) == 2
    assert list(await store.spaces(after=CANARY, limit=1)) == []
    assert await spaces(store) == {SECRET}
    await store.erase(ErasureTarget(space=SECRET, at=AT, refs=(fact(2),), blobs=("ab",)))
    with pytest.raises(Conflict):
        await put(store, fact(1), CANARY.encode(), space=SECRET)
    with pytest.raises(NotFound):
        await blob(store, "ab", space=SECRET)
    assert (await store.check()).ok
    assert (await store.repair()).ok


async def test_the_canary_reaches_the_inner_store_in_no_call() -> None:
    witness = Witness()
    store = await seal(witness)
    await tell_the_canary(store)
    await store.rotate_data_key(SECRET)
    await store.destroy_key(SECRET)
    await store.erase(ErasureTarget(space=SECRET, at=AT, whole_space=True))
    assert {"commit", "get", "scan", "journal", "spaces", "write_blob", "read_blob", "erase", "check"} <= set(
        witness.calls
    )
    assert [form for form in FORMS if form in witness.told] == []


@pytest.mark.parametrize("engine", ["file", "sqlite"])
async def test_the_canary_is_in_no_byte_of_the_files(engine: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    if engine == "file":
        store = await seal(await FileStore.open(home / "store", clock=FrozenClock(), sealed=True))
    else:
        store = await seal(await SqliteStore.open(home / "m.db", clock=FrozenClock(), sealed=True))
    await tell_the_canary(store)
    for _ in range(2):
        files = [path for path in home.rglob("*") if path.is_file()]
        assert files
        assert [(path, form) for path in files for form in FORMS if form in path.read_bytes()] == []
        assert [path for path in home.rglob("*") for form in FORMS if form in str(path).encode()] == []
        await store.close()


async def test_equal_bodies_never_look_alike_even_where_ids_repeat() -> None:
    bodies: list[bytes] = []
    for _ in range(2):
        inner = MemoryStore()
        store = await SealedStore.open(inner, keys=KEYS, ids=SeededIds(), clock=FrozenClock())
        await store.commit(batch(PutChange(fact(1), b"same", 0), PutChange(fact(2), b"same", 0)))
        bodies += [(await raw(inner, await inner_space(inner), fact(number))).body for number in (1, 2)]
    assert len(set(bodies)) == 4
    assert {len(body) for body in bodies} == {len(b"same") + OVERHEAD}


async def test_one_request_key_looks_different_in_each_space() -> None:
    witness = Witness()
    store = await seal(witness)
    once = BatchKey(key="k", digest="d", answer=b"")
    for space in (ADA, BOB):
        await store.commit(batch(PutChange(fact(1), b"", 0), space=space, idempotency=once))
    told = [made.idempotency for made in witness.batches if made.idempotency is not None]
    assert len({request.key for request in told} | {request.digest for request in told}) == 4


async def test_a_commit_does_not_wait_once_the_key_is_open() -> None:
    store = await seal(MemoryStore())
    await put(store, fact(1))
    with pytest.raises(StopIteration) as done:
        store.commit(batch(PutChange(fact(2), b"x", 0))).send(None)
    assert done.value.value == CommitReceipt(2, 2)


async def test_a_refused_first_commit_leaves_the_space_usable() -> None:
    store = await seal(MemoryStore())
    with pytest.raises(Conflict) as refused:
        await put(store, fact(1), expects=3)
    assert (refused.value.expected, refused.value.found) == (3, 0)
    assert await spaces(store) == set()
    assert await put(store, fact(1)) == CommitReceipt(1, 1)


async def test_keys_beyond_the_cache_are_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elytron_store.sealed.spaces.SEALED_SPACES_OPEN", 2)
    store = await seal(MemoryStore())
    names = [SpaceId(f"space {number}") for number in range(5)]
    for turn in range(2):
        for name in names:
            await put(store, fact(turn), name.encode(), space=name)
    for name in names:
        assert [document.body for document in await documents(store, space=name)] == [name.encode()] * 2


async def test_paging_skips_the_keyring_and_erased_spaces() -> None:
    store = await seal(MemoryStore())
    names = {SpaceId(f"space {number}") for number in range(9)}
    for name in names:
        await put(store, fact(1), space=name)
    whole = list(await store.spaces(limit=100))
    assert set(whole) == names
    for size in (1, 2, 4):
        seen: list[SpaceId] = []
        while page := await store.spaces(after=seen[-1] if seen else "", limit=size):
            seen += page
        assert seen == whole
    await store.erase(ErasureTarget(space=whole[3], at=AT, whole_space=True))
    await store.destroy_key(whole[5])
    assert list(await store.spaces(after=whole[3], limit=100)) == [whole[4], *whole[6:]]
    assert list(await store.spaces(after=whole[5], limit=2)) == whole[6:8]


class TestMeddling:
    """A body that is not exactly what was put there is refused by every read, and reported without its content."""

    async def meddled(self, meddle: Callable[[dict[str, Document]], Document]) -> None:
        inner = MemoryStore()
        store = await seal(inner)
        turn = DocumentRef("turns", "0001")
        await store.commit(
            batch(PutChange(fact(1), b"one", 0), PutChange(fact(2), b"two", 0), PutChange(turn, b"turn", 0))
        )
        space = await inner_space(inner)
        kept = {"old": await raw(inner, space, fact(1))}
        await put(store, fact(1), b"uno", expects=1)
        kept |= {
            "new": await raw(inner, space, fact(1)),
            "key": await raw(inner, space, fact(2)),
            "collection": await raw(inner, space, turn),
            "guard": await raw(inner, space, GUARD),
        }
        await put(store, fact(1), b"bob's", space=BOB)
        await put(store, fact(1), b"bob's too", expects=1, space=BOB)
        (there,) = [name for name in await inner.spaces(limit=10) if name not in {space, "elytron.keyring"}]
        kept["space"] = await raw(inner, there, fact(1))
        await plant(inner, space, meddle(kept))
        for look in (one(store, fact(1)), documents(store)):
            with pytest.raises(SealBroken) as refused:
                await look
            assert refused.value.what == "document facts/0001"
        assert await one(store, fact(2)) == Document(fact(2), 1, b"two")

    @pytest.mark.parametrize("origin", ["old", "key", "collection", "space", "guard"])
    async def test_a_body_from_another_location_is_refused(self, origin: str) -> None:
        await self.meddled(lambda kept: dataclasses.replace(kept["new"], body=kept[origin].body))

    async def test_a_body_at_another_revision_is_refused(self) -> None:
        await self.meddled(lambda kept: dataclasses.replace(kept["new"], revision=3))

    @pytest.mark.parametrize("size", [0, 1, 5, 20, OVERHEAD - 1, OVERHEAD, OVERHEAD + 2])
    async def test_a_truncated_body_is_refused(self, size: int) -> None:
        await self.meddled(lambda kept: dataclasses.replace(kept["new"], body=kept["new"].body[:size]))

    @given(at=st.integers(0, OVERHEAD + 2), bit=st.integers(0, 7))
    async def test_a_body_with_a_flipped_bit_is_refused(self, at: int, bit: int) -> None:
        def flip(kept: dict[str, Document]) -> Document:
            body = bytearray(kept["new"].body)
            body[at] ^= 1 << bit
            return dataclasses.replace(kept["new"], body=bytes(body))

        await self.meddled(flip)

    async def test_a_longer_body_is_refused(self) -> None:
        await self.meddled(lambda kept: dataclasses.replace(kept["new"], body=kept["new"].body + b"\0"))


class TestMeddlingWithBlobs:
    """A blob that is not exactly what was written is refused at the first differing chunk."""

    WHOLE = bytes(range(256)) * (2 * CHUNK_BYTES // 256 + 40)
    HEAD = 37
    STEP = 256 * 1024

    async def refused(self, meddle: Callable[[bytes, bytes], bytes]) -> None:
        inner = MemoryStore()
        store = await seal(inner)
        await write_blob(store, "aa", self.WHOLE)
        await write_blob(store, "bb", self.WHOLE)
        space = await inner_space(inner)
        kept, other = await raw_blob(inner, space, "aa"), await raw_blob(inner, space, "bb")
        assert len(kept) == self.HEAD + len(self.WHOLE) + 3 * 28
        await plant_blob(inner, space, "aa", meddle(kept, other))
        seen = bytearray()

        async def read() -> None:
            async for chunk in store.read_blob(ADA, "aa"):
                seen.extend(chunk)

        with pytest.raises(SealBroken) as broken:
            await read()
        assert broken.value.what == "blob aa"
        assert seen == self.WHOLE[: len(seen)]
        assert await blob(store, "bb") == self.WHOLE

    @pytest.mark.parametrize(
        "size", [0, 1, 36, 37, 60, HEAD + STEP - 1, HEAD + STEP, HEAD + STEP + 9, HEAD + 2 * STEP, -1]
    )
    async def test_a_truncated_blob_is_refused(self, size: int) -> None:
        await self.refused(lambda kept, _: kept[:size])

    async def test_a_longer_blob_is_refused(self) -> None:
        await self.refused(lambda kept, _: kept + b"\0")

    async def test_a_blob_under_another_key_is_refused(self) -> None:
        await self.refused(lambda _, other: other)

    async def test_a_chunk_of_another_blob_is_refused(self) -> None:
        first, second = self.HEAD + self.STEP, self.HEAD + 2 * self.STEP
        await self.refused(lambda kept, other: kept[:first] + other[first:second] + kept[second:])

    async def test_chunks_in_another_order_are_refused(self) -> None:
        first, second = self.HEAD + self.STEP, self.HEAD + 2 * self.STEP
        await self.refused(
            lambda kept, _: kept[: self.HEAD] + kept[first:second] + kept[self.HEAD : first] + kept[second:]
        )

    async def test_a_dropped_and_a_repeated_chunk_are_refused(self) -> None:
        first, second = self.HEAD + self.STEP, self.HEAD + 2 * self.STEP
        await self.refused(lambda kept, _: kept[: self.HEAD] + kept[first:])
        await self.refused(lambda kept, _: kept[:first] + kept[self.HEAD : first] + kept[second:])

    @given(at=st.integers(0, HEAD + len(WHOLE) + 3 * 28 - 1), bit=st.integers(0, 7))
    async def test_a_blob_with_a_flipped_bit_is_refused(self, at: int, bit: int) -> None:
        await self.refused(lambda kept, _: kept[:at] + bytes([kept[at] ^ 1 << bit]) + kept[at + 1 :])

    async def test_oversized_blobs_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        store = await seal(MemoryStore())
        await write_blob(store, "aa", b"old")
        monkeypatch.setattr(limits, "BLOB_BYTES", 1_000)
        with pytest.raises(LimitExceeded):
            await write_blob(store, "aa", bytes(900), bytes(101))
        assert await blob(store, "aa") == b"old"
        assert await write_blob(store, "aa", bytes(900)) == 900

    async def test_a_reader_may_stop_early(self) -> None:
        store = await seal(MemoryStore())
        await write_blob(store, "aa", self.WHOLE)
        chunks = store.read_blob(ADA, "aa")
        assert await anext(chunks) == self.WHOLE[:CHUNK_BYTES]
        assert await write_blob(store, "aa", b"new") == 3
        assert await blob(store, "aa") == b"new"

    async def test_a_stopped_reader_releases_the_inner_stream_immediately(self) -> None:
        class Watched(MemoryStore):
            opened: list[AsyncIterator[bytes]] = []
            ended = 0

            def read_blob(self, space: SpaceId, key: str, /) -> AsyncIterator[bytes]:
                self.opened.append(self._watched(super().read_blob(space, key)))
                return self.opened[-1]

            async def _watched(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
                try:
                    async for chunk in chunks:
                        yield chunk
                finally:
                    self.ended += 1

        inner = Watched()
        store = await seal(inner)
        await write_blob(store, "aa", self.WHOLE)
        chunks = store.read_blob(ADA, "aa")
        await anext(chunks)
        assert isinstance(chunks, AsyncGenerator)
        await chunks.aclose()
        assert inner.ended == len(inner.opened) == 1


class TestAnswers:
    """The stored answer of a request is sealed for that request."""

    async def test_an_answer_of_another_request_is_refused(self) -> None:
        class Swapping(MemoryStore):
            answers: list[bytes] = []

            async def commit(self, batch: Batch, /) -> CommitReceipt:
                committed = await super().commit(batch)
                if batch.idempotency is not None and not committed.replayed:
                    self.answers.append(batch.idempotency.answer)
                return dataclasses.replace(committed, answer=self.answers[0]) if committed.replayed else committed

        store = await seal(Swapping())
        once = [BatchKey(key=f"k{number}", digest="d", answer=b"answer %d" % number) for number in range(2)]
        for number, request in enumerate(once):
            await store.commit(batch(PutChange(fact(number), b"", 0), idempotency=request))
        assert (await store.commit(batch(PutChange(fact(0), b"", 0), idempotency=once[0]))).answer == b"answer 0"
        with pytest.raises(SealBroken):
            await store.commit(batch(PutChange(fact(1), b"", 0), idempotency=once[1]))
