"""An agent whose process dies during a tool call: the next one resumes and pays nothing twice.

A scripted model stands in for a real one, so nothing has to be installed or paid for. With a real one, pass its
address: Agent(memory, "ollama:llama3.2", tools).
"""

import asyncio
import tempfile
from collections.abc import AsyncGenerator
from pathlib import Path

import elytron
from elytron_agent import Agent, CallKey, RunEnded, Tool, ToolAnswered
from elytron_core.ports.chat import (
    FinishReason,
    ModelEvent,
    ModelInfo,
    ModelRequest,
    ReplyFinished,
    TextDelta,
    ToolCall,
    ToolResult,
)


class Payer:
    """Pays first, then reports the result."""

    info = ModelInfo(name="payer")

    async def stream(self, request: ModelRequest, /) -> AsyncGenerator[ModelEvent]:
        results = [message for message in request.messages if isinstance(message, ToolResult)]
        if not results:
            yield ToolCall(id="c1", name="pay", arguments='{"euros": 12}')
            yield ReplyFinished(reason=FinishReason.TOOLS)
        else:
            yield TextDelta(text="I do not know whether it was paid." if results[0].is_error else "Paid.")
            yield ReplyFinished(reason=FinishReason.STOP)


class PowerCut(BaseException):
    """The process died."""


async def main(folder: Path) -> None:
    paid: list[CallKey] = []

    async def pay(_: object, key: CallKey, /) -> str:
        paid.append(key)
        raise PowerCut

    tools = (Tool("pay", "Pay a bill.", {"type": "object"}, pay),)
    try:
        async with elytron.open(folder / "memory.db", space="ada") as memory:
            await Agent(memory, Payer(), tools).say("Pay the harbour fee.")
    except PowerCut:
        print(f"the process ended after {len(paid)} payment")

    async with elytron.open(folder / "memory.db", space="ada") as memory:
        async for event in Agent(memory, Payer(), tools).resume():
            match event:
                case ToolAnswered():
                    print(f"{event.tool}: {event.text[:18]}")
                case RunEnded():
                    print(event.text)
                case _:
                    pass
    print(f"payments in total: {len(paid)}")


with tempfile.TemporaryDirectory() as made:
    asyncio.run(main(Path(made)))
