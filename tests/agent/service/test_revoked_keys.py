"""A revoked key ends the streams that it opened; the turn that it started is its user's, and continues."""

import asyncio

import pytest
from tests.agent.service.served import AT, Event, ServedUser, served
from tests.models.fake_server import Asked, Sent
from tests.models.streams import data

from elytron_adapter.access_keys import AccessAddRequest, AccessKeyRequest, AccessKeys
from elytron_core.clock import FrozenClock
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind

pytestmark = pytest.mark.anyio


def waiting(_asked: Asked) -> Sent:
    """Start an answer, and continue it when the model server is told to."""
    begun = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    first = {**begun, "choices": [{"index": 0, "delta": {"content": "The bees"}, "finish_reason": None}]}
    last = {**begun, "choices": [{"index": 0, "delta": {"content": " sleep."}, "finish_reason": "stop"}]}
    return Sent((data(first), data(last, "[DONE]")), waits=True)


async def test_a_revoked_key_ends_its_chat_and_channel_but_the_turn_is_stored() -> None:
    clock = FrozenClock(AT, step_ms=1)
    async with served(waiting, clock=clock) as server, asyncio.timeout(60):
        keys = AccessKeys(server.memory.context)
        ada = await server.user("ada")
        another = AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId("ada"), label="another")
        other = ServedUser(server.client, (await keys.add(another)).key)
        await ada.made("POST", "/init")
        seen: dict[str, list[Event]] = {"chat": [], "channel": []}

        opened: set[str] = set()

        async def read(name: str, method: str, path: str, body: object = None) -> None:
            async with ada.stream(method, path, body) as events:
                opened.add(name)
                async for event in events:
                    seen[name].append(event)

        async with asyncio.TaskGroup() as group:
            group.create_task(read("chat", "POST", "/chat", {"input": "How are the bees?"}))
            group.create_task(read("channel", "GET", "/events"))
            while len(opened) < len(seen):
                await asyncio.sleep(0)
            await keys.revoke(AccessKeyRequest(id=ada.key.split("_")[2]))
            clock.advance(2_000)
        for name, events in seen.items():
            assert (events[-1].kind, events[-1].data["code"]) == ("agent.error", "unauthorized"), name
        server.model.go_on.set()
        while len((await other.items())["data"]) < 2:
            await asyncio.sleep(0)
        items = (await other.items())["data"]
    assert "The bees sleep." in str(items)
