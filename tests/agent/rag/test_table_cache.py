"""The vector cache: time to live, least recently used, total and per-user bytes, one load at a time."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from tests.agent.rag.served_rag import served_rag

import elytron
from elytron import Message
from elytron_agent.rag.rag_surfaces import RagSettings
from elytron_agent.rag.table_cache import CacheBounds, TableCache
from elytron_agent.rag.vector_table import VectorKind
from elytron_core.errors import Overloaded
from elytron_core.ids import SpaceId
from elytron_core.ports.store import Document

pytestmark = pytest.mark.anyio
KIND = VectorKind("words-1", 32)


def cached(**bounds: Any) -> RagSettings:
    return RagSettings(cache=CacheBounds(**bounds))


async def test_a_second_search_uses_the_cache_until_it_expires() -> None:
    async with served_rag() as server:
        ada = await server.user("ada")
        await ada.insert("Boat.")
        await ada.search("boat")
        await ada.search("car")
        before = await server.figures()
        server.clock.advance(5 * 60 * 1000)
        await ada.search("boat")
        after = await server.figures()
    assert (before["cache_misses_total"], before["cache_hits_total"], before["cache_users"]) == (1, 1, 1)
    assert (after["cache_misses_total"], after["cache_expired_total"]) == (2, 1)


async def test_every_written_row_is_found_and_no_erased_one() -> None:
    async with served_rag() as server:
        ada = await server.user("ada")
        first = await ada.insert("Boat one.")
        await ada.search("boat")
        await server.memory_of("ada").add(Message(text="Boat two."), conversation="trip")
        await server.embed("ada")
        assert sorted(await ada.texts("boat")) == ["Boat one.", "Boat two."]
        memory = server.memory_of("ada")
        await memory.erase(elytron.MemoryEraseRequest(ids=(first["id"],), reason="asked"))
        assert await ada.texts("boat") == ["Boat two."]
        figures = await server.figures()
    assert (figures["cache_misses_total"], figures["cache_updates_total"] > 0) == (1, True)


async def test_tag_filters_bypass_the_cache() -> None:
    async with served_rag() as server:
        ada = await server.user("ada")
        await ada.insert("Boat.", tags=["sea"])
        assert await ada.texts("boat", tags=["sea"]) == ["Boat."]
        figures = await server.figures()
    assert (figures["cache_misses_total"], figures["cache_users"]) == (0, 0)


async def test_the_least_recently_used_user_is_evicted_first() -> None:
    async with served_rag(settings=cached(users=2)) as server:
        users = [await server.user(name) for name in ("ada", "bob", "eve")]
        for user in users:
            await user.insert("Boat.")
        for user in (users[0], users[1], users[0], users[2], users[0]):
            await user.search("boat")
        before = await server.figures()
        await users[1].search("boat")
        after = await server.figures()
    assert (before["cache_misses_total"], before["cache_hits_total"], before["cache_evicted_total"]) == (3, 2, 1)
    assert (after["cache_misses_total"], after["cache_evicted_total"]) == (4, 2)


async def test_a_user_over_the_per_user_budget_is_searched_without_the_cache() -> None:
    async with served_rag(settings=cached(user_bytes=600)) as server:
        ada, bob = await server.user("ada"), await server.user("bob")
        for text in ("Boat one.", "Boat two."):
            await ada.insert(text)
        await bob.insert("Boat.")
        assert (sorted(await ada.texts("boat")), await bob.texts("boat")) == (["Boat one.", "Boat two."], ["Boat."])
        figures = await server.figures()
    assert (figures["cache_users"], figures["cache_too_large_total"]) == (1, 1)
    assert figures["cache_bytes"] <= 600


async def test_the_total_budget_is_respected() -> None:
    async with served_rag(settings=cached(size_bytes=1_100)) as server:
        for name in ("ada", "bob", "eve"):
            user = await server.user(name)
            await user.insert("Boat.")
            assert await user.texts("boat") == ["Boat."]
        figures = await server.figures()
    assert (figures["cache_users"], figures["cache_evicted_total"]) == (2, 1)
    assert figures["cache_bytes"] <= figures["cache_bytes_limit"] == 1_100


class GatedStore:
    """A store whose scans wait for a gate."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.gate = asyncio.Event()
        self.scans = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def scan(self, *given: Any, **named: Any) -> Sequence[Document]:
        self.scans += 1
        await self.gate.wait()
        return await self._store.scan(*given, **named)


async def test_one_of_many_concurrent_searches_loads_and_the_others_wait_briefly() -> None:
    async with served_rag() as server:
        await (await server.user("ada")).insert("Boat.")
        store = GatedStore(server.memory.context.store)
        cache = TableCache(store, server.clock, bounds=CacheBounds(wait_s=0.05))  # pyright: ignore[reportArgumentType]
        space = SpaceId("ada")
        answers = await asyncio.gather(*(cache.table(space, KIND) for _ in range(5)), return_exceptions=True)
        assert [type(each) for each in answers] == [Overloaded] * 5
        assert (store.scans, cache.counts.waits_over) == (1, 5)
        waiting = [asyncio.create_task(cache.table(space, KIND)) for _ in range(3)]
        store.gate.set()
        tables = await asyncio.gather(*waiting)
        scans = store.scans
        await cache.table(space, KIND)
        await cache.close()
    assert [len(table.rows) for table in tables if table is not None] == [1, 1, 1]
    assert (store.scans, scans <= 4) == (scans, True)
