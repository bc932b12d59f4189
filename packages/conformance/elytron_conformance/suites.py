"""The suites: the claims that hold for every store, and those about a store after it is reopened."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from elytron_conformance.blobs import BlobClaims
from elytron_conformance.commits import CommitClaims
from elytron_conformance.compaction import CompactionClaims
from elytron_conformance.concurrency import ConcurrencyClaims
from elytron_conformance.erasure import ErasureClaims
from elytron_conformance.examples import (
    ADA,
    AT,
    BOB,
    JOBS,
    Claims,
    batch,
    blob,
    delete,
    documents,
    fact,
    journal,
    one,
    put,
    spaces,
    spaces_with_jobs,
    write_blob,
)
from elytron_conformance.health import HealthClaims
from elytron_conformance.idempotency import IdempotencyClaims
from elytron_conformance.isolation import IsolationClaims
from elytron_conformance.reads import QueueClaims, ReadClaims
from elytron_core import limits
from elytron_core.errors import IdempotencyConflict, NotFound
from elytron_core.ids import SpaceId
from elytron_core.ports.store import BatchKey, CommitReceipt, CompactedRun, Document, ErasureTarget, PutChange, Store
from elytron_core.profiles import ErasurePromise

Reopen = Callable[[], Awaitable[Store]]
"""Closes the store of the fixture `store` and opens it again; the fixtures close the store that it returns."""


def _holds(folder: Path, secret: bytes) -> bool:
    """Return whether any file below `folder` contains `secret`."""
    return any(secret in path.read_bytes() for path in folder.rglob("*") if path.is_file())


ONCE = batch(PutChange(fact(1), b"one", 0), idempotency=BatchKey(key="k", digest="d", answer=b"answer"))


class ReopenSuite(Claims):
    """Claims for durable stores. Subclasses add the fixture `reopen` for a `store` whose files are below `tmp_path`."""

    async def test_it_declares_that_it_is_durable(self, store: Store) -> None:
        assert store.capabilities.durable

    async def test_everything_acknowledged_is_there_after_reopening(self, store: Store, reopen: Reopen) -> None:
        await store.commit(batch(*(PutChange(fact(number), b"%d" % number, 0) for number in range(20))))
        await put(store, fact(3), b"newer", expects=1)
        await delete(store, fact(4), expects=1)
        await put(store, fact(1), b"bob's", space=BOB)
        await write_blob(store, "aa", bytes(limits.BLOB_CHUNK_BYTES), b"end")
        before = (
            await documents(store),
            await journal(store),
            await documents(store, space=BOB),
            await journal(store, space=BOB),
            await spaces(store),
            await blob(store, "aa"),
            await store.check(),
        )
        again = await reopen()
        assert (
            await documents(again),
            await journal(again),
            await documents(again, space=BOB),
            await journal(again, space=BOB),
            await spaces(again),
            await blob(again, "aa"),
            await again.check(),
        ) == before

    async def test_no_byte_of_what_was_erased_is_left(self, store: Store, tmp_path: Path) -> None:
        secret = b"a secret that is erased"
        await store.commit(batch(PutChange(fact(1), secret, 0), PutChange(fact(2), b"two", 0)))
        await write_blob(store, "aa", secret)
        assert store.capabilities.erasure is ErasurePromise.NO_BYTE
        assert _holds(tmp_path, secret) is not store.capabilities.sealed
        await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),), blobs=("aa",)))
        assert not _holds(tmp_path, secret)

    async def test_sequences_go_on_where_they_stood(self, store: Store, reopen: Reopen) -> None:
        await put(store, fact(1))
        await put(store, fact(2))
        again = await reopen()
        assert await put(again, fact(3)) == CommitReceipt(3, 3)

    async def test_revisions_go_on_where_they_stood(self, store: Store, reopen: Reopen) -> None:
        await put(store, fact(1), b"first")
        await put(store, fact(1), b"second", expects=1)
        again = await reopen()
        await put(again, fact(1), b"third", expects=2)
        assert await one(again, fact(1)) == Document(fact(1), 3, b"third")

    async def test_idempotency_keys_survive(self, store: Store, reopen: Reopen) -> None:
        await store.commit(ONCE)
        again = await reopen()
        assert await again.commit(ONCE) == CommitReceipt(1, 1, replayed=True, answer=b"answer")
        with pytest.raises(IdempotencyConflict):
            await again.commit(batch(PutChange(fact(2), b"", 0), idempotency=BatchKey(key="k", digest="e", answer=b"")))

    async def test_what_was_erased_stays_erased(self, store: Store, reopen: Reopen) -> None:
        await store.commit(batch(PutChange(fact(1), b"one", 0), PutChange(fact(2), b"two", 0)))
        await write_blob(store, "aa", b"x")
        await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),), blobs=("aa",)))
        before = await documents(store), await journal(store)
        again = await reopen()
        assert (await documents(again), await journal(again)) == before
        with pytest.raises(NotFound):
            await blob(again, "aa")
        assert await put(again, fact(1)) == CommitReceipt(4, 4)

    async def test_a_compacted_journal_is_as_it_was(self, store: Store, reopen: Reopen) -> None:
        await store.commit(batch(*(PutChange(fact(number), b"", 0) for number in range(5))))
        await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1), fact(2))))
        await store.compact(ADA, [CompactedRun(2, 3, "sum")])
        before = await journal(store), await store.check()
        again = await reopen()
        assert (await journal(again), await again.check()) == before
        assert await put(again, fact(9)) == CommitReceipt(7, 7)

    async def test_an_erased_space_stays_erased(self, store: Store, reopen: Reopen) -> None:
        await store.commit(ONCE)
        await write_blob(store, "aa", b"x")
        await store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True))
        again = await reopen()
        assert await spaces(again) == set()
        assert await again.commit(ONCE) == CommitReceipt(1, 1, answer=b"answer")

    async def test_the_spaces_with_unfinished_jobs_are_listed_as_before(self, store: Store, reopen: Reopen) -> None:
        for space in (ADA, BOB, SpaceId("cleo")):
            await put(store, JOBS, space=space)
        await delete(store, JOBS, expects=1, space=BOB)
        before = await spaces_with_jobs(store)
        again = await reopen()
        assert await spaces_with_jobs(again) == before >= {ADA, SpaceId("cleo")}

    async def test_a_store_can_be_reopened_again_and_again(self, store: Store, reopen: Reopen) -> None:
        current = store
        for number in range(4):
            await put(current, fact(number))
            current = await reopen()
        assert [document.ref for document in await documents(current)] == [fact(number) for number in range(4)]


class StoreSuite(
    CommitClaims,
    ReadClaims,
    QueueClaims,
    IsolationClaims,
    IdempotencyClaims,
    BlobClaims,
    ErasureClaims,
    CompactionClaims,
    HealthClaims,
    ConcurrencyClaims,
):
    """Claims for every store. Subclasses provide the fixture `store`: an empty store that the fixture closes."""
