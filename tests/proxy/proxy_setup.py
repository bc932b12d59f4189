"""A proxy on its own port in front of a fake model server, both in the test's own loop."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from tests.models.fake_server import EVENTS, LINES, FakeServer, Sent, serving
from tests.models.streams import RECORDED
from tests.transports.listener import listening

import elytron
from elytron import MemoryRuntime
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys, Authenticator, DevelopmentCallers
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_core.contracts.memories import MemoryListRequest
from elytron_core.evidence import EvidenceRole
from elytron_core.ids import SeededIds, SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.ports.store import Store
from elytron_core.scope import Scope
from elytron_proxy import ModelUpstream, ProxyApp, ProxySettings

KEY = "sk-upstream-5f0b"
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "messages": "/v1/messages",
    "ollama": "/api/chat",
}
EACH = pytest.mark.parametrize("dialect", PATHS)
BOAT = "What is my boat called?"
JSON = {"Content-Type": "application/json"}


@dataclass
class Proxied:
    """A proxy, the memory behind it, and the model server in front of which it runs."""

    url: str
    memory: MemoryRuntime
    upstream: FakeServer
    app: ProxyApp
    client: httpx.AsyncClient = field(repr=False)

    async def post(self, path: str, body: Any, /, **headers: str) -> httpx.Response:
        """Return the answer to a request; underscores in headers' names stand for hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.post(f"{self.url}{path}", json=body, headers=named)

    async def questions(self) -> dict[str, str | None]:
        """Return the users' questions, with the conversation of each."""
        await self.app.idle()
        request = MemoryListRequest(scope=Scope(space="default"))
        hits = (await self.memory.list(request)).items
        return {hit.text: hit.conversation for hit in hits if hit.role is EvidenceRole.USER}

    async def kept(self, space: str = "default") -> list[str]:
        """Return the texts of all stored messages in order."""
        await self.app.idle()
        request = MemoryListRequest(scope=Scope(space=space))
        return [hit.text for hit in (await self.memory.list(request)).items]

    async def key(self, space: str) -> str:
        """Return a new user's key."""
        asked = AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId(space), label="test")
        return (await AccessKeys(self.memory.context).add(asked)).key


@asynccontextmanager
async def proxying(
    *answers: Sent | None,
    authenticator: Authenticator | None = None,
    store: str | Store = "memory:",
    has_keys: bool = False,
    key: str = KEY,
    **settings: Any,
) -> AsyncGenerator[Proxied]:
    """Serve a proxy with an empty memory in front of a server that returns `answers`."""
    async with serving(*answers) as upstream, elytron.open(store, space=None, ids=SeededIds()) as memory:
        known = AccessKeys(memory.context) if has_keys else authenticator or DevelopmentCallers()
        admission = CallerAdmission(OperationDispatcher(memory), authenticator=known)
        found = ProxySettings(upstreams=(ModelUpstream(upstream.url, key=key),), **settings)
        app = ProxyApp(admission, found)
        async with listening(app) as url, httpx.AsyncClient(timeout=20, headers=JSON) as client:
            yield Proxied(url, memory, upstream, app, client)


def asked(dialect: str, *said: str, **more: Any) -> dict[str, Any]:
    """Return a streamed request in a dialect, with alternating messages of a person and a model."""
    turns = [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(said)]
    where = "input" if dialect == "responses" else "messages"
    return {"model": "m", where: turns, "stream": True, **({"max_tokens": 9} if dialect == "messages" else {}), **more}


def messages_of(dialect: str, body: dict[str, Any]) -> list[Any]:
    """Return the messages of a request."""
    return body["input" if dialect == "responses" else "messages"]


async def knowing(proxied: Proxied) -> None:
    """Tell the memory the boat's name."""
    await proxied.memory.add("My boat is called Petrel.", user_id="default")


def recorded(name: str) -> Sent:
    """Return a recorded stream as an answer."""
    found = RECORDED[name]
    return Sent((found.data,), media_type=LINES if found.dialect == "ollama" else EVENTS)
