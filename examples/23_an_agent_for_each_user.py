"""A client of a server that gives each user an agent. `web_chat.html` in this folder is the same for a browser.

A model server that repeats its input stands in for a real one, so nothing has to be installed or paid for. On
the command line the server is `elytron serve --agent-model ollama:llama3.2`. It needs the extras `server` and `client`.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx

import elytron
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_agent.service.companion import ServiceSettings
from elytron_agent.service.surfaces import agent_surfaces
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell.server import ServingSettings, served_http


class AgentClient:
    """Talks to the agent of the key's user."""

    def __init__(self, url: str, key: str) -> None:
        self._http = httpx.AsyncClient(
            base_url=f"{url}/v1/agent", headers={"Authorization": f"Bearer {key}"}, timeout=None
        )

    async def begin(self, timezone: str) -> list[str]:
        """Create the agent, or find it, and return its first words."""
        return (await self._http.post("/init", json={"timezone": timezone})).json()["welcome"]

    async def say(self, words: str) -> AsyncGenerator[str]:
        """Yield the agent's messages as they arrive."""
        async with self._http.stream("POST", "/chat", json={"input": words}) as answer:
            kind = ""
            async for line in answer.aiter_lines():
                name, _, value = line.partition(": ")
                kind = value if name == "event" else kind
                if name == "data" and kind in {"agent.message", "agent.error"}:
                    yield json.loads(value).get("message") or json.loads(value)["error"]

    async def close(self) -> None:
        await self._http.aclose()


@asynccontextmanager
async def parrot() -> AsyncGenerator[str]:
    """Serve a model that repeats the last words, and yield its address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        asked = json.loads(await reader.readexactly(int(head.partition("content-length: ")[2].partition("\r\n")[0])))
        words = asked["messages"][-1]["content"].rpartition("\n")[2]
        pieces: list[tuple[dict[str, str], str | None]] = [({"content": f"You said: {words}"}, None), ({}, "stop")]
        chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": end}]} for delta, end in pieces]
        lines = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
        begin = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        writer.write(f"{begin}{lines}data: [DONE]\n\n".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"chat:parrot@http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def main() -> None:
    async with elytron.open("memory:") as memory, parrot() as model:
        asked = AccessAddRequest(kind=PrincipalKind.USER, space=SpaceId("ada"), label="laptop")
        key = (await AccessKeys(memory.context).add(asked)).key
        agents = agent_surfaces(ServiceSettings(models=(model,)))
        async with served_http(memory, ServingSettings(port=0), further=(agents,)) as server:
            client = AgentClient(server.address, key)
            for words in await client.begin("Europe/Lisbon"):
                print(f"agent: {words}")
            for words in ("We moved to Lisbon in May.", "Where do we live?"):
                print(f"you:   {words}")
                async for message in client.say(words):
                    print(f"agent: {message}")
            await client.close()


asyncio.run(main())
