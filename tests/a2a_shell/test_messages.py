"""Another agent's client talks to the memory: the card, the seven messages, their limits and refusals."""

import base64
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver, Client, ClientConfig, ClientFactory
from a2a.types import GetTaskRequest, ListTasksRequest, Message, Part, Role, SendMessageRequest
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError
from google.protobuf.json_format import MessageToDict, ParseDict
from tests.transports.serving import Served, served

import elytron
from elytron_a2a_shell import MessageName, a2a_app
from elytron_a2a_shell.peers import A2A_UPLOADS_EACH
from elytron_adapter.access_keys import DevelopmentCallers
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_cli.server.optional_surfaces import SurfaceOptions
from elytron_core import limits
from elytron_core.errors import PayloadTooLarge
from elytron_core.planes.servers.system_documents import PrincipalKind

pytestmark = pytest.mark.anyio


JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with served(SurfaceOptions()) as running:
        yield running


class Peer:
    """An agent with a key, over JSON-RPC and over the plain route."""

    def __init__(self, client: Client, http: httpx.AsyncClient) -> None:
        self.client = client
        self.http = http
        self._sent = 0

    async def parts(self, *parts: dict[str, Any], message_id: str | None = None) -> Any:
        """Send parts in one message and return the data of the answer."""
        self._sent += 1
        said = Message(
            message_id=message_id or f"m{self._sent}",
            role=Role.ROLE_USER,
            parts=[ParseDict(part, Part()) for part in parts],
        )
        (event,) = [event async for event in self.client.send_message(SendMessageRequest(message=said))]
        (part,) = event.message.parts
        return MessageToDict(part)["data"]

    async def send(self, name: str, payload: dict[str, Any] | None = None, **more: Any) -> Any:
        """Send one of the seven messages and return the data in the answer."""
        message_id = more.pop("message_id", None)
        answer = await self.parts({"data": {"name": name, "payload": payload or {}, **more}}, message_id=message_id)
        assert answer["permissions"] == ["MemoryReport"]
        return answer["payload"]

    async def post(self, name: str, payload: dict[str, Any], *, hops: int = 0) -> httpx.Response:
        """Send one of the seven messages over the plain route."""
        return await self.http.post("/a2a/message", json={"name": name, "payload": payload, "hops": hops})


@asynccontextmanager
async def peer(
    server: Served, kind: PrincipalKind = PrincipalKind.USER, space: str = "ada", *, version: str = "1.0"
) -> AsyncGenerator[Peer]:
    """Connect an agent that knows one version of the protocol."""
    headers = {"Authorization": f"Bearer {await server.key(kind, space)}"}
    async with httpx.AsyncClient(base_url=server.url, headers=headers, trust_env=False, timeout=60) as http:
        card = await A2ACardResolver(http, server.url).get_agent_card()
        known = [spoken for spoken in card.supported_interfaces if spoken.protocol_version == version]
        del card.supported_interfaces[:]
        card.supported_interfaces.extend(known)
        client = ClientFactory(ClientConfig(streaming=False, httpx_client=http)).create(card)
        yield Peer(client, http)


async def test_the_card_tells_a_stranger_how_to_connect_and_reveals_no_memory(server: Served) -> None:
    async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as stranger:
        answer = await stranger.get("/.well-known/agent-card.json")
        card = answer.json()
        again = await stranger.get("/.well-known/agent-card.json", headers={"If-None-Match": answer.headers["ETag"]})
        refused = await stranger.post("/a2a", json={})
    assert [skill["id"] for skill in card["skills"]] == list(MessageName)
    assert card["supportedInterfaces"][0]["url"] == f"{server.url}/a2a"
    assert card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"] == "bearer"
    assert (again.status_code, refused.status_code) == (304, 401)


async def test_behind_a_proxy_the_card_names_the_public_address() -> None:
    async with served(SurfaceOptions(public_url="https://memory.example/")) as server, httpx.AsyncClient() as stranger:
        card = (await stranger.get(f"{server.url}/.well-known/agent-card.json")).json()
    assert card["supportedInterfaces"][0]["url"] == "https://memory.example/a2a"


async def test_a_peers_proposals_are_judged_recalled_and_projected(server: Served) -> None:
    async with peer(server) as agent:
        proposed = await agent.send(
            "memory_write_candidate", {"topic": "boiler code", "content": "The boiler code is 4417."}
        )
        assert (proposed["kind"], proposed["report"]["decisions"][0]["outcome"]) == ("accepted", "stored")
        found = await agent.send("memory_recall_request", {"query": "boiler code", "limit": 2})
        assert [(hit["text"], hit["trust"]) for hit in found["report"]["hits"]] == [
            ("The boiler code is 4417.", "outside")
        ]
        block = await agent.send("memory_projection_request", {"query": "boiler code"})
        assert "(from outside)] boiler code: The boiler code is 4417." in block["report"]["system_memory_block"]
        asked = await agent.parts({"text": "What is the boiler code?"})
        assert asked["payload"]["report"]["hits"][0]["text"] == "The boiler code is 4417."


