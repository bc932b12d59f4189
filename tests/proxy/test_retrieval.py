"""Stored responses by id: shown, listed by their input, and deleted by their owner; everything else passes."""

from typing import Any

import httpx
import openai
import pytest
from tests.models.fake_server import Sent, refusal
from tests.models.streams import TEXTS
from tests.proxy.proxy_setup import PATHS, Proxied, proxying
from tests.proxy.test_state import response

from elytron import Scope, runtime_records
from elytron_proxy import BlockPlacement, MemoryUse

pytestmark = pytest.mark.anyio
TEXT = "".join(TEXTS)
RESPONSES = PATHS["responses"]
UNKNOWN = refusal(404, {"message": "no such response", "code": "not_found"})


async def ask(proxied: Proxied, said: Any, **more: Any) -> httpx.Response:
    return await proxied.post(RESPONSES, {"model": "m", "input": said, "stream": True, **more})


async def call(proxied: Proxied, method: str, path: str, **headers: str) -> httpx.Response:
    return await proxied.client.request(method, f"{proxied.url}{RESPONSES}/{path}", headers=headers)


async def records_of(proxied: Proxied) -> str:
    records = runtime_records.records_of(proxied.memory, scope=Scope(space="default"))
    return str([each async for each in records.below()])


async def test_a_client_retrieves_lists_and_deletes_its_responses() -> None:
    async with (
        proxying(response("r1"), response("r2"), UNKNOWN) as proxied,
        openai.AsyncOpenAI(base_url=f"{proxied.url}/v1", api_key="none", max_retries=0) as client,
    ):
        for name, said in ((openai.omit, "One"), ("r1", "Two")):
            stream = client.responses.stream(model="m", input=said, instructions="Be brief.", previous_response_id=name)
            async with stream as events:
                await events.get_final_response()
        found = await client.responses.retrieve("r2")
        told = (found.id, found.status, found.output_text, found.previous_response_id, found.instructions)
        assert told == ("r2", "completed", TEXT, "r1", "Be brief.")
        items = [item.to_dict() async for item in client.responses.input_items.list("r2")]
        assert [item["content"] for item in items] == [[{"type": "input_text", "text": "Two"}]]
        with pytest.raises(openai.BadRequestError, match="background"):
            await client.responses.cancel("r2")
        await client.responses.delete("r2")
        with pytest.raises(openai.NotFoundError, match="no such response"):
            await client.responses.retrieve("r2")
        assert [asked.path for asked in proxied.upstream.asked] == [RESPONSES, RESPONSES, f"{RESPONSES}/r2"]


async def test_a_response_is_visible_only_to_its_owner() -> None:
    async with proxying(response("r1"), UNKNOWN, has_keys=True) as proxied:
        ada, bob = [f"Bearer {await proxied.key(name)}" for name in ("ada", "bob")]
        await proxied.post(RESPONSES, {"model": "m", "input": "One"}, Authorization=ada)
        for method, path in (("GET", "r1"), ("GET", "r1/input_items"), ("DELETE", "r1"), ("POST", "r1/cancel")):
            assert (await call(proxied, method, path, Authorization=bob)).status_code == 404
            assert (await call(proxied, method, path)).status_code == 401
        assert (await call(proxied, "GET", "r1", Authorization=ada)).json()["id"] == "r1"


@pytest.mark.parametrize("settings", [{"stateful": False}, {"memory": MemoryUse.OFF}])
async def test_responses_not_stored_here_are_requested_from_the_model_server(settings: dict[str, Any]) -> None:
    async with proxying(response("r1"), UNKNOWN, **settings) as proxied:
        await ask(proxied, "One")
        answer = await call(proxied, "GET", "r1?include=x")
        assert (answer.status_code, answer.json()) == (
            404,
            {"error": {"message": "no such response", "code": "not_found"}},
        )
        assert proxied.upstream.asked[1].path == f"{RESPONSES}/r1?include=x"


async def test_other_calls_below_responses_do_not_pass() -> None:
    async with proxying(Sent((b"{}",), media_type="application/json")) as proxied:
        for method, path in (("POST", "compact"), ("POST", "r1/input_items"), ("PUT", "r1"), ("GET", "r1/x/y")):
            refused = await call(proxied, method, path)
            assert (refused.status_code, refused.json()["error"]["code"]) == (404, "route_not_passed")
        assert proxied.upstream.asked == []


