"""Responses stored by the proxy, memory ownership, and routes outside the dialects."""

import json
from typing import Any

import httpx
import pytest
from tests.models.fake_server import LINES, Sent, serving
from tests.models.streams import RECORDED, TEXTS, lines, responses
from tests.proxy.proxy_setup import KEY, PATHS, Proxied, asked, proxying, recorded
from tests.transports.listener import listening

import elytron
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_core.errors import InvalidInput
from elytron_core.ids import SYSTEM_SPACE
from elytron_outbound.addresses import networks_of
from elytron_proxy import ModelUpstream, ProxyApp, ProxySettings, upstreams_of

pytestmark = pytest.mark.anyio
TEXT = "".join(TEXTS)
RESPONSES = PATHS["responses"]


def response(name: str, **how: Any) -> Sent:
    """Return a recorded response with its own id."""
    return Sent((responses(**how).replace(b'"id": "r1"', f'"id": "{name}"'.encode()),))


async def ask(proxied: Proxied, said: Any, **more: Any) -> httpx.Response:
    return await proxied.post(RESPONSES, {"model": "m", "input": said, "stream": True, **more})


async def test_a_stored_response_is_continued_with_its_full_history() -> None:
    async with proxying(response("r1"), response("r2"), response("r3")) as proxied:
        await ask(proxied, "One")
        await ask(proxied, "Two", previous_response_id="r1")
        await ask(proxied, "Three", previous_response_id="r2")
        sent = proxied.upstream.asked[2].body
        assert "previous_response_id" not in sent
        assert sent["store"] is False
        assert sent["include"] == ["reasoning.encrypted_content"]
        kinds = [(item["type"], item.get("role")) for item in sent["input"]]
        reply = [("reasoning", None), ("message", "assistant")]
        person = ("message", "user")
        assert kinds == [person, *reply, person, *reply, person]
        assert len(set((await proxied.questions()).values())) == 1
        assert await proxied.kept() == ["One", TEXT, "Two", TEXT, "Three", TEXT]


async def test_tool_outputs_continue_a_stored_response() -> None:
    async with proxying(response("r1", with_tool=True), response("r2")) as proxied:
        await ask(proxied, "Weather?")
        output = {"type": "function_call_output", "call_id": "t1", "output": "rain"}
        await ask(proxied, [output], previous_response_id="r1")
        assert proxied.upstream.asked[1].body["input"][-1] == output
        assert await proxied.kept() == ["Weather?", TEXT]


async def test_a_conversation_continues_by_name() -> None:
    async with proxying(response("r1"), response("r2")) as proxied:
        await ask(proxied, "One", conversation="conv_1")
        await ask(proxied, "Two", conversation={"id": "conv_1"})
        assert len(proxied.upstream.asked[1].body["input"]) == 4
        assert "conversation" not in proxied.upstream.asked[1].body
        assert await proxied.questions() == {"One": "conv_1", "Two": "conv_1"}


async def test_unstored_responses_cannot_be_continued() -> None:
    async with proxying(response("r1")) as proxied:
        await ask(proxied, "One", store=False)
        answer = await ask(proxied, "Two", previous_response_id="r1")
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "previous_response_not_found")


async def test_nobody_can_continue_anothers_response() -> None:
    async with proxying(response("r1"), has_keys=True) as proxied:
        ada, bob = await proxied.key("ada"), await proxied.key("bob")
        body = {"model": "m", "input": "One", "stream": True}
        await proxied.post(RESPONSES, body, Authorization=f"Bearer {ada}")
        body["previous_response_id"] = "r1"
        refused = await proxied.post(RESPONSES, body, Authorization=f"Bearer {bob}")
        assert refused.json()["error"]["code"] == "previous_response_not_found"
        assert (await proxied.post(RESPONSES, body, Authorization=f"Bearer {ada}")).status_code == 200


async def test_a_stateless_proxy_continues_nothing() -> None:
    async with proxying(response("r1"), stateful=False) as proxied:
        assert (await ask(proxied, "One")).status_code == 200
        assert "store" not in proxied.upstream.asked[0].body
        for more in ({"previous_response_id": "r1"}, {"conversation": "c"}):
            answer = await ask(proxied, "Two", **more)
            assert answer.json()["error"]["code"] == "stateful_responses_rejected"


async def test_response_and_conversation_ids_together_are_rejected_and_background_passes() -> None:
    async with proxying(response("r1")) as proxied:
        answer = await ask(proxied, "Two", previous_response_id="r1", conversation="c")
        assert answer.status_code == 400
        assert (await ask(proxied, "Two", background=True)).headers["x-elytron-memory"] == "off"


