"""The end of a space's keys, in every handle and every byte; and a tampered keyring."""

import asyncio
import dataclasses
import gc
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.store.sealing import Witness, erasing, inner_space, keyring, plant, raw, seal

from elytron_conformance.examples import (
    ADA,
    AT,
    BOB,
    NOWHERE,
    blob,
    documents,
    fact,
    one,
    put,
    source,
    spaces,
    write_blob,
)
from elytron_core.clock import FrozenClock
from elytron_core.errors import (
    KeyDestroyed,
    SealBroken,
    StoreFailed,
)
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    CommitReceipt,
    DeleteChange,
    Document,
    DocumentRef,
    EntryDraft,
    ErasureReceipt,
    ErasureTarget,
    JournalAction,
    Store,
)
from elytron_core.ports.store_checks import CheckReport, DamageKind, StoreProblem
from elytron_store.memory import MemoryStore
from elytron_store.sealed.keyring import SpaceKeys
from elytron_store.sealed.records import GUARD, KEYRING, RECORDS, SPACE_SLOTS
from elytron_store.sealed.store import SealedStore
from elytron_store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

CALLS: dict[str, Callable[[SealedStore], Awaitable[object]]] = {
    "commit": lambda store: put(store, fact(9)),
    "commit to what was": lambda store: put(store, fact(1), expects=1),
    "get": lambda store: store.get(ADA, [fact(1)]),
    "scan": lambda store: store.scan(ADA, "facts", limit=1),
    "journal": lambda store: store.journal(ADA, after=0, limit=1),
    "write_blob": lambda store: store.write_blob(ADA, "aa", source([b"x"])),
    "read_blob": lambda store: blob(store, "aa"),
    "erase": lambda store: store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),))),
    "rotate_data_key": lambda store: store.rotate_data_key(ADA),
}


