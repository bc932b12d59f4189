"""Embedding quotas: each refusal names its limit and when it resets."""

from typing import Any

import pytest
from tests.agent.rag.served_rag import served_rag

import elytron
from elytron_agent.rag.rag_surfaces import RagSettings
from elytron_agent.rag.usage import RagQuotas

pytestmark = pytest.mark.anyio


def quotas(**limits: int) -> RagSettings:
    return RagSettings(quotas=RagQuotas(**limits))


async def test_a_text_is_limited_to_16_kib_and_a_query_to_4() -> None:
    async with served_rag() as server:
        ada = await server.user("ada")
        await ada.insert("ab" * 8 * 1024)
        long = await ada.call("POST", "/embeddings", {"text": "ä" * (8 * 1024) + "a"})
        query = await ada.call("POST", "/search", {"query": "ä" * (2 * 1024) + "a"})
    assert (long.status_code, query.status_code) == (422, 422)
    assert_named(long.json(), "bytes in a text: at most 16384, got 16385")
    assert_named(query.json(), "bytes in a query: at most 4096, got 4097")


async def test_deleting_rows_frees_the_users_row_quota() -> None:
    async with served_rag(settings=quotas(user_rows=2)) as server:
        ada, bob = await server.user("ada"), await server.user("bob")
        rows = [await ada.insert(f"Boat {number}.") for number in range(2)]
        refused = await ada.call("POST", "/embeddings", {"text": "One more."})
        await bob.insert("Mine.")
        await ada.made("DELETE", f"/embeddings/{rows[0]['id']}")
        await ada.insert("One more.")
        figures = await server.figures()
    assert refused.status_code == 422
    assert_named(refused.json(), "rows per user", "at most 2", "DELETE /v1/rag/embeddings")
    assert figures["quota_refused_total"] == 1


async def test_a_users_bytes_include_texts_and_vectors() -> None:
    async with served_rag(settings=quotas(user_bytes=700)) as server:
        ada = await server.user("ada")
        await ada.insert("a" * 100)
        used = (await ada.made("GET", "/embeddings/status"))["quotas"]["size_bytes"]
        refused = await ada.call("POST", "/embeddings", {"text": "b" * 100})
    assert used == {"used": 100 + 200 + 2 * 32, "limit": 700}
    assert_named(refused.json(), "bytes in a user's rows", "at most 700")


async def test_the_total_quotas_count_every_user() -> None:
    async with served_rag(settings=quotas(project_rows=2, project_bytes=10_000)) as server:
        ada, bob = await server.user("ada"), await server.user("bob")
        await ada.insert("One.")
        await bob.insert("Two.")
        refused = await bob.call("POST", "/embeddings", {"text": "Three."})
        project = (await bob.made("GET", "/embeddings/status"))["quotas"]["project_rows"]
    assert project == {"used": 2, "limit": 2}
    assert_named(refused.json(), "rows across all users", "at most 2", "operator")


async def test_the_hourly_insert_quota_resets_with_the_hour() -> None:
    async with served_rag(settings=quotas(inserts_per_hour=2)) as server:
        ada = await server.user("ada")
        for number in range(2):
            await ada.insert(f"Boat {number}.")
        refused = await ada.call("POST", "/embeddings", {"text": "One more."})
        state = (await ada.made("GET", "/embeddings/status"))["quotas"]["inserts"]
        server.clock.advance(1000 * int(refused.headers["Retry-After"]))
        await ada.insert("One more.")
    assert (refused.status_code, refused.json()["code"], state["used"]) == (429, "rate_limited", 2)
    assert state["ends_at"] % 3_600_000 < 1000
    assert_named(refused.json(), "more than 2 new embeddings per hour")


async def test_rows_removed_otherwise_are_subtracted_from_the_quota() -> None:

    async with served_rag(settings=quotas(user_rows=1)) as server:
        ada = await server.user("ada")
        row = await ada.insert("Boat.")
        await server.memory_of("ada").erase(elytron.MemoryEraseRequest(ids=(row["id"],), reason="asked"))
        server.clock.advance(60_000)
        await ada.insert("Car.")


def assert_named(problem: dict[str, Any], *parts: str) -> None:
    for part in parts:
        assert part in problem["detail"], problem
