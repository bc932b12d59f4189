"""`/v1/rag/embeddings` and `/v1/rag/search`: rows as memories, filters, deletion, isolation between users."""

import pytest
from tests.agent.rag.served_rag import served_rag
from tests.sdk.encoders import WordEmbedder

import elytron
from elytron import Message
from elytron_agent.blocks.archive import ArchivalMemory, search_conversations
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SpaceId
from elytron_core.scope import Scope

pytestmark = pytest.mark.anyio


async def test_a_row_has_its_source_tags_tokens_model_and_dimension() -> None:
    async with served_rag() as server:
        ada = await server.user("ada")
        row = await ada.insert("The boat is red.", tags=["Sea ", "sea"], metadata={"page": 3, "tags": "Red, boat"})
        (hit,) = (await ada.search("vessel"))["data"]
    assert (row["object"], row["source_type"], row["tags"]) == ("rag.embedding", "archival", ["sea", "red", "boat"])
    assert (row["token_count"], row["model"], row["dimension"]) == (4, "words-1", 32)
    assert (hit["id"], hit["text"], hit["metadata"]) == (row["id"], "The boat is red.", {"page": 3})
    assert (hit["tags"], hit["created_at"]) == (row["tags"], row["created_at"])


async def test_an_agents_archival_tools_see_the_same_data() -> None:
    async with served_rag() as server:
        ada = await server.user("ada")
        row = await ada.insert("The boat is red.")
        archive = ArchivalMemory(server.memory_of("ada"))
        assert [hit.id for hit in await archive.search("boat")] == [row["id"]]
        await archive.insert("The car is blue.", tags=("garage",))
        await server.embed("ada")
        assert await ada.texts("automobile", tags=["GARAGE"]) == ["The car is blue."]
        await ada.made("DELETE", f"/embeddings/{row['id']}")
        assert not await archive.search("boat")


async def test_rows_are_filtered_by_source_conversation_and_any_tag() -> None:
    async with served_rag() as server:
        ada = await server.user("ada")
        memory = server.memory_of("ada")
        await memory.add(Message(text="We sail the boat."), conversation="trip")
        await memory.add(Message(text="The boat needs paint."), conversation="work", tags=("todo",))
        await ada.insert("A boat has a mast.", tags=["todo", "mast"])
        await ada.insert("The manual of the boat.", source_type="document")
        await server.embed("ada")
        found = {
            "messages": await ada.texts("boat", source_types=["message"]),
            "documents": await ada.texts("boat", source_types=["document", "archival"]),
            "trip": await ada.texts("boat", conversation_id="trip"),
            "tags": await ada.texts("boat", tags=["Mast", "other"]),
            "both": await ada.texts("boat", tags=["todo"], source_types=["message"]),
        }
        asked = await search_conversations(memory, "manual of the boat")
    assert {name: sorted(texts) for name, texts in found.items()} == {
        "messages": ["The boat needs paint.", "We sail the boat."],
        "documents": ["A boat has a mast.", "The manual of the boat."],
        "trip": ["We sail the boat."],
        "tags": ["A boat has a mast."],
        "both": ["The boat needs paint."],
    }
    assert not {hit.text for hit in asked} & {"The manual of the boat.", "A boat has a mast."}


async def test_private_and_unstored_messages_have_no_rows() -> None:
    async with served_rag() as server:
        ada = await server.user("ada")
        memory = server.memory_of("ada")
        await memory.add(Message(text="The safe is open."), metadata={"private": True})
        await memory.add(Message(text="The safe is shut."), metadata={"store": False})
        await memory.add(Message(role=EvidenceRole.SYSTEM, text="The safe is policy."))
        await server.embed("ada")
        answer = await ada.search("safe")
        status = await ada.made("GET", "/embeddings/status")
    assert (answer["data"], answer["compared"], status["total"]) == ([], 0, 0)


async def test_max_tokens_ends_the_answer_at_the_first_row_that_does_not_fit() -> None:
    async with served_rag() as server:
        ada = await server.user("ada")
        for text in ("boat", "boat boat boat boat boat boat boat boat and", "boat and sail and wind"):
            await ada.insert(text)
        whole = await ada.search("boat", top_k=3)
        tokens = [hit["token_count"] for hit in whole["data"]]
        cut = await ada.search("boat", top_k=3, max_tokens=tokens[0] + tokens[2])
    assert tokens[1] > tokens[2]
    assert not whole["is_cut"]
    assert ([hit["text"] for hit in cut["data"]], cut["total_tokens"], cut["is_cut"]) == (["boat"], tokens[0], True)


async def test_equally_similar_rows_are_ordered_by_fewer_tokens() -> None:
    async with served_rag() as server:
        ada = await server.user("ada")
        for text in ("boat . . . . . . . .", "boat", "boat . . . ."):
            await ada.insert(text)
        found = (await ada.search("vessel"))["data"]
    assert [hit["text"] for hit in found] == ["boat", "boat . . . .", "boat . . . . . . . ."]
    assert {round(hit["score"], 6) for hit in found} == {1.0}
    assert len({hit["score"] for hit in found}) == 1


