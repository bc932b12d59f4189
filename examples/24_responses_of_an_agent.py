"""OpenAI's official client with an agent server: responses, a branch, and a conversation.

A model server that repeats its input stands in for a real one. On the command line the server is `elytron serve
--agent-model ollama:llama3.2`. It needs the extras `server` and `client`, and the package `openai`.
"""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from openai import AsyncOpenAI

import elytron
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_agent.service.companion import ServiceSettings
from elytron_agent.service.surfaces import agent_surfaces
from elytron_core.ids import SpaceId
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_http_shell.server import ServingSettings, served_http


async def talk(client: AsyncOpenAI) -> None:
    """Ask, continue from an answer in two ways, and follow a stream."""
    first = await client.responses.create(model="parrot", input="We moved to Lisbon in May.")
    for words in ("Where do we live?", "When did we move?"):
        answer = await client.responses.create(model="parrot", input=words, previous_response_id=first.id)
        print(answer.output_text)
    conversation = await client.conversations.create(metadata={"topic": "home"})
    wanted = client.responses.stream(model="parrot", input="Good morning", conversation=conversation.id)
    async with wanted as stream:
        async for event in stream:
            if event.type == "response.output_text.delta":
                print(event.delta)
    items = await client.conversations.items.list(conversation.id)
    print(f"{len(items.data)} items in the conversation")


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
        async with (
            served_http(memory, ServingSettings(port=0), further=(agents,)) as server,
            AsyncOpenAI(base_url=f"{server.address}/v1", api_key=key) as client,
        ):
            await talk(client)


asyncio.run(main())
