"""The keys of sealed stores: created once, never shown, never overused, replaced during writes."""

import asyncio
import base64
import json
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.store.sealing import BOTH, KEYS, NEW, NEW_ONLY, OLD, Witness, erasing, inner_space, keyring, plant, raw, seal

from elytron_conformance.examples import (
    ADA,
    AT,
    BOB,
    NOWHERE,
    batch,
    blob,
    documents,
    fact,
    journal,
    one,
    put,
    spaces,
    write_blob,
)
from elytron_core.clock import FrozenClock
from elytron_core.errors import (
    InvalidInput,
    KeyDestroyed,
    KeyMissing,
    SealBroken,
    StoreFailed,
    StoreForeign,
)
from elytron_core.ids import SpaceId
from elytron_core.ports.store import (
    Batch,
    BatchKey,
    Document,
    ErasureTarget,
    JournalAction,
    PutChange,
    Store,
)
from elytron_store.file.store import FileStore
from elytron_store.memory import MemoryStore
from elytron_store.sealed.cipher import DataKey, bound_place, key_number
from elytron_store.sealed.providers import LocalKeys
from elytron_store.sealed.records import GUARD, KEYRING, NAMES, RECORDS, SPACE_SLOTS
from elytron_store.sqlite import SqliteStore

pytestmark = pytest.mark.anyio

HERE = b"here"


class TestDataKey:
    def test_no_nonce_repeats_over_many_seals(self) -> None:
        key = DataKey(1, bytes(32))
        heads = {key.seal(b"", HERE)[:33] for _ in range(50_000)}
        assert len(heads) == 50_000
        assert len({head[:21] for head in heads}) == 1
        assert len({head[21:] for head in heads}) == 50_000

    def test_another_key_is_derived_after_the_limit_and_all_open(self) -> None:
        key = DataKey(1, bytes(32), seals_per_key=3)
        sealed = [key.seal(b"%d" % number, HERE) for number in range(3 * 300)]
        salts = [body[5:21] for body in sealed]
        assert [len(set(salts[at : at + 3])) for at in range(0, len(salts), 3)] == [1] * 300
        assert len(set(salts)) == 300
        again = DataKey(1, bytes(32))
        assert [again.open(body, HERE, what="it") for body in sealed] == [b"%d" % number for number in range(900)]

    def test_two_handles_of_one_data_key_seal_under_different_keys(self) -> None:
        assert DataKey(1, bytes(32)).seal(b"", HERE)[5:21] != DataKey(1, bytes(32)).seal(b"", HERE)[5:21]

    def test_another_key_number_location_or_secret_does_not_open(self) -> None:
        sealed = DataKey(1, bytes(32)).seal(b"plain", HERE)
        assert key_number(sealed) == 1
        for key, where in (
            (DataKey(2, bytes(32)), HERE),
            (DataKey(1, bytes(32)), b"there"),
            (DataKey(1, b"\1" * 32), HERE),
        ):
            with pytest.raises(SealBroken):
                key.open(sealed, where, what="it")

    def test_unsealed_bytes_are_never_accepted_as_sealed(self) -> None:
        assert [key_number(data) for data in (b"", b"\1" * 48, b"\2" * 100)] == [0, 0, 0]

    def test_different_locations_never_yield_equal_bytes(self) -> None:
        assert (
            len(
                {
                    bound_place("a", "b", "c"),
                    bound_place("a", "bc"),
                    bound_place("ab", "c"),
                    bound_place("a", "", "bc"),
                    bound_place("abc"),
                }
            )
            == 5
        )

    def test_a_fork_does_not_repeat_nonces(self) -> None:
        script = (
            "import os, sys\n"
            "from elytron_store.sealed.cipher import DataKey\n"
            "key = DataKey(1, bytes(32))\n"
            "key.seal(b'', b'')\n"
            "child = os.fork()\n"
            "os.write(1, b''.join(key.seal(b'', b'') for _ in range(50)))\n"
            "os._exit(0) if child == 0 else os.waitpid(child, 0)\n"
        )
        told = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True, timeout=100).stdout
        nonces = [told[at + 21 : at + 33] for at in range(0, len(told), 49)]
        assert (len(nonces), len(set(nonces))) == (100, 100)