class TestDestruction:
    async def filled(self, inner: Store) -> SealedStore:
        store = await seal(inner)
        await put(store, fact(1), b"secret")
        await write_blob(store, "aa", b"secret blob")
        await put(store, fact(1), b"bob's", space=BOB)
        return store

    @pytest.mark.parametrize("call", CALLS)
    async def test_every_handle_reports_the_destroyed_key(self, call: str) -> None:
        inner = MemoryStore()
        store, second = await self.filled(inner), await seal(inner)
        assert len(await documents(second)) == 1
        await store.destroy_key(ADA)
        for handle in (store, second, await seal(inner)):
            with pytest.raises(KeyDestroyed):
                await CALLS[call](handle)
            assert await spaces(handle) == {BOB}
            assert await one(handle, fact(1), space=BOB) == Document(fact(1), 1, b"bob's")
            assert await handle.check() == CheckReport(spaces=1, documents=1, entries=1, blobs=0)

    async def test_only_a_meaningless_mark_of_the_space_remains(self) -> None:
        inner = MemoryStore()
        store = await seal(inner)
        await put(store, fact(1), b"secret")
        before = await inner_space(inner)
        for _ in range(2):
            await store.destroy_key(ADA)
            assert list(await inner.spaces(limit=9)) == [KEYRING]
            assert await keyring(inner, RECORDS) == []
            (mark,) = await keyring(inner, SPACE_SLOTS)
            assert json.loads(mark.body) == {"inner": before, "life": "destroyed"}

    async def test_a_space_without_keys_has_none_to_destroy(self) -> None:
        inner = MemoryStore()
        store = await seal(inner)
        await store.destroy_key(NOWHERE)
        assert await put(store, fact(1), space=NOWHERE) == CommitReceipt(1, 1)

    async def test_the_wrapped_keys_are_in_no_byte_of_the_file(self, tmp_path: Path) -> None:
        engine = await SqliteStore.open(tmp_path / "m.db", clock=FrozenClock(), sealed=True)
        store = await seal(engine)
        await put(store, fact(1), b"x" * 5000)
        (record,) = await keyring(engine, RECORDS)
        kept = json.loads(record.body)
        remains = [record.body, kept["name"].encode(), kept["keys"][0]["wrapped"].encode()]
        remains.append((await raw(engine, SpaceId(record.ref.key), fact(1))).body[60:100])
        await store.destroy_key(ADA)
        for path in tmp_path.iterdir():
            assert [piece for piece in remains if piece in path.read_bytes()] == []
        await store.close()

    async def test_an_erasure_frees_the_name_for_reuse_under_a_new_key(self) -> None:
        inner = MemoryStore()
        store, second = await self.filled(inner), await seal(inner)
        old = {kept.ref for kept in await keyring(inner, RECORDS)}
        await store.destroy_key(ADA)
        gone = await second.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        assert gone == ErasureReceipt(documents=0, blobs=0, entries_scrubbed=0, sequence=0)
        assert await put(store, fact(1), b"new life") == CommitReceipt(1, 1)
        assert await one(second, fact(1)) == Document(fact(1), 1, b"new life")
        assert len({kept.ref for kept in await keyring(inner, RECORDS)} - old) == 1

    async def test_a_handle_unaware_of_an_erasure_writes_under_the_new_key(self) -> None:
        inner = MemoryStore()
        store, second = await self.filled(inner), await seal(inner)
        assert len(await documents(second)) == 1
        await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        assert await put(second, fact(2), b"told late") == CommitReceipt(1, 1)
        assert await one(store, fact(2)) == Document(fact(2), 1, b"told late")
        await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        await put(store, fact(3), b"third life")
        assert await second.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(2),))) == ErasureReceipt(0, 0, 0, 2)
        await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        assert await write_blob(second, "aa", b"fourth life") == 11
        assert await blob(store, "aa") == b"fourth life"
        await second.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        await write_blob(second, "aa", b"fifth life")
        assert await blob(store, "aa") == b"fifth life"
        assert (await store.check()).ok

    async def test_a_fresh_handle_cannot_write_into_an_ended_space(self) -> None:
        inner = MemoryStore()
        store, second = await seal(inner), await seal(inner)
        for is_destroyed in (True, False):
            await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
            await write_blob(second, "aa", b"keys are open")
            await (store.destroy_key(ADA) if is_destroyed else erasing(store)())
            told = await asyncio.gather(*(put(second, fact(n)) for n in (1, 2)), return_exceptions=True)
            if is_destroyed:
                assert [type(one) for one in told] == [KeyDestroyed, KeyDestroyed]
                with pytest.raises(KeyDestroyed):
                    await documents(second)
                assert list(await inner.spaces(limit=9)) == [KEYRING]
            else:
                assert sorted(str(one) for one in told) == [str(CommitReceipt(1, 1)), str(CommitReceipt(2, 2))]
                assert len(await documents(store)) == 2
            assert (await store.check()).ok

    @pytest.mark.parametrize("again", [False, True], ids=["gone", "alive again"])
    async def test_a_blob_written_during_an_erasure_is_refused_and_leaves_nothing(self, *, again: bool) -> None:
        inner = Witness()
        store, second = await self.filled(inner), await seal(inner)

        async def erase() -> None:
            await second.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
            if again:
                await put(second, fact(5))

        inner.before("write_blob", erase)
        with pytest.raises(KeyDestroyed):
            await write_blob(store, "aa", b"too late")
        assert await spaces(store) == ({ADA, BOB} if again else {BOB})
        assert (await store.check()).ok
        assert await write_blob(store, "aa", b"in time") == 7

    async def test_a_document_erasure_that_conflicts_with_a_space_erasure_is_retried(self) -> None:
        inner = Witness()
        store, second = await self.filled(inner), await seal(inner)

        async def erase() -> None:
            await second.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
            await put(second, fact(1), b"new life")

        inner.before("erase", erase)
        assert await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),))) == ErasureReceipt(1, 0, 1, 2)
        assert (await store.check()).ok

    async def test_a_first_batch_that_conflicts_with_an_erasure_is_retried(self) -> None:
        inner = Witness()
        store, second = await seal(inner), await seal(inner)
        await put(store, fact(1))
        assert len(await documents(second)) == 1
        inner.before("get", erasing(second), when=lambda refs: refs == [GUARD])
        again = await seal(inner)
        assert await one(again, fact(1)) is None
        assert await put(again, fact(1)) == CommitReceipt(1, 1)

    async def test_two_concurrent_erasures_act_as_one(self) -> None:
        inner = Witness()
        store, second = await self.filled(inner), await seal(inner)
        whole = ErasureTarget(space=ADA, at=AT, whole_space=True)
        inner.before("commit", erasing(second))
        assert await store.erase(whole) == ErasureReceipt(0, 0, 0, 0)
        await put(store, fact(1))
        inner.before(
            "erase", erasing(second), when=lambda erasure: isinstance(erasure, ErasureTarget) and erasure.whole_space
        )
        await store.erase(whole)
        await put(store, fact(1))
        inner.before("commit", erasing(second), when=lambda made: isinstance(made, Batch) and bool(made.deletes))
        await store.erase(whole)
        assert await put(store, fact(1)) == CommitReceipt(1, 1)
        assert (await store.check()).ok

    async def test_a_key_opened_by_a_concurrent_read_is_dropped_after_the_erasure(self) -> None:
        inner = Witness()
        store = await seal(inner)
        await put(store, fact(1), b"secret")
        ended = await inner_space(inner)

        async def read() -> None:
            assert len(await documents(store)) == 1

        inner.before("commit", read)
        await store.destroy_key(ADA)
        gc.collect()
        assert [kept for kept in gc.get_objects() if type(kept) is SpaceKeys and kept.inner == ended] == []

    async def test_an_interrupted_destruction_is_final_and_repair_completes_it(self) -> None:
        inner = Witness()
        store = await self.filled(inner)

        async def fail() -> None:
            raise StoreFailed(engine="memory", doing="erasing")

        inner.before("erase", fail, when=lambda erasure: isinstance(erasure, ErasureTarget) and erasure.whole_space)
        with pytest.raises(StoreFailed):
            await store.destroy_key(ADA)
        again = await seal(inner)
        with pytest.raises(KeyDestroyed):
            await documents(again)
        left = StoreProblem(DamageKind.ENGINE, None, "a destroyed space's ciphertext was still there")
        assert (await again.check()).problems == (left,)
        assert await spaces(again) == {BOB}
        assert (await again.repair()).problems == (StoreProblem(left.damage, None, left.what, quarantined=True),)
        assert await again.check() == CheckReport(spaces=1, documents=1, entries=1, blobs=0)

    async def test_a_destruction_interrupted_before_key_removal_is_final_too(self) -> None:
        inner = Witness()
        store = await self.filled(inner)

        async def fail() -> None:
            raise StoreFailed(engine="memory", doing="erasing")

        inner.before("erase", fail)
        with pytest.raises(StoreFailed):
            await store.destroy_key(ADA)
        with pytest.raises(KeyDestroyed):
            await documents(store)
        assert [problem.damage for problem in (await store.check()).problems] == [DamageKind.ENGINE]
        await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        assert (await store.check()).ok


