"""`/v1/conversations` as the official client asks it."""

from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator
from openai import NotFoundError
from tests.agent.service.responses.clients import served_client
from tests.agent.service.responses.test_responses import texts

pytestmark = pytest.mark.anyio


async def test_a_conversation_is_created_changed_and_deleted() -> None:
    async with served_client() as ada:
        made = await ada.openai.conversations.create(metadata={"topic": "boats"})
        assert made.metadata == {"topic": "boats"}
        changed = await ada.openai.conversations.update(made.id, metadata={"topic": "ships"})
        assert await ada.openai.conversations.retrieve(made.id) == changed
        gone = await ada.openai.conversations.delete(made.id)
        assert (gone.deleted, changed.metadata) == (True, {"topic": "ships"})
        with pytest.raises(NotFoundError):
            await ada.openai.conversations.retrieve(made.id)


async def test_responses_of_a_conversation_continue_each_other() -> None:
    async with served_client() as ada:
        talk = await ada.openai.conversations.create()
        for word in ("One", "Two"):
            made = await ada.openai.responses.create(model="scripted", input=word, conversation=talk.id)
            assert made.conversation is not None
            assert made.conversation.id == talk.id
        assert texts(ada.server.model.asked[-1]) == ["user: One", "assistant: You said: One", "user: Two"]
        items = await ada.openai.conversations.items.list(talk.id, order="asc")
        assert [item.content[0].text async for item in items] == [  # type: ignore[union-attr]
            *("One", "You said: One", "Two", "You said: Two")
        ]


async def test_items_are_paged_shown_added_and_deleted() -> None:
    given: Any = [
        {"type": "message", "role": "user", "content": "The gate code is 4711"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Noted."}]},
        {"type": "message", "role": "user", "content": "And the lamp is broken"},
    ]
    async with served_client() as ada:
        talk = await ada.openai.conversations.create(items=given[:2])
        added = await ada.openai.conversations.items.create(talk.id, items=given[2:])
        first = await ada.openai.conversations.items.list(talk.id, limit=2)
        assert (len(first.data), first.has_more, first.data[0].id) == (2, True, added.data[0].id)
        everything = [item.id async for item in first]
        assert len(set(everything)) == 3
        code = await ada.openai.conversations.items.retrieve(everything[-1] or "", conversation_id=talk.id)
        assert code.content[0].text == "The gate code is 4711"  # type: ignore[union-attr]
        await ada.openai.conversations.items.delete(everything[-1] or "", conversation_id=talk.id)
        left = [item.id async for item in await ada.openai.conversations.items.list(talk.id)]
        assert left == everything[:2]
        await ada.openai.responses.create(model="scripted", input="Well?", conversation=talk.id)
        assert texts(ada.server.model.asked[-1]) == [
            *("assistant: Noted.", "user: And the lamp is broken", "user: Well?")
        ]


async def test_the_agents_thread_is_not_a_conversation() -> None:
    async with served_client() as ada:
        agent = await ada.user.made("POST", "/init")
        await ada.user.chat("Hello")
        talks = [await ada.openai.conversations.create() for _ in range(3)]
        headers = {"Authorization": f"Bearer {ada.user.key}"}
        listed = (await ada.server.client.get("/v1/conversations?limit=2", headers=headers)).json()
        assert ([each["id"] for each in listed["data"]], listed["has_more"]) == ([talks[2].id, talks[1].id], True)
        with pytest.raises(NotFoundError):
            await ada.openai.conversations.retrieve(agent["conversation_id"])
        body = {"ids": [agent["conversation_id"], talks[0].id]}
        batch = (await ada.server.client.post("/v1/conversations/batch-delete", headers=headers, json=body)).json()
        assert [(each["deleted"], each.get("error")) for each in batch["data"]] == [(False, "not_found"), (True, None)]
        gone = (await ada.server.client.delete("/v1/conversations", headers=headers)).json()
        items = (await ada.user.made("GET", "/items"))["data"]
        assert (gone["count"], len(items)) == (2, len(agent["welcome"]) + 2)


async def test_deleted_items_are_in_no_memory() -> None:
    async with served_client() as ada:
        talk = await ada.openai.conversations.create()
        await ada.openai.responses.create(model="scripted", input="My cat is Obsidian", conversation=talk.id)
        kept = await ada.openai.responses.create(model="scripted", input="My cat is Marble")
        await ada.openai.conversations.delete(talk.id)
        await ada.openai.responses.delete(kept.id)
        headers = {"Authorization": f"Bearer {ada.user.key}"}
        found = (await ada.server.client.post("/v1/search", headers=headers, json={"query": "What is my cat?"})).json()
        assert found["hits"] == []


async def test_answers_match_their_description_including_null_values() -> None:
    async with served_client() as ada:
        client, headers = ada.server.client, {"Authorization": f"Bearer {ada.user.key}"}
        components = (await client.get("/openapi/all.json", headers=headers)).json()["components"]
        question = {"model": "scripted", "input": "One"}
        answers = {
            "ConversationList": (await client.get("/v1/conversations", headers=headers)).json(),
            "ConversationBody": (await client.post("/v1/conversations", json={}, headers=headers)).json(),
            "ResponseBody": (await client.post("/v1/responses", json=question, headers=headers)).json(),
        }
    assert (answers["ConversationList"]["last_id"], answers["ResponseBody"]["user"]) == (None, None)
    for name, answer in answers.items():
        Draft202012Validator({"$ref": f"#/components/schemas/{name}", "components": components}).validate(answer)
        assert components["schemas"][name]["required"] == [*answer]