async def test_a_peer_sees_nothing_private(server: Served) -> None:
    async with peer(server) as agent:
        for name, payload in (
            ("memory_recall_request", {"query": "boiler code", "limit": 2, "include_private": True}),
            ("memory_projection_request", {"query": "boiler code", "private_context": "allowed"}),
        ):
            answer = await agent.send(name, payload)
            assert (answer["kind"], answer["error_key"]) == ("rejected", "permission_refused")


async def test_a_peer_proposes_a_procedure(server: Served) -> None:
    moor = {"name": "moor", "topic": "mooring", "title": "Moor", "summary": "How to moor", "content": "1. Stop."}
    async with peer(server) as agent:
        proposed = await agent.send("memory_write_candidate", {"procedure": moor})
        assert proposed["report"]["decisions"][0]["outcome"] == "stored"
        refused = await agent.send("memory_write_candidate", {"topic": "x", "content": "y", "authority": "operator"})
        assert (refused["kind"], refused["error_key"]) == ("rejected", "invalid_input")


async def test_a_repeated_message_acts_once(server: Served) -> None:
    async with peer(server) as agent:
        report = {"text": "I moved the boat to pier nine.", "peer": "harbour"}
        first = await agent.send("memory_report", report, message_id="same")
        again = await agent.send("memory_report", report, message_id="same")
        assert (first["kind"], again["kind"]) == ("accepted", "duplicated")
    (kept,) = (await server.memory.list()).items
    assert (kept.text, kept.speaker) == ("I moved the boat to pier nine.", "harbour")


async def test_capabilities_and_lifecycles_are_reported_and_change_nothing(server: Served) -> None:
    async with peer(server) as agent:
        answer = await agent.parts({"data": {"name": "peer_capability", "payload": {"memory_report_visible": False}}})
        assert (answer["kind"], answer["hops"]) == ("peer_capability", 1)
        report = answer["payload"]["report"]
        assert report["memory_report_visible"] is False
        assert report["messages"] == list(MessageName)
        assert report["catalog"]["entry"]["a2a_bridge"]["configured"] is True
        heard = await agent.send("runtime_lifecycle_event", {"event": "closing", "peer": "harbour"})
        assert heard["report"] == {"changed": False}
        odd = await agent.send("runtime_lifecycle_event", {"event": "s3cret"})
        assert odd["error_key"] == "invalid_input"
        assert "s3cret" not in str(odd)
    assert (await server.memory.inspect()).exists is False


async def test_a_message_that_was_relayed_too_often_is_rejected(server: Served) -> None:
    async with peer(server) as agent:
        bound = server.memory.context.profile.budget.hops
        for hops, kind in ((bound, "accepted"), (bound + 1, "rejected")):
            answer = await agent.parts(
                {"data": {"name": "memory_recall_request", "payload": {"query": "tea"}, "hops": hops}}
            )
            assert (answer["payload"]["kind"], answer["hops"]) == (kind, hops + 1)
        assert answer["payload"]["error_key"] == "limit_exceeded"
        refused = await agent.post("memory_recall_request", {"query": "tea"}, hops=bound + 1)
        assert (refused.status_code, refused.json()["code"]) == (422, "limit_exceeded")


async def test_the_plain_route_answers_one_message(server: Served) -> None:
    async with peer(server) as agent:
        answer = await agent.post("memory_recall_request", {"query": "tea", "limit": 2})
        assert answer.status_code == 200
        assert answer.json()["kind"] == "memory_report"
        assert answer.json()["payload"]["report"]["reason"] == "empty_space"
        for key in ("", '""', "k" * (limits.IDEMPOTENCY_KEY_CHARS + 1)):
            body = {"name": "peer_capability"}
            keyed = await agent.http.post("/a2a/message", json=body, headers={"Idempotency-Key": key})
            assert (keyed.status_code, keyed.json()["code"]) == (422, "invalid_input")
        unknown = await agent.post("s3cret", {})
        assert (unknown.status_code, "s3cret" in unknown.text) == (422, False)
        large = await agent.http.post("/a2a/message", content=b" " * (limits.HTTP_BODY_BYTES + 1), headers=JSON)
        assert large.status_code == 413