class TestMeddlingWithTheKeyring:
    async def two(self) -> tuple[MemoryStore, SealedStore, Document, Document]:
        """Return a store of one space for ADA and one for BOB, and their seats."""
        inner = MemoryStore()
        store = await seal(inner)
        await put(store, fact(1), b"ada's")
        (ada,) = await keyring(inner, SPACE_SLOTS)
        await put(store, fact(1), b"bob's", space=BOB)
        (bob,) = [slot for slot in await keyring(inner, SPACE_SLOTS) if slot != ada]
        return inner, store, ada, bob

    async def refused(self, inner: Store, *, problem: StoreProblem | None = None) -> None:
        again = await seal(inner)
        for look in (documents(again), put(again, fact(7)), blob(again, "aa")):
            with pytest.raises(SealBroken):
                await look
        if problem is not None:
            assert problem in (await again.check()).problems

    async def test_a_name_entry_moved_from_another_space_does_not_open_it(self) -> None:
        inner, _, ada, bob = await self.two()
        await plant(inner, KEYRING, Document(ada.ref, 1, bob.body))
        await self.refused(
            inner, problem=StoreProblem(DamageKind.ENGINE, ADA, "the keys of this space cannot be opened")
        )

    async def test_a_record_moved_from_another_space_does_not_open(self) -> None:
        inner, _, ada, bob = await self.two()
        here, there = (DocumentRef(RECORDS, json.loads(slot.body)["inner"]) for slot in (ada, bob))
        await plant(inner, KEYRING, Document(here, 1, (await raw(inner, KEYRING, there)).body))
        await self.refused(
            inner, problem=StoreProblem(DamageKind.ENGINE, None, "the keys of this space cannot be opened")
        )

    @pytest.mark.parametrize("body", [b"", b"{}", b'{"inner": 1, "life": "live"}', b'{"inner":"00","life":"x"}'])
    async def test_an_unreadable_keyring_entry_is_refused(self, body: bytes) -> None:
        for collection in (SPACE_SLOTS, RECORDS):
            inner, _, ada, _ = await self.two()
            ref = ada.ref if collection == SPACE_SLOTS else DocumentRef(RECORDS, json.loads(ada.body)["inner"])
            await plant(inner, KEYRING, Document(ref, 1, body))
            await self.refused(inner)

    async def test_a_space_with_a_lost_keyring_entry_is_not_treated_as_new(self) -> None:
        for collection in (SPACE_SLOTS, RECORDS):
            inner, _, ada, _ = await self.two()
            ref = ada.ref if collection == SPACE_SLOTS else DocumentRef(RECORDS, json.loads(ada.body)["inner"])
            await inner.commit(
                Batch(
                    space=KEYRING,
                    at=AT,
                    entries=(EntryDraft(JournalAction.DELETE, ref),),
                    deletes=(DeleteChange(ref, 1),),
                )
            )
            await self.refused(inner)
            assert not (await (await seal(inner)).check()).ok

    async def test_spaces_without_keys_are_reported_and_preserved(self) -> None:
        inner, store, ada, _ = await self.two()
        record = DocumentRef(RECORDS, json.loads(ada.body)["inner"])
        await inner.erase(ErasureTarget(space=KEYRING, at=AT, refs=(ada.ref, record)))
        problem = StoreProblem(DamageKind.ENGINE, None, "a sealed space has no keys in the keyring")
        assert (await store.check()).problems == (problem,)
        assert (await store.repair()).problems == (dataclasses.replace(problem, quarantined=True),)
        assert (await store.check()).ok
        assert await spaces(store) == {BOB}
        assert len(await inner.spaces(limit=9)) == 3

    async def test_a_space_restored_from_an_earlier_life_is_reported(self) -> None:
        inner, store, ada, _ = await self.two()
        name = SpaceId(json.loads(ada.body)["inner"])
        kept = await raw(inner, KEYRING, DocumentRef(RECORDS, name)), await raw(inner, name, fact(1))
        await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        await put(store, fact(1), b"new life")
        await plant(inner, KEYRING, kept[0])
        await plant(inner, name, kept[1])
        assert await one(await seal(inner), fact(1)) == Document(fact(1), 1, b"new life")
        problem = StoreProblem(DamageKind.ENGINE, None, "a sealed space has no keys in the keyring")
        assert (await store.check()).problems == (problem,)
