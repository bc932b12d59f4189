"""A chat model behind one port: events as they arrive, and an interrupted answer is an error.

A local server stands in for the model, so nothing has to be installed or paid for. With a real one only the
address changes: `openai:gpt-5`, `anthropic:claude-sonnet-5`, `ollama:llama3.2`, `chat:qwen3@http://127.0.0.1:8000/v1`.
"""

import asyncio
import json

from elytron_core.errors import ModelUnavailable
from elytron_core.ports.chat import (
    ChatRole,
    InputMessage,
    ModelRequest,
    ReplyFailed,
    ReplyFinished,
    TextDelta,
    TextPart,
)
from elytron_models import ask, open_model

WORDS = ("It ", "rains ", "in ", "Porto.")
QUESTION = ModelRequest(messages=(InputMessage(role=ChatRole.USER, parts=(TextPart(text="How is the weather?"),)),))


def line(words: str, *, done: bool = False) -> str:
    """Return a line of Ollama's dialect."""
    return json.dumps({"message": {"role": "assistant", "content": words}, "done": done}) + "\n"


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer in four words; a model called `unsteady` drops its connection before the end marker."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(int(row.split(b":")[1]) for row in head.lower().split(b"\r\n") if row.startswith(b"content-length"))
    asked = json.loads(await reader.readexactly(length))
    lines = [line(word) for word in WORDS]
    if asked["model"] != "unsteady":
        lines.append(line("", done=True))
    writer.write(("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + "".join(lines)).encode())
    await writer.drain()
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    steady, unsteady = open_model(f"ollama:steady@{url}"), open_model(f"ollama:unsteady@{url}")

    async for event in steady.stream(QUESTION):
        match event:
            case TextDelta():
                print(event.text, end="")
            case ReplyFinished() | ReplyFailed():
                print(f"\n{event.kind}: {event.reason.value}")
            case _:
                pass

    print((await ask(steady, QUESTION)).text)
    try:
        await ask(unsteady, QUESTION)
    except ModelUnavailable as error:
        print(error.message.replace(url, "..."))

    await steady.close()
    await unsteady.close()
    server.close()


asyncio.run(main())