async def test_a_peer_sees_only_the_space_of_its_key(server: Served) -> None:
    async with peer(server) as ada, peer(server, space="bob") as bob:
        await ada.send("memory_report", {"text": "The boiler code is 4417."})
        assert (await bob.send("memory_recall_request", {"query": "boiler"}))["report"]["hits"] == []
        foreign = await bob.send("memory_recall_request", {"query": "boiler", "scope": {"space": "ada"}})
        assert foreign["error_key"] == "permission_refused"


async def test_unknown_messages_are_invalid_and_not_echoed(server: Served) -> None:
    async with peer(server) as agent:
        for parts in (
            [{"data": {"name": "s3cret"}}],
            [{"data": {"s3cret": 1}}],
            [{"text": "a"}, {"text": "b"}],
            [{"url": "https://s3cret.example"}],
        ):
            with pytest.raises(InvalidParamsError) as refused:
                await agent.parts(*parts)
            assert "s3cret" not in str(refused.value)
        for params, code in (({"message": "s3cret"}, -32602), ("s3cret", -32600)):
            body = {"jsonrpc": "2.0", "id": 7, "method": "SendMessage", "params": params}
            answer = await agent.http.post("/a2a", json=body)
            assert answer.json()["error"]["code"] == code
            assert "s3cret" not in answer.text
        assert (await agent.http.post("/a2a", content=b'{"a": 1, "a": 2}', headers=JSON)).status_code == 400
        assert (await agent.http.post("/a2a", json=[1])).json()["error"]["code"] == -32600
        unknown = await agent.http.post("/a2a", json={"jsonrpc": "2.0", "id": 1, "method": "Dance"})
        assert unknown.json()["error"]["code"] == -32601


async def test_malformed_requests_are_answered_and_never_logged(
    server: Served, caplog: pytest.LogCaptureFixture
) -> None:
    sound = {"jsonrpc": "2.0", "id": 1, "method": "GetTask"}
    odd: tuple[dict[str, Any], ...] = ({"s3cret": 1}, {"jsonrpc": "s3cret"}, {"method": ["s3cret"]}, {"method": ""})
    async with peer(server) as agent:
        for found, request_id in [
            *(({**sound, **more}, 1) for more in odd),
            *(({**sound, "id": given}, None) for given in ("s3cret\n", "s3cret" * 100, {"s3cret": 1}, True, 1.5)),
        ]:
            error = (await agent.http.post("/a2a", json=found)).json()
            assert (error["id"], error["error"]["code"]) == (request_id, -32600)
            assert "s3cret" not in str(error)
    assert "s3cret" not in caplog.text


async def test_tasks_and_pushes_are_not_supported(server: Served) -> None:
    async with peer(server) as agent:
        assert list((await agent.client.list_tasks(ListTasksRequest())).tasks) == []
        with pytest.raises(TaskNotFoundError):
            await agent.client.get_task(GetTaskRequest(id="t"))
        for method, params in (
            ("CancelTask", {"id": "t"}),
            ("SubscribeToTask", {"id": "t"}),
            ("CreateTaskPushNotificationConfig", {"taskId": "t", "url": "https://x.example"}),
            ("GetTaskPushNotificationConfig", {"taskId": "t", "id": "c"}),
            ("ListTaskPushNotificationConfigs", {"taskId": "t"}),
            ("DeleteTaskPushNotificationConfig", {"taskId": "t", "id": "c"}),
            ("GetExtendedAgentCard", {}),
        ):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer = await agent.http.post("/a2a", json=body, headers={"A2A-Version": "1.0"})
            assert "error" in answer.json()


async def test_a_stream_consists_of_a_single_answer(server: Served) -> None:
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "tea"}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": message}}
    async with peer(server) as agent:
        answer = await agent.http.post("/a2a", json=body, headers={"A2A-Version": "1.0"})
    assert answer.text.count("data:") == 1
    assert "empty_space" in answer.text


