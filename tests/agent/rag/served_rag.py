"""The routes of embeddings on a real port, with keys of several users."""

from collections.abc import AsyncGenerator
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import httpx
from tests.sdk.encoders import WordEmbedder
from tests.transports.listener import listening

import elytron
from elytron import MemoryRuntime
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys, Principal
from elytron_adapter.dispatch import acting_as
from elytron_agent.rag.rag_surfaces import RagSettings, rag_surfaces
from elytron_core.clock import FrozenClock, Instant
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.ports.models import Embedder
from elytron_core.ports.store import Store
from elytron_core.scope import Scope
from elytron_http_shell import create_app

AT = Instant(1_780_000_000_000)


@dataclass
class RagUser:
    """A user of the server, by the user's key."""

    client: httpx.AsyncClient
    key: str
    principal: Principal

    def acting(self) -> AbstractContextManager[None]:
        """Run a block for this user, so that what it unlocks is unlocked for the user's key."""
        return acting_as(self.principal, address="127.0.0.1")

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.request(
            method, f"/v1/rag{path}", json=body, headers={"Authorization": f"Bearer {self.key}", **named}
        )

    async def made(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """Return the answer to a call that must succeed."""
        answer = await self.call(method, path, body, **headers)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def insert(self, text: str, **fields: Any) -> Any:
        return await self.made("POST", "/embeddings", {"text": text, **fields})

    async def search(self, query: str, **fields: Any) -> Any:
        return await self.made("POST", "/search", {"query": query, **fields})

    async def texts(self, query: str, **fields: Any) -> list[str]:
        """Return the texts that a search finds."""
        return [hit["text"] for hit in (await self.search(query, **fields))["data"]]


@dataclass
class ServedRag:
    """A server with an embedder."""

    memory: MemoryRuntime
    client: httpx.AsyncClient
    clock: FrozenClock

    async def user(self, space: str) -> RagUser:
        """Return the user of a space, with a new key."""
        asked = AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId(space), label="test")
        keys = AccessKeys(self.memory.context)
        key = (await keys.add(asked)).key
        return RagUser(self.client, key, await keys.authenticate(f"Bearer {key}"))

    def memory_of(self, space: str) -> MemoryRuntime:
        """Return a user's memory as an agent's tools see it."""
        return MemoryRuntime(replace(self.memory.context, default_scope=Scope(space=SpaceId(space))))

    async def figures(self) -> dict[str, float]:
        """Return the embedding metrics, without histograms."""
        asked = AccessAddRequest(kind=PrincipalKind.OPERATOR, label="test")
        key = (await AccessKeys(self.memory.context).add(asked)).key
        shown = await self.client.get("/metrics", headers={"Authorization": f"Bearer {key}"})
        lines = [line.rpartition(" ") for line in shown.text.splitlines() if line.startswith("elytron_rag_")]
        return {name.removeprefix("elytron_rag_"): float(value) for name, _, value in lines if "{" not in name}

    async def embed(self, space: str) -> None:
        """Embed everything that has no vector."""
        await self.memory.embed(elytron.MemoryEmbedRequest(scope=Scope(space=SpaceId(space))))


@asynccontextmanager
async def served_rag(
    *,
    embedder: Embedder | None = None,
    store: str | Store = "memory:",
    settings: RagSettings | None = None,
    **options: Any,
) -> AsyncGenerator[ServedRag]:
    """Serve embeddings over a store."""
    clock = FrozenClock(AT, step_ms=1)
    opened = elytron.open(store, space=None, clock=clock, embedder=embedder or WordEmbedder(), **options)
    async with opened as memory:
        app = create_app(memory, further=(rag_surfaces(settings),))
        async with listening(app) as url, httpx.AsyncClient(base_url=url, timeout=20) as client:
            yield ServedRag(memory, client, clock)