class TestOpening:
    async def test_a_store_reopens_only_with_its_key(self) -> None:
        inner = MemoryStore()
        await put(await seal(inner), fact(1), b"kept")
        assert await one(await seal(inner), fact(1)) == Document(fact(1), 1, b"kept")
        with pytest.raises(KeyMissing, match=r"'old' is not among those provided \(new\).*--key-file"):
            await seal(inner, keys=NEW_ONLY)
        with pytest.raises(KeyMissing, match="is not the one this store was sealed with"):
            await seal(inner, keys=LocalKeys({"old": NEW}, current="old"))

    async def test_a_store_without_its_keyring_is_not_sealed_again(self) -> None:
        inner = MemoryStore()
        await put(await seal(inner), fact(1))
        await inner.erase(ErasureTarget(space=KEYRING, at=AT, refs=(NAMES,)))
        before = await inner.check()
        with pytest.raises(StoreForeign, match="keyring of this store is lost"):
            await seal(inner)
        assert await inner.check() == before

    async def test_a_store_that_was_never_sealed_is_refused(self) -> None:
        inner = MemoryStore()
        await put(inner, fact(1))
        with pytest.raises(StoreForeign):
            await seal(inner)

    async def test_an_altered_key_of_names_is_refused(self) -> None:
        inner = MemoryStore()
        await seal(inner)
        await plant(inner, KEYRING, Document(NAMES, 1, b"{}"))
        with pytest.raises(SealBroken):
            await seal(inner)

    async def test_two_handles_opening_an_empty_store_concurrently_share_a_keyring(self) -> None:
        inner = Witness()

        async def other() -> None:
            await put(await seal(inner), fact(1), b"other's")

        inner.before("spaces", other)
        assert await one(await seal(inner), fact(1)) == Document(fact(1), 1, b"other's")
        inner = Witness()
        inner.before("commit", other)
        assert await one(await seal(inner), fact(1)) == Document(fact(1), 1, b"other's")

    async def test_two_handles_creating_a_space_concurrently_share_its_keys(self) -> None:
        inner = Witness()
        store, second = await seal(inner), await seal(inner)

        async def other() -> None:
            await put(second, fact(1), b"other's")

        inner.before("commit", other)
        await put(store, fact(2))
        assert await documents(store) == await documents(second)
        assert len(await keyring(inner, RECORDS)) == len(await keyring(inner, SPACE_SLOTS)) == 1

    async def test_nothing_reveals_key_material(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.DEBUG)
        inner = Witness()
        store = await seal(inner)
        await put(store, fact(1))
        shown = f"{store!r} {vars(store)!r} {KEYS!r} {DataKey(1, OLD)!r} {caplog.text} {bytes(inner.told)!r}"
        shown += "".join(f"{vars(value)!r}" for value in vars(store).values() if hasattr(value, "__dict__"))
        forms = (repr(OLD), repr(OLD)[2:-1], OLD.hex(), base64.b64encode(OLD).decode()[:40])
        assert [form for form in forms if form in shown] == []
        assert repr(KEYS) == "LocalKeys(current='old', ids=['old'])"


def wrapped_keys(record: dict[str, Any]) -> list[dict[str, str]]:
    """Return the wrapped keys of a record of the keyring."""
    return record["keys"] if "keys" in record else [record["key"]]


async def names_of(inner: Store) -> Document:
    """Return the keyring's record of names."""
    (found,) = await inner.get(KEYRING, [NAMES])
    assert found is not None
    return found


class TestIdentity:
    async def test_no_key_of_another_store_under_the_same_key_file_opens_here(self) -> None:
        ours, theirs = MemoryStore(), MemoryStore()
        for inner in (ours, theirs):
            await put(await seal(inner), fact(1), b"kept")
        names, others = [json.loads((await names_of(inner)).body) for inner in (ours, theirs)]
        assert names["identity"] != others["identity"]
        forged = json.dumps({**names, "key": others["key"]}).encode()
        await plant(ours, KEYRING, Document(NAMES, 1, forged))
        with pytest.raises(KeyMissing):
            await seal(ours)