class TestOlderClients:
    """Agents that speak version 0.3 of the protocol find and use the same memory."""

    async def test_the_card_lists_them_at_their_own_paths(self, server: Served) -> None:
        async with httpx.AsyncClient(base_url=server.url, trust_env=False, timeout=60) as stranger:
            card = (await stranger.get("/.well-known/agent-card.json")).json()
        assert (card["protocolVersion"], card["preferredTransport"]) == ("0.3", "JSONRPC")
        assert card["url"] == f"{server.url}/a2a"

    async def test_their_messages_get_the_same_answers(self, server: Served) -> None:
        async with peer(server, version="0.3") as agent:
            fact = {"topic": "boiler code", "content": "The boiler code is 4417."}
            proposed = await agent.send("memory_write_candidate", fact, message_id="same")
            assert (proposed["kind"], proposed["report"]["decisions"][0]["outcome"]) == ("accepted", "stored")
            again = await agent.send("memory_write_candidate", fact, message_id="same")
            assert again["kind"] == "duplicated"
            asked = await agent.parts({"text": "What is the boiler code?"})
            assert asked["payload"]["report"]["hits"][0]["text"] == "The boiler code is 4417."
            with pytest.raises(TaskNotFoundError):
                await agent.client.get_task(GetTaskRequest(id="t"))

    async def test_unreadable_messages_are_invalid_and_not_echoed(self, server: Served) -> None:
        odd = {"kind": "data", "data": {}, "metadata": {"data_part_compat": True, "s3cret": 1}}
        message = {"messageId": "m", "role": "user", "parts": [odd]}
        async with peer(server) as agent:
            for method, params in (("message/send", {"message": message}), ("tasks/get", {"s3cret": "s3cret"})):
                body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
                answer = await agent.http.post("/a2a", json=body)
                assert answer.json()["error"]["code"] == -32602
                assert "s3cret" not in answer.text

    async def test_a_stream_consists_of_a_single_answer(self, server: Served) -> None:
        message = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "tea"}]}
        body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": message}}
        async with peer(server) as agent:
            answer = await agent.http.post("/a2a", json=body, headers={"A2A-Version": "0.3"})
        assert answer.text.count("data:") == 1
        assert "empty_space" in answer.text


async def test_bodies_are_limited_by_the_profile() -> None:
    async with elytron.open("memory:", space="ada", profile="linux-device-standalone-memory") as memory:
        admission = CallerAdmission(OperationDispatcher(memory), authenticator=DevelopmentCallers())
        bound = memory.context.profile.budget.http_body_bytes
        served = a2a_app(admission)

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": b" " * (bound + 1), "more_body": False}

        async def send(_message: Any) -> None:
            raise AssertionError("nothing is answered")

        headers = [(b"content-type", b"application/json")]
        for app in (served.rpc, served.message):
            with pytest.raises(PayloadTooLarge) as refused:
                await app({"type": "http", "headers": headers, "state": {}}, receive, send)
            assert refused.value.details()["limit"] == bound


class TestMigration:
    async def archive(self, tmp_path: Path) -> bytes:
        """Return the archive of another memory, with one text in it."""
        async with elytron.open("memory:", space="old") as memory:
            await memory.add("The ferry leaves at six.")
            await memory.export(tmp_path / "old.zip", include_private=True)
        return (tmp_path / "old.zip").read_bytes()

    def chunks(self, data: bytes, count: int, **more: Any) -> list[dict[str, Any]]:
        size = -(-len(data) // count)
        whole = hashlib.sha256(data).hexdigest()
        return [
            {
                "upload": "u1",
                "index": index,
                "count": count,
                "sha256": whole,
                "data": base64.b64encode(data[index * size : (index + 1) * size]).decode(),
                **more,
            }
            for index in range(count)
        ]

    async def test_the_last_piece_of_an_archive_imports_it(self, server: Served, tmp_path: Path) -> None:
        first, second, third = self.chunks(await self.archive(tmp_path), 3)
        async with peer(server) as agent:
            for chunk in (first, first, second):
                answer = await agent.send("memory_migration_chunk", chunk)
                assert answer["report"]["changed"] is False
            skipped = await agent.send("memory_migration_chunk", first | {"index": 5})
            assert skipped["error_key"] == "invalid_input"
            other = await agent.send("memory_migration_chunk", third | {"count": 9})
            assert other["error_key"] == "invalid_input"
            done = await agent.send("memory_migration_chunk", third)
            assert done["report"]["changed"] is True
            found = await agent.send("memory_recall_request", {"query": "ferry"})
            assert [hit["text"] for hit in found["report"]["hits"]] == ["The ferry leaves at six."]

    async def test_broken_foreign_or_excessive_pieces_change_nothing(self, server: Served, tmp_path: Path) -> None:
        data = await self.archive(tmp_path)
        (whole,) = self.chunks(data, 1)
        async with peer(server) as agent, peer(server, PrincipalKind.DEVICE) as device:
            for wrong in (
                whole | {"sha256": "0" * 64},
                whole | {"data": "not base64!"},
                whole | {"index": 1},
                self.chunks(b"no archive", 1)[0],
            ):
                assert (await agent.send("memory_migration_chunk", wrong))["kind"] == "rejected"
            refused = await device.send("memory_migration_chunk", whole)
            assert refused["error_key"] == "permission_refused"
            half, _ = self.chunks(data, 2)
            for number in range(A2A_UPLOADS_EACH):
                await agent.send("memory_migration_chunk", half | {"upload": f"x{number}"})
            full = await agent.send("memory_migration_chunk", half | {"upload": "one-more"})
            assert full["error_key"] == "limit_exceeded"
        assert (await server.memory.inspect()).exists is False