async def test_a_second_user_sees_nothing_and_cannot_delete() -> None:
    async with served_rag() as server:
        ada, bob = await server.user("ada"), await server.user("bob")
        row = await ada.insert("The safe opens with seven.")
        assert await bob.texts("safe") == []
        assert (await bob.made("GET", "/embeddings/status"))["total"] == 0
        answers = [
            await bob.call("DELETE", f"/embeddings/{id_}", X_Request_ID="same")
            for id_ in (row["id"], "0123456789abcdef01234567.000000000001")
        ]
        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].content == answers[1].content
        await bob.made("DELETE", "/embeddings")
        assert await ada.texts("safe") == ["The safe opens with seven."]


async def test_deleting_all_erases_inserted_texts_and_leaves_messages() -> None:
    async with served_rag() as server:
        ada = await server.user("ada")
        await server.memory_of("ada").add(Message(text="We sail the boat."), conversation="trip")
        await ada.insert("A boat has a mast.")
        await ada.insert("The manual of the boat.", source_type="document")
        planned = await ada.made("DELETE", "/embeddings?dry_run=true")
        one = await ada.made("DELETE", "/embeddings?source_type=document")
        rest = await ada.made("DELETE", "/embeddings")
        await server.embed("ada")
        assert await ada.texts("boat") == ["We sail the boat."]
        refused = await ada.call("DELETE", "/embeddings?source_type=message")
        used = (await ada.made("GET", "/embeddings/status"))["quotas"]
    assert (planned["deleted"], planned["rows"], planned["messages_left"]) == (False, 2, 1)
    assert (one["rows"], rest["rows"], rest["deleted"]) == (1, 1, True)
    assert (refused.status_code, used["rows"]["used"], used["size_bytes"]["used"]) == (422, 0, 0)


async def test_erasing_the_space_also_empties_caches() -> None:
    async with served_rag() as server:
        ada = await server.user("ada")
        await ada.insert("The safe opens with seven.")
        assert await ada.texts("safe") == ["The safe opens with seven."]
        scope = Scope(space=SpaceId("ada"))
        await server.memory.erase(elytron.MemoryEraseRequest(scope=scope, whole_space="ada", reason="asked"))
        assert await ada.texts("safe") == []
        assert (await ada.made("GET", "/embeddings/status"))["quotas"]["rows"]["used"] == 0
        await ada.insert("The safe is empty.")
        assert await ada.texts("safe") == ["The safe is empty."]


async def test_a_text_is_inserted_once_per_key() -> None:
    async with served_rag() as server:
        ada = await server.user("ada")
        body = {"text": "The boat is red."}
        first, again = [await ada.made("POST", "/embeddings", body, Idempotency_Key="one") for _ in range(2)]
        status = await ada.made("GET", "/embeddings/status")
    assert first == again
    assert (status["total"], status["quotas"]["rows"]["used"], status["quotas"]["inserts"]["used"]) == (1, 1, 1)


async def test_a_text_is_stored_despite_a_failing_embedder_and_embedded_later() -> None:
    embedder = WordEmbedder()
    async with served_rag(embedder=embedder) as server:
        ada = await server.user("ada")
        embedder.is_down = True
        row = await ada.insert("The boat is red.")
        failed = await ada.call("POST", "/search", {"query": "boat"})
        embedder.is_down = False
        before = await ada.search("boat")
        await server.embed("ada")
        after = await ada.texts("boat")
    assert ("model" in row, failed.status_code, failed.json()["code"]) == (False, 503, "model_unavailable")
    assert (before["data"], before["skipped"]["unembedded"], after) == ([], 1, ["The boat is red."])


async def test_rows_of_another_model_are_skipped_and_counted(tmp_path: object) -> None:
    url = f"sqlite:///{tmp_path}/m.db"
    async with served_rag(store=url) as server:
        ada = await server.user("ada")
        await ada.insert("The boat is red.")
        await ada.insert("The car is blue.")
    async with served_rag(store=url, embedder=WordEmbedder("words-2", dimensions=16)) as server:
        ada = await server.user("ada")
        answer = await ada.search("boat")
        status = await ada.made("GET", "/embeddings/status")
        await server.memory.switch_model(elytron.ModelSwitchRequest(scope=Scope(space=SpaceId("ada"))))
        switched = await ada.search("boat", top_k=1)
    assert (answer["data"], answer["skipped"]) == ([], {"other_models": 2, "other_dimensions": 0, "unembedded": 0})
    assert (answer["model"], status["stale_count"], status["unembedded_count"]) == ("words-2", 2, 0)
    assert status["by_model"] == [{"model": "words-1", "dimension": 32, "rows": 2}]
    assert ([hit["text"] for hit in switched["data"]], switched["compared"]) == (["The boat is red."], 2)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/embeddings", {"text": "  "}, "text"),
        ("/embeddings", {"text": "a", "source_type": "message"}, "source_type"),
        ("/embeddings", {"text": "a", "source_type": "Doc!"}, "source_type"),
        ("/embeddings", {"text": "a", "metadata": {"private": False}}, "metadata.private"),
        ("/search", {"query": "a", "top_k": 21}, "top_k"),
        ("/search", {"query": ""}, "query"),
        ("/search", {"query": "a", "max_tokens": 0}, "max_tokens"),
    ],
)
async def test_bad_input_names_its_field(path: str, body: dict[str, object], field: str) -> None:
    async with served_rag() as server:
        ada = await server.user("ada")
        answer = await ada.call("POST", path, body)
        rows = (await ada.made("GET", "/embeddings/status"))["quotas"]["rows"]["used"]
    assert (answer.status_code, rows) == (422, 0)
    assert field in answer.text