class TestRotation:
    async def test_a_new_key_encryption_key_replaces_the_old_one_everywhere(self) -> None:
        inner = MemoryStore()
        store = await seal(inner)
        for space in (ADA, BOB):
            await put(store, fact(1), space.encode(), space=space)
        await store.rotate_data_key(ADA)
        assert await store.rotate_key_encryption() == 0
        rotating = await seal(inner, keys=BOTH)
        assert await rotating.rotate_key_encryption() == 4
        assert await rotating.rotate_key_encryption() == 0
        again = await seal(inner, keys=NEW_ONLY)
        assert [(await documents(again, space=space))[0].body for space in (ADA, BOB)] == [b"ada", b"bob"]
        with pytest.raises(KeyMissing):
            await seal(inner)
        assert await one(store, fact(1), space=BOB) == Document(fact(1), 1, b"bob")

    @pytest.mark.parametrize("engine", ["sqlite", "file"])
    async def test_no_byte_of_formerly_wrapped_keys_remains(self, engine: str, tmp_path: Path) -> None:
        place = tmp_path / "store"
        opened = SqliteStore.open if engine == "sqlite" else FileStore.open
        inner = await opened(place, clock=FrozenClock(), sealed=True)
        for space in (ADA, BOB):
            await put(await seal(inner), fact(1), b"kept", space=space)
        records = await inner.scan(KEYRING, RECORDS, limit=10)
        old = [key["wrapped"].encode() for record in records for key in wrapped_keys(json.loads(record.body))]
        assert len(old) == 3
        assert await (await seal(inner, keys=BOTH)).rotate_key_encryption() == 3
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert [key for key in old for path in files if key in path.read_bytes()] == []
        await inner.close()

    async def test_an_interrupted_rotation_resumes(self) -> None:
        inner = Witness()
        store = await seal(inner)
        for number in range(5):
            await put(store, fact(1), space=SpaceId(f"space {number}"))
        rotating = await seal(inner, keys=BOTH)

        async def fail() -> None:
            raise StoreFailed(engine="memory", doing="writing")

        later = iter(range(10))
        inner.before("commit", fail, when=lambda _: next(later) == 2)
        with pytest.raises(StoreFailed):
            await rotating.rotate_key_encryption()
        assert await rotating.rotate_key_encryption() == 4

    async def test_a_rotation_tolerates_concurrent_changes_to_a_record(self) -> None:
        inner = Witness()
        store = await seal(inner)
        await put(store, fact(1), b"kept")
        first, second = await seal(inner, keys=BOTH), await seal(inner, keys=BOTH)

        async def other() -> None:
            await second.rotate_data_key(ADA)

        def record(made: object) -> bool:
            return isinstance(made, Batch) and made.puts[0].ref.collection == RECORDS and made.puts[0].ref != NAMES

        inner.before("commit", other, when=record)
        assert await first.rotate_key_encryption() == 2
        inner.before("commit", other, when=record)
        await first.rotate_data_key(ADA)
        again = await seal(inner, keys=NEW_ONLY)
        assert await one(again, fact(1)) == Document(fact(1), 1, b"kept")
        await put(again, fact(2))
        assert key_number((await raw(inner, await inner_space(inner), fact(2))).body) == 4

    async def test_a_record_erased_during_rewrapping_stays_erased(self) -> None:
        inner = Witness()
        store = await seal(inner)
        await put(store, fact(1))
        rotating = await seal(inner, keys=BOTH)

        inner.before("commit", erasing(store), when=lambda made: isinstance(made, Batch) and made.puts[0].ref != NAMES)
        assert await rotating.rotate_key_encryption() == 1
        assert await spaces(rotating) == set()

    async def test_a_new_data_key_seals_all_writes_and_the_old_one_still_opens(self) -> None:
        inner = MemoryStore()
        store, second = await seal(inner), await seal(inner)
        once = BatchKey(key="k", digest="d", answer=b"answer")
        await store.commit(batch(PutChange(fact(1), b"one", 0), idempotency=once))
        await put(second, fact(2), b"two")
        await write_blob(store, "aa", b"old blob")
        await store.rotate_data_key(ADA)
        await put(second, fact(3), b"three")
        await write_blob(second, "ab", b"new blob")
        space = await inner_space(inner)
        numbers = [key_number((await raw(inner, space, fact(number))).body) for number in (1, 2, 3)]
        assert numbers == [1, 1, 2]
        for handle in (store, second, await seal(inner)):
            assert [kept.body for kept in await documents(handle)] == [b"one", b"two", b"three"]
            assert [await blob(handle, key) for key in ("aa", "ab")] == [b"old blob", b"new blob"]
            assert (await handle.commit(batch(PutChange(fact(1), b"one", 0), idempotency=once))).answer == b"answer"
        assert [(entry.action, entry.ref) for entry in await journal(store)][2] == (JournalAction.MAINTENANCE, GUARD)
        assert (await store.check()).ok

    async def test_a_handle_opens_data_sealed_under_a_newer_key(self) -> None:
        inner = MemoryStore()
        store, reader = await seal(inner), await seal(inner)
        once = BatchKey(key="k", digest="d", answer=b"answer")
        await put(store, fact(1))
        assert len(await documents(reader)) == 1
        await store.rotate_data_key(ADA)
        await store.commit(batch(PutChange(fact(2), b"two", 0), idempotency=once))
        await write_blob(store, "aa", b"blob")
        assert await one(reader, fact(2)) == Document(fact(2), 1, b"two")
        reader = await seal(inner)
        await store.rotate_data_key(ADA)
        assert len(await documents(reader)) == 2
        await store.rotate_data_key(ADA)
        await write_blob(store, "aa", b"newer")
        assert await blob(reader, "aa") == b"newer"
        await store.rotate_data_key(ADA)
        last = BatchKey(key="l", digest="d", answer=b"last")
        await store.commit(batch(PutChange(fact(3), b"", 0), idempotency=last))
        assert (await reader.commit(batch(PutChange(fact(3), b"", 0), idempotency=last))).answer == b"last"

    async def test_commits_during_a_key_rotation_are_all_stored(self) -> None:
        store = await seal(MemoryStore())
        second = store
        tasks = [put(store, fact(number), b"%d" % number) for number in range(20)]
        await asyncio.gather(*tasks[:10], second.rotate_data_key(ADA), *tasks[10:])
        assert [kept.body for kept in await documents(store)] == [b"%d" % number for number in range(20)]

    async def test_a_first_commit_races_the_first_rotation(self) -> None:
        inner = Witness()
        store, second = await seal(inner), await seal(inner)
        await write_blob(store, "aa", b"x")
        assert await blob(second, "aa") == b"x"

        async def commit() -> None:
            await put(second, fact(1))

        inner.before("commit", commit, when=lambda made: isinstance(made, Batch) and made.puts[0].ref == GUARD)
        await store.rotate_data_key(ADA)
        assert [entry.ref for entry in await journal(store)] == [fact(1), GUARD]

    async def test_a_space_without_keys_has_nothing_to_rotate(self) -> None:
        store = await seal(MemoryStore())
        await store.rotate_data_key(NOWHERE)
        assert await spaces(store) == set()
        with pytest.raises(InvalidInput):
            await store.rotate_data_key(SpaceId(""))

    async def test_a_space_erased_during_its_rotation_stays_erased(self) -> None:
        inner = Witness()
        store, second = await seal(inner), await seal(inner)
        await put(store, fact(1))

        looks = iter(range(10))
        inner.before("get", erasing(second), when=lambda refs: RECORDS in repr(refs) and next(looks) == 1)
        await store.rotate_data_key(ADA)
        assert await spaces(store) == set()

    async def test_a_space_erased_after_its_new_key_was_stored_stays_erased(self) -> None:
        inner = Witness()
        store, second = await seal(inner), await seal(inner)
        await put(store, fact(1))

        inner.before("commit", erasing(second), when=lambda made: isinstance(made, Batch) and made.puts[0].ref == GUARD)
        await store.rotate_data_key(ADA)
        assert await spaces(store) == set()

    async def test_a_reader_looking_for_a_newer_key_sees_a_concurrent_erasure(self) -> None:
        inner = Witness()
        store, reader = await seal(inner), await seal(inner)
        await put(store, fact(1))
        assert len(await documents(reader)) == 1
        await store.rotate_data_key(ADA)
        await put(store, fact(2))

        inner.before("get", erasing(store), when=lambda refs: SPACE_SLOTS in repr(refs))
        with pytest.raises(KeyDestroyed):
            await documents(reader)
