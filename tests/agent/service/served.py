"""The agent's routes on a real port, before a scripted model server, with keys of two users."""

import json
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
from tests.models.fake_server import Asked, FakeServer, Sent, serving
from tests.models.streams import data
from tests.transports.listener import listening

import elytron
from elytron import MemoryRuntime
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_agent.runs.thread_notes import WELCOMED
from elytron_agent.service.companion import ServiceSettings
from elytron_agent.service.surfaces import agent_surfaces
from elytron_core.clock import FrozenClock, Instant
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.ports.store import KeyProvider
from elytron_http_shell import create_app

AT = Instant(1_780_000_000_000)


def _chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def said(text: str) -> Sent:
    """Return an answer in text."""
    return Sent((data(_chunk({"content": text}), _chunk({}, "stop"), "[DONE]"),))


def called(*calls: tuple[str, dict[str, Any]], text: str = "") -> Sent:
    """Return an answer that calls tools, optionally after some text."""
    made = [
        {"index": at, "id": f"t{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for at, (name, given) in enumerate(calls)
    ]
    words = [_chunk({"content": text})] if text else []
    return Sent((data(*words, _chunk({"tool_calls": made}), _chunk({}, "tool_calls"), "[DONE]"),))


def last_words(asked: Asked) -> str:
    """Return the user's last message in a request to the model."""
    messages = [message for message in asked.body["messages"] if message["role"] == "user"]
    content = messages[-1]["content"]
    text = content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)
    return text.rpartition("]\n")[2]


def echo(asked: Asked) -> Sent:
    """Repeat what the user said."""
    return said(f"You said: {last_words(asked)}")


@dataclass(frozen=True)
class Event:
    """An event of a stream."""

    kind: str
    data: dict[str, Any]
    id: str = ""


async def events_of(response: httpx.Response) -> AsyncGenerator[Event]:
    """Yield the events of a stream as they arrive, without comments."""
    fields: dict[str, str] = {}
    async for line in response.aiter_lines():
        if line:
            name, _, value = line.partition(":")
            if name:
                fields[name] = value.removeprefix(" ")
        elif "event" in fields:
            yield Event(fields["event"], json.loads(fields["data"]), fields.get("id", ""))
            fields = {}


@dataclass
class ServedUser:
    """A user of the server, by the user's key."""

    client: httpx.AsyncClient
    key: str

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.request(
            method, f"/v1/agent{path}", json=body, headers={"Authorization": f"Bearer {self.key}", **named}
        )

    async def made(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the answer to a call that must succeed."""
        answer = await self.call(method, path, body, **headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def items(self, query: str = "", *, thread: str = "") -> Any:
        """Return a page of a thread's items, without the welcome."""
        page = await self.made("GET", f"{thread}/items{query}")
        return page | {"data": [item for item in page["data"] if item["run_id"] != WELCOMED]}

    @asynccontextmanager
    async def stream(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> AsyncGenerator[AsyncGenerator[Event]]:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.client.stream(
            method, f"/v1/agent{path}", json=body, headers={"Authorization": f"Bearer {self.key}", **named}
        ) as response:
            assert response.status_code == 200, await response.aread()
            yield events_of(response)

    async def chat(self, text: str, path: str = "/chat", **headers: str) -> Sequence[Event]:
        """Say something and return all events of the turn."""
        async with self.stream("POST", path, {"input": text}, **headers) as events:
            return [event async for event in events]


@dataclass
class ServedAgents:
    """A server of agents."""

    url: str
    memory: MemoryRuntime
    model: FakeServer
    client: httpx.AsyncClient
    users: dict[str, ServedUser] = field(default_factory=dict[str, ServedUser])

    async def user(self, space: str) -> ServedUser:
        """Return the user of a space, with a new key."""
        asked = AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId(space), label="test")
        key = (await AccessKeys(self.memory.context).add(asked)).key
        return self.users.setdefault(space, ServedUser(self.client, key))


Reply = Callable[[Asked], Sent | None]


@asynccontextmanager
async def served(
    reply: Reply = echo,
    *,
    store: str = "memory:",
    keys: KeyProvider | None = None,
    clock: FrozenClock | None = None,
    **settings: Any,
) -> AsyncGenerator[ServedAgents]:
    """Serve agents over a store with a model that answers by `reply`."""
    async with (
        serving() as model,
        elytron.open(store, space=None, keys=keys, clock=clock or FrozenClock(AT, step_ms=1)) as memory,
    ):
        model.reply = reply
        wanted = ServiceSettings(models=(f"chat:scripted@{model.url}/v1",), **settings)
        app = create_app(memory, further=(agent_surfaces(wanted),))
        async with listening(app) as url, httpx.AsyncClient(base_url=url, timeout=20) as client:
            yield ServedAgents(url, memory, model, client)