async def test_ollama_completions_continue_by_context() -> None:
    def completion(context: list[int]) -> Sent:
        done = {"response": "", "done": True, "done_reason": "stop", "context": context}
        return Sent((lines({"response": "Yes.", "done": False}, done),), media_type=LINES)

    async with proxying(completion([1, 2]), completion([1, 2, 3]), completion([9])) as proxied:
        await proxied.post("/api/generate", {"model": "m", "prompt": "One"})
        await proxied.post("/api/generate", {"model": "m", "prompt": "Two", "context": [1, 2]})
        await proxied.post("/api/generate", {"model": "m", "prompt": "Raw", "raw": True})
        await proxied.post("/api/generate", {"model": "m", "prompt": "One more boat"})
        found = await proxied.questions()
        assert found["One"] == found["Two"] != found["One more boat"]
        assert "Raw" not in found


@pytest.mark.parametrize("where", ["prompt", "system"])
async def test_ollama_completions_get_a_block(where: str) -> None:
    from elytron_proxy import BlockPlacement

    placement = BlockPlacement.SYSTEM if where == "system" else BlockPlacement.TAIL
    done = Sent((lines({"response": "Petrel.", "done": True}),), media_type=LINES)
    async with proxying(done, placement=placement) as proxied:
        await proxied.memory.add("My boat is called Petrel.", user_id="default")
        await proxied.post("/api/generate", {"model": "m", "prompt": "What is my boat called?", "system": "Brief."})
        assert "Petrel" in proxied.upstream.asked[0].body[where]
        assert proxied.upstream.asked[0].body["system"].startswith("Brief.")


def whole_of(dialect: str) -> dict[str, Any]:
    """Return an unstreamed answer."""
    match dialect:
        case "chat":
            choice = {"index": 0, "message": {"role": "assistant", "content": TEXT}, "finish_reason": "stop"}
            return {"id": "c1", "choices": [choice]}
        case "responses":
            part = {"type": "output_text", "text": TEXT}
            item = {"type": "message", "role": "assistant", "content": [part]}
            return {"id": "r1", "status": "completed", "output": [item]}
        case "messages":
            thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2Vh"}
            return {"type": "message", "content": [thought, {"type": "text", "text": TEXT}], "stop_reason": "end_turn"}
        case _:
            return {"message": {"role": "assistant", "content": TEXT}, "done": True, "done_reason": "stop"}


@pytest.mark.parametrize("dialect", PATHS)
async def test_an_unstreamed_answer_is_stored(dialect: str) -> None:
    data = json.dumps(whole_of(dialect)).encode()
    async with proxying(Sent((data[:20], data[20:]), media_type="application/json")) as proxied:
        answer = await proxied.post(PATHS[dialect], asked(dialect, "Hello") | {"stream": False})
        assert answer.content == data
        assert await proxied.kept() == ["Hello", TEXT]


@pytest.mark.parametrize("dialect", PATHS)
async def test_a_truncated_unstreamed_answer_leaves_nothing(dialect: str) -> None:
    data = json.dumps(whole_of(dialect)).encode()
    async with proxying(Sent((data[:-9],), media_type="application/json", dies=True)) as proxied:
        with pytest.raises(httpx.RemoteProtocolError):
            await proxied.post(PATHS[dialect], asked(dialect, "Hello") | {"stream": False})
        assert await proxied.kept() == []


async def test_user_headers_are_trusted_only_from_trusted_peers() -> None:
    body = asked("chat", "Hello")
    async with proxying(recorded("chat")) as proxied:
        for name in ("X_Elytron_User", "X_OpenWebUI_User_Id"):
            answer = await proxied.post(PATHS["chat"], body, **{name: "ada"})
            assert (answer.status_code, proxied.upstream.asked) == (403, [])
    async with proxying(recorded("chat"), trusted_peers=networks_of(["127.0.0.0/8"], field="trusted_peer")) as proxied:
        await proxied.post(PATHS["chat"], body, X_OpenWebUI_User_Id="ada", X_OpenWebUI_Chat_Id="c9")
        assert (await proxied.kept("ada"), await proxied.kept()) == (["Hello", TEXT], [])
        reserved = await proxied.post(PATHS["chat"], body, X_Elytron_User=SYSTEM_SPACE)
        assert reserved.status_code in {400, 403}


