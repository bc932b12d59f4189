"""Rejected requests of responses and conversations, each by its field."""

from typing import Any

import pytest
from tests.agent.service.responses.clients import served_client
from tests.agent.service.responses.test_responses import WEATHER

from elytron_agent.service.responses.response_repository import RESPONSE_INPUT_BYTES

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"model": "gpt-9"}, 422, "model"),
        ({"tools": [WEATHER | {"name": "done"}]}, 422, "tools"),
        ({"tools": [WEATHER, WEATHER]}, 422, "tools"),
        ({"tools": [WEATHER], "tool_choice": {"type": "function", "name": "other"}}, 422, "tool_choice"),
        ({"tool_choice": "required"}, 422, "tool_choice"),
        ({"text": {"format": {"type": "json_schema", "name": "x"}}}, 422, "format"),
        ({"background": True, "store": False}, 422, ""),
        ({"input": [{"type": "function_call", "name": "x"}]}, 422, "input"),
        ({"input": [{"type": "function_call_output", "call_id": "c", "output": "x"}]}, 422, "input"),
        ({"input": [{"type": "message", "role": "user", "content": [{"type": "input_text"}]}]}, 422, "input"),
        ({"input": [{"type": "compaction", "encrypted_content": "é"}]}, 422, "encrypted_content"),
        ({"input": ""}, 422, ""),
        ({"input": "ab " * (RESPONSE_INPUT_BYTES // 3 + 1)}, 422, ""),
        ({"conversation": "conv_no"}, 404, "conversation"),
        ({"conversation": {"id": "conv_no"}}, 404, "conversation"),
        ({"conversation": "conv no"}, 404, "conversation"),
        ({"previous_response_id": "resp_no"}, 404, "response"),
        ({"previous_response_id": "other"}, 404, "response"),
    ],
)
async def test_an_impossible_response_is_rejected(change: dict[str, Any], status: int, field: str) -> None:
    async with served_client() as ada:
        headers = {"Authorization": f"Bearer {ada.user.key}"}
        body = {"model": "scripted", "input": "Hello"} | change
        answer = await ada.server.client.post("/v1/responses", headers=headers, json=body)
    assert (answer.status_code, field in answer.text, ada.server.model.asked) == (status, True, []), answer.text


async def test_an_impossible_page_or_stream_is_rejected() -> None:
    async with served_client() as ada:
        headers = {"Authorization": f"Bearer {ada.user.key}"}
        made = await ada.openai.responses.create(model="scripted", input="Hello")
        talk = await ada.openai.conversations.create()
        items = f"/v1/conversations/{talk.id}/items"
        wrong = {
            f"/v1/responses/{made.id}?stream=perhaps": 422,
            f"/v1/responses/{made.id}?stream=true&starting_after=-1": 422,
            f"/v1/responses/{made.id}/input_items?order=up": 422,
            f"/v1/responses/{made.id}/input_items?limit=0": 422,
            f"/v1/responses/{made.id}/input_items?after=msg_no": 404,
            "/v1/conversations?after=conv_no": 404,
            "/v1/conversations?limit=many": 422,
            f"{items}?after=nothing": 404,
            f"{items}?after=msg_0_i0": 404,
            f"{items}/nothing": 404,
            f"{items}/msg_{made.id.removeprefix('resp_')}_i0": 404,
        }
        found = {path: (await ada.server.client.get(path, headers=headers)).status_code for path in wrong}
    assert found == wrong


async def test_only_background_responses_can_be_cancelled_and_an_empty_history_is_not_compacted() -> None:
    async with served_client() as ada:
        headers = {"Authorization": f"Bearer {ada.user.key}"}
        made = await ada.openai.responses.create(model="scripted", input="Hello")
        cancelled = await ada.server.client.post(f"/v1/responses/{made.id}/cancel", headers=headers)
        empty = await ada.server.client.post("/v1/responses/compact", headers=headers, json={"model": "scripted"})
        key = headers | {"Idempotency-Key": "k"}
        asked: dict[str, Any] = {"model": "scripted", "input": "Hello"}
        await ada.server.client.post("/v1/responses", headers=key, json=asked)
        other = await ada.server.client.post("/v1/responses", headers=key, json=asked | {"temperature": 0})
    assert [answer.status_code for answer in (cancelled, empty, other)] == [422, 422, 422]


async def test_added_items_form_no_response_and_pages_end_at_removed_items() -> None:
    async with served_client() as ada:
        given: Any = [{"type": "message", "role": "user", "content": f"Item {at}"} for at in range(3)]
        talk = await ada.openai.conversations.create(items=given)
        names = [each.id or "" async for each in await ada.openai.conversations.items.list(talk.id, order="asc")]
        headers = {"Authorization": f"Bearer {ada.user.key}"}
        added = f"/v1/responses/resp_{names[0].split('_')[1]}"
        assert (await ada.server.client.get(added, headers=headers)).status_code == 404
        await ada.openai.conversations.items.delete(names[1], conversation_id=talk.id)
        items = f"/v1/conversations/{talk.id}/items?order=asc"
        behind = await ada.server.client.get(f"{items}&after={names[1]}", headers=headers)
        rest = (await ada.server.client.get(f"{items}&after={names[0]}", headers=headers)).json()
        listed = (await ada.server.client.get(f"/v1/conversations?after={talk.id}", headers=headers)).json()
    assert (behind.status_code, [each["id"] for each in rest["data"]], listed["data"]) == (404, [names[2]], [])