async def test_the_input_is_returned_in_pages() -> None:
    async with proxying(response("r1")) as proxied:
        turns = [("user", "One"), ("assistant", "Two"), ("user", "Three")]
        call_item = {"type": "function_call_output", "call_id": "t1", "output": "rain"}
        await ask(proxied, [*({"role": role, "content": text} for role, text in turns), call_item])
        first = (await call(proxied, "GET", "r1/input_items?limit=3&order=asc")).json()
        assert [part["content"][0] for part in first["data"]] == [
            {"type": "input_text", "text": "One"},
            {"type": "output_text", "text": "Two"},
            {"type": "input_text", "text": "Three"},
        ]
        assert (first["object"], first["has_more"], first["last_id"]) == ("list", True, first["data"][2]["id"])
        rest = (await call(proxied, "GET", f"r1/input_items?order=asc&after={first['last_id']}")).json()
        assert ([item["output"] for item in rest["data"]], rest["has_more"]) == (["rain"], False)
        latest = (await call(proxied, "GET", "r1/input_items?limit=1")).json()
        assert latest["data"] == rest["data"]
        beyond = (await call(proxied, "GET", f"r1/input_items?after={first['first_id']}")).json()
        assert (beyond["data"], beyond["first_id"]) == ([], None)
        for bad in ("limit=0", "limit=101", "limit=x", "order=up", "after=nothing"):
            answer = await call(proxied, "GET", f"r1/input_items?{bad}")
            assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_input")


async def test_a_conversation_continues_without_a_deleted_response() -> None:
    async with proxying(response("r1"), response("r2"), response("r3"), response("r4")) as proxied:
        for said in ("One", "Two"):
            await ask(proxied, said, conversation="c")
        assert (await call(proxied, "DELETE", "r2")).json() == {"id": "r2", "object": "response", "deleted": True}
        await ask(proxied, "Three", conversation="c")
        said = [item["content"] for item in proxied.upstream.asked[2].body["input"] if item.get("role") == "user"]
        assert said == ["One", "Three"]
        # A conversation with a deleted middle cannot be continued: it would be a different one.
        assert (await call(proxied, "DELETE", "r1")).status_code == 200
        answer = await ask(proxied, "Four", previous_response_id="r3")
        assert answer.json()["error"]["code"] == "previous_response_not_found"
        # Nothing was deleted from memory.
        assert await proxied.kept() == ["One", TEXT, "Two", TEXT, "Three", TEXT]


async def test_a_deleted_response_leaves_no_text_in_the_records() -> None:
    async with proxying(response("r1")) as proxied:
        await ask(proxied, "A word like heliotrope")
        await proxied.app.idle()
        assert "heliotrope" in await records_of(proxied)
        await call(proxied, "DELETE", "r1")
        assert "heliotrope" not in await records_of(proxied)


async def test_memory_added_to_the_instructions_is_not_shown_as_the_clients() -> None:
    async with proxying(response("r1"), placement=BlockPlacement.SYSTEM) as proxied:
        await proxied.memory.add("My boat is called Petrel.", user_id="default")
        await ask(proxied, "What is my boat called?", instructions="Be brief.")
        assert "Petrel" in proxied.upstream.asked[0].body["instructions"]
        assert (await call(proxied, "GET", "r1")).json()["instructions"] == "Be brief."


async def test_streaming_a_finished_response_is_refused() -> None:
    async with proxying(response("r1")) as proxied:
        await ask(proxied, "One")
        assert (await call(proxied, "GET", "r1?stream=true")).status_code == 400


async def test_while_memory_is_down_responses_are_not_reported_as_missing() -> None:
    async with proxying(response("r1")) as proxied:
        await ask(proxied, "One")
        await proxied.app.idle()
        await proxied.memory.close()
        assert (await call(proxied, "GET", "r1")).status_code == 503


@pytest.mark.parametrize("said", ['my password="hunter22abcd" end', "aws AKIAIOSFODNN7EXAMPLE end"])
async def test_a_response_with_a_redacted_credential_can_be_continued(said: str) -> None:
    async with proxying(response("r1"), response("r2")) as proxied:
        await ask(proxied, said)
        assert (await ask(proxied, "And then?", previous_response_id="r1")).status_code == 200
        sent = proxied.upstream.asked[1].body["input"]
        assert "[redacted:" in sent[0]["content"]
        assert sent[-1]["content"] == "And then?"
        stored = await records_of(proxied)
        assert not any(word in stored for word in ("hunter2", "AKIA"))


async def test_a_stored_response_is_erased_with_any_message_of_its_conversation() -> None:
    async with proxying(response("r1"), response("r2"), response("x1"), response("r3")) as proxied:
        await ask(proxied, "A word like heliotrope")
        await ask(proxied, "Two", previous_response_id="r1")
        await ask(proxied, "Something else")
        await proxied.app.idle()
        (hit,) = [hit for hit in (await proxied.memory.list(user_id="default")).items if "heliotrope" in hit.text]
        await proxied.memory.erase(hit.id, user_id="default")
        assert "heliotrope" not in await records_of(proxied)
        answer = await ask(proxied, "Three", previous_response_id="r2")
        assert answer.json()["error"]["code"] == "previous_response_not_found"
        assert (await ask(proxied, "Three", previous_response_id="x1")).status_code == 200


async def test_proxy_records_are_private() -> None:
    async with proxying(response("r1")) as proxied:
        await ask(proxied, "A word like heliotrope")
        await proxied.app.idle()
        assert (await proxied.memory.search_records(user_id="default", include_private=True)).items == ()