async def test_a_key_is_bound_to_its_space_even_for_trusted_peers() -> None:
    async with proxying(recorded("chat"), has_keys=True, trusted_peers=("127.0.0.1",)) as proxied:
        shown = f"Bearer {await proxied.key('ada')}"
        answer = await proxied.post(PATHS["chat"], asked("chat", "Hello"), Authorization=shown, X_Elytron_User="bob")
        assert answer.status_code == 403


async def test_models_are_routed_by_prefix_and_listed_together() -> None:
    def listed(*names: str) -> Sent:
        data = json.dumps({"object": "list", "data": [{"id": name} for name in names]})
        return Sent((data.encode(),), media_type="application/json")

    async with serving(listed("m", "both")) as usual, serving(listed("claude-9", "both")) as other:
        found = (ModelUpstream(usual.url, key="k-usual"), ModelUpstream(other.url, "claude", "k-other"))
        async with elytron.open("memory:", space=None) as memory:
            admission = CallerAdmission(OperationDispatcher(memory), authenticator=DevelopmentCallers())
            app = ProxyApp(admission, ProxySettings(upstreams=found))
            async with listening(app) as url, httpx.AsyncClient() as client:
                models = (await client.get(f"{url}/v1/models")).json()
                assert [model["id"] for model in models["data"]] == ["m", "both", "claude-9"]
                await client.post(f"{url}/v1/embeddings", json={"model": "m", "input": "x"})
                await client.post(f"{url}/v1/messages/count_tokens", json={"model": "claude-9", "messages": []})
                await client.get(f"{url}/v1/models/claude-9")
        assert [asked.path for asked in usual.asked] == ["/v1/models", "/v1/embeddings"]
        assert [asked.path for asked in other.asked][1:] == ["/v1/messages/count_tokens", "/v1/models/claude-9"]
        assert "k-other" not in str(usual.asked)
        assert other.asked[1].headers["x-api-key"] == "k-other"


async def test_other_routes_pass_with_their_query_and_without_memory() -> None:
    data = b'{"data": [{"embedding": [0.5]}]}'
    async with proxying(Sent((data,), media_type="application/json")) as proxied:
        answer = await proxied.client.post(f"{proxied.url}/v1/embeddings?a=%20b", content=b'{ "input":"x"}')
        assert (answer.content, answer.headers["x-elytron-memory"]) == (data, "off")
        assert (proxied.upstream.asked[0].path, proxied.upstream.asked[0].raw) == (
            "/v1/embeddings?a=%20b",
            b'{ "input":"x"}',
        )
        for path in ("/v1/%2e%2e/admin", "/v1/..%5cadmin"):
            refused = await proxied.client.get(f"{proxied.url}{path}")
            assert refused.status_code == 400
        assert len(proxied.upstream.asked) == 1


async def test_capabilities_name_no_key_and_no_server() -> None:
    async with proxying(recorded("chat")) as proxied:
        told = (await proxied.client.get(f"{proxied.url}/v1/bm/provider-capabilities")).text
        assert KEY not in told
        assert proxied.upstream.url not in told
        assert json.loads(told)["dialects"] == ["chat", "messages", "ollama", "responses"]


def test_each_key_belongs_to_one_server() -> None:
    environment = {"ELYTRON_LLM_UPSTREAM_KEY": "k1", "ELYTRON_LLM_UPSTREAM_KEY_CLAUDE_3": "k2"}
    found = upstreams_of(["http://h:1/v1/", "claude-3=https://x/y", "gpt=https://z"], environment=environment)
    assert [(one.prefix, one.url, one.key) for one in found] == [
        ("", "http://h:1", "k1"),
        ("claude-3", "https://x/y", "k2"),
        ("gpt", "https://z", ""),
    ]
    assert "k1" not in repr(found)
    with pytest.raises(InvalidInput, match="headers may not"):
        upstreams_of(["http://h"], environment={"ELYTRON_LLM_UPSTREAM_KEY": "a b"})
    with pytest.raises(InvalidInput, match="once"):
        ProxySettings(upstreams=(ModelUpstream("http://a"), ModelUpstream("http://b")))
    with pytest.raises(InvalidInput, match="network"):
        networks_of(["somewhere"], field="trusted_peer")


async def test_without_a_server_each_dialect_reports_an_error() -> None:
    async with proxying(None) as proxied:
        for dialect, path in PATHS.items():
            answer = await proxied.post(path, asked(dialect, "Hello"))
            assert (answer.status_code, "error" in answer.json()) == (502, True)
        # Each was tried twice, and nothing of it was stored.
        assert len(proxied.upstream.asked) == 8
        assert await proxied.kept() == []


async def test_recordings_cover_every_dialect() -> None:
    assert {found.dialect for found in RECORDED.values()} == PATHS.keys()
