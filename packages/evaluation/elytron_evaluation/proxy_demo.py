"""Demonstrate the proxy with a scripted model that knows only the text of its request."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from elytron_adapter.access_keys import DevelopmentCallers
from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
from elytron_core.model import Value
from elytron_models.dialect import fields_of, inner_object, object_list, text_field
from elytron_outbound.clients import ClientSettings, http_client
from elytron_proxy.app import ProxyApp
from elytron_proxy.settings import ModelUpstream, ProxySettings

if TYPE_CHECKING:
    from elytron.runtime import MemoryRuntime

STATEMENT: Final = "My boat is called Petrel, and she is moored in Porto."
TIMEOUT_S: Final = 60.0
QUESTION: Final = "What is my boat called?"
_NAME: Final = re.compile(r"boat is called (\w+)")
_HEAD: Final = b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nConnection: close\r\n\r\n"


class DemonstratedCall(Value):
    """One call. `placed` is the text that memory added to the request, `recalled` the number of memories in it."""

    conversation: int
    said: str
    answered: str
    recalled: int
    placed: str = ""


@asynccontextmanager
async def scripted_model() -> AsyncGenerator[str]:
    """Run a model server that answers in Ollama's protocol from the last message, and yield its URL."""
    tasks: set[asyncio.Task[None]] = set()

    def begin(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(_answer_scripted(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(begin, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        await asyncio.gather(*tasks, return_exceptions=True)


async def demonstrate_proxy(memory: "MemoryRuntime", space: str, /) -> tuple[DemonstratedCall, ...]:
    """Hold two conversations with the scripted model through a proxy, and return both."""
    import httpx

    admission = CallerAdmission(OperationDispatcher(memory), authenticator=DevelopmentCallers())
    async with scripted_model() as url:
        app = ProxyApp(admission, ProxySettings(upstreams=(ModelUpstream(url),), space=space))
        settings = ClientSettings(extra="proxy", purpose="the demonstration", url="http://proxy", timeout_s=TIMEOUT_S)
        async with app.running(), http_client(settings, transport=httpx.ASGITransport(app=app)) as client:
            calls: list[DemonstratedCall] = []
            for conversation, message in enumerate((STATEMENT, QUESTION), 1):
                body = {"model": "scripted", "messages": [{"role": "user", "content": message}]}
                answer = await client.post("/api/chat", json=body)
                lines = [fields_of(line) or {} for line in answer.content.splitlines()]
                placed_text = "".join(text_field(line, "prompt") for line in lines).removeprefix(message).strip()
                calls.append(
                    DemonstratedCall(
                        conversation=conversation,
                        said=message,
                        answered="".join(text_field(inner_object(line, "message"), "content") for line in lines),
                        recalled=int(answer.headers.get("x-elytron-recalled", "0")),
                        placed=placed_text,
                    )
                )
                await app.idle()
    return tuple(calls)


async def _answer_scripted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request_head = await reader.readuntil(b"\r\n\r\n")
    body_bytes = next(
        int(header_line.split(b":")[1])
        for header_line in request_head.lower().split(b"\r\n")
        if header_line.startswith(b"content-length")
    )
    request = fields_of(await reader.readexactly(body_bytes)) or {}
    message = text_field(object_list(request, "messages")[-1], "content")
    name_match = _NAME.search(message)
    if message.startswith(QUESTION):
        answer_text = f"Your boat is called {name_match[1]}." if name_match is not None else "You have not told me."
    else:
        answer_text = "I will keep that in mind."
    response_lines = (
        {"message": {"role": "assistant", "content": answer_text}, "done": False, "prompt": message},
        {"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"},
    )
    writer.write(_HEAD + b"".join(json.dumps(response_line).encode() + b"\n" for response_line in response_lines))
    await writer.drain()
    writer.close()
