"""Claims about checking, repairing and closing a store."""

from collections.abc import Awaitable, Callable
from functools import partial

from elytron_conformance.examples import (
    ADA,
    AT,
    BOB,
    Claims,
    batch,
    blob,
    delete,
    documents,
    fact,
    journal,
    put,
    refusals,
    source,
    write_blob,
)
from elytron_core.errors import StoreClosed
from elytron_core.ports.store import ErasureTarget, PutChange, Store
from elytron_core.ports.store_checks import CheckReport

HEALTHY = CheckReport(spaces=2, documents=3, entries=5, blobs=1)


async def fill(store: Store) -> None:
    """Create two spaces, three documents, five journal entries and one blob."""
    await store.commit(
        batch(PutChange(fact(1), b"one", 0), PutChange(fact(2), b"two", 0), PutChange(fact(3), b"three", 0))
    )
    await delete(store, fact(3), expects=1)
    await put(store, fact(1), space=BOB)
    await write_blob(store, "aa", b"blob")


CALLS: dict[str, Callable[[Store], Awaitable[object]]] = {
    "commit": lambda store: put(store, fact(9)),
    "get": lambda store: store.get(ADA, [fact(1)]),
    "scan": lambda store: store.scan(ADA, "facts", limit=1),
    "journal": lambda store: store.journal(ADA, after=0, limit=1),
    "spaces": lambda store: store.spaces(limit=1),
    "write_blob": lambda store: store.write_blob(ADA, "aa", source([b"x"])),
    "read_blob": lambda store: blob(store, "aa"),
    "erase": lambda store: store.erase(ErasureTarget(space=ADA, at=AT, whole_space=True)),
    "check": lambda store: store.check(),
    "repair": lambda store: store.repair(),
    "probe": lambda store: store.probe(),
}


class HealthClaims(Claims):
    """Claims about `check`, `repair` and `close`."""

    async def test_a_new_store_is_healthy_and_empty(self, store: Store) -> None:
        await store.probe()
        assert await store.check() == CheckReport(spaces=0, documents=0, entries=0, blobs=0)

    async def test_a_store_that_ends_with_its_handle_has_no_other_writer(self, store: Store) -> None:
        assert store.capabilities.durable or store.capabilities.single_writer

    async def test_a_check_counts_what_is_there_and_finds_nothing(self, store: Store) -> None:
        await fill(store)
        report = await store.check()
        assert report == HEALTHY
        assert report.ok

    async def test_a_repair_of_a_healthy_store_changes_nothing(self, store: Store) -> None:
        await fill(store)
        before = await documents(store), await journal(store)
        assert await store.repair() == HEALTHY
        assert (await documents(store), await journal(store)) == before
        assert await store.check() == HEALTHY

    async def test_an_erased_store_is_healthy(self, store: Store) -> None:
        await fill(store)
        await store.erase(ErasureTarget(space=ADA, at=AT, refs=(fact(1),), blobs=("aa",)))
        assert await store.check() == CheckReport(spaces=2, documents=2, entries=6, blobs=0)

    async def test_a_closed_store_says_so(self, store: Store) -> None:
        await fill(store)
        await store.close()
        calls = {name: partial(call, store) for name, call in CALLS.items()}
        assert await refusals(calls) == dict.fromkeys(CALLS, StoreClosed)

    async def test_a_second_close_does_nothing(self, store: Store) -> None:
        await fill(store)
        await store.close()
        await store.close()
