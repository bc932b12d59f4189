"""Measure what an agent's step costs in addition to the model: Elytron, pydantic-ai and openai-agents on one server.

    uv run --group dev --group peers python -m benchmarks.agent_overhead [--rounds N] [--short]

A model server in its own process streams chat completions: first a tool call, then text. Each system holds the same
conversations of `TURNS` turns with a history, two steps per turn, alternating with the others. A step's overhead is its
time minus that of the same exchange with plain httpx, which reads every byte. Reported are the minimum of the rounds,
and the median of the processor time, which other load on the machine affects less. Meanwhile, Elytron stores every step
in a memory, once in this process and once in a SQLite file.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import httpx

import elytron
from elytron_agent import Agent, AgentSettings, CallKey, RunEnded, Tool
from elytron_models import open_model

TURNS, ROUNDS, ROUNDS_SHORT = 8, 15, 3
STEPS = 2 * TURNS
GOAL = 0.5
ASKED = "How far is it from the harbour to the old pier, number {number}?"
PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
Talk = Callable[[], Awaitable[None]]

_SERVER = """
import asyncio, json
def event(delta, finish=None, usage=None):
    choices = [] if usage else [{"index": 0, "delta": delta, "finish_reason": finish}]
    body = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}
    return b"data: " + json.dumps(body | ({"usage": usage} if usage else {})).encode() + b"\\n\\n"
USAGE = event({}, usage={"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120})
CALL = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "distance", "arguments": ""}}
ARGUMENTS = {"index": 0, "function": {"arguments": json.dumps({"place": "old pier"})}}
CALLS = [event({"role": "assistant", "tool_calls": [CALL]}), event({"tool_calls": [ARGUMENTS]})]
CALLS.append(event({}, "tool_calls"))
WORDS = [event({"role": "assistant", "content": ""}), *(event({"content": f"word {n} "}) for n in range(20))]
WORDS.append(event({}, "stop"))
END = b"data: [DONE]\\n\\n"
HEAD = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/event-stream\\r\\nContent-Length: %d\\r\\n\\r\\n"
async def serve(reader, writer):
    try:
        while True:
            head = await reader.readuntil(b"\\r\\n\\r\\n")
            rows = head.lower().split(b"\\r\\n")
            length = next(int(row.split(b":")[1]) for row in rows if row.startswith(b"content-length"))
            last = json.loads(await reader.readexactly(length))["messages"][-1]
            body = b"".join(WORDS if last["role"] == "tool" else CALLS) + USAGE + END
            writer.write(HEAD % len(body) + body)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()
async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


async def distance(place: str) -> str:
    """Return how far away a place is."""
    return f"{place} is 300 metres away"


def bare(url: str, client: httpx.AsyncClient) -> Talk:
    """Return the bare exchanges: requests as large as those of a conversation, and responses read to the end."""

    async def talk() -> None:
        said: list[dict[str, Any]] = []
        for number in range(TURNS):
            said.append({"role": "user", "content": ASKED.format(number=number)})
            for role in ("tool", "assistant"):
                body = json.dumps({"model": "m", "messages": said, "stream": True}).encode()
                async with client.stream("POST", f"{url}/v1/chat/completions", content=body) as answer:
                    async for _ in answer.aiter_bytes():
                        pass
                said.append({"role": role, "content": "word " * 20, "tool_call_id": "call_1"})

    return talk


def of_elytron(url: str, folder: Path | None) -> Talk:
    """Return the conversation with Elytron, stored in this process or in its own SQLite file."""

    async def told(arguments: Any, _: CallKey, /) -> str:
        return await distance(arguments["place"])

    tool = Tool("distance", "Tell how far away a place is.", PLACE, told, may_repeat=True)
    model = open_model(f"chat:m@{url}/v1", key="k")
    settings = AgentSettings(enabled=True)

    async def talk() -> None:
        store = "memory:" if folder is None else str(folder / f"{time.monotonic_ns()}.db")
        async with elytron.open(store, space="ada") as memory:
            agent = Agent(memory, model, [tool], settings=settings)
            for number in range(TURNS):
                async for event in agent.run(ASKED.format(number=number)):
                    if isinstance(event, RunEnded):
                        assert event.usage.steps == 2, event
            await agent.close()

    return talk


def of_pydantic_ai(url: str) -> Talk:
    """Return the conversation with pydantic-ai, whose history is passed on from turn to turn."""
    models: Any = import_module("pydantic_ai.models.openai")
    providers: Any = import_module("pydantic_ai.providers.openai")
    peer: Any = import_module("pydantic_ai")
    model = models.OpenAIChatModel("m", provider=providers.OpenAIProvider(base_url=f"{url}/v1", api_key="k"))
    agent: Any = peer.Agent(model, tools=[distance])

    async def listen(_: Any, events: Any) -> None:
        async for _event in events:
            pass

    async def talk() -> None:
        history: Any = None
        for number in range(TURNS):
            asked = ASKED.format(number=number)
            ended = await agent.run(asked, message_history=history, event_stream_handler=listen)
            history = ended.all_messages()
            assert ended.usage.requests == 2

    return talk


def of_openai_agents(url: str) -> Talk:
    """Return the conversation with openai-agents, whose session is a SQLite database in memory."""
    agents: Any = import_module("agents")
    openai: Any = import_module("openai")
    agents.set_tracing_disabled(disabled=True)
    model = agents.OpenAIChatCompletionsModel("m", openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k"))
    agent = agents.Agent(name="peer", model=model, tools=[agents.function_tool(distance)])

    async def talk() -> None:
        session = agents.SQLiteSession("talk")
        for number in range(TURNS):
            run = agents.Runner.run_streamed(agent, ASKED.format(number=number), session=session)
            async for _event in run.stream_events():
                pass
            assert len(run.raw_responses) == 2
        session.close()

    return talk


class Step(NamedTuple):
    """Milliseconds of a step: the minimum of the rounds, and the median of processor time."""

    wall_ms: float
    cpu_ms: float


async def measure(rounds: int) -> dict[str, Step]:
    """Return the cost of a step for each system."""
    os.environ.setdefault("OPENAI_API_KEY", "k")
    times: dict[str, list[tuple[float, float]]] = {}
    async with serving_model() as url, httpx.AsyncClient() as client:
        with tempfile.TemporaryDirectory(prefix="elytron-agents-") as folder:
            talks = {
                "bare httpx": bare(url, client),
                "elytron, memory": of_elytron(url, None),
                "elytron, sqlite": of_elytron(url, Path(folder)),
                "pydantic-ai": of_pydantic_ai(url),
                "openai-agents": of_openai_agents(url),
            }
            for each in range(rounds + 1):
                for name, talk in talks.items():
                    before = time.perf_counter(), time.process_time()
                    await talk()
                    took = time.perf_counter() - before[0], time.process_time() - before[1]
                    if each:  # the first round warms up
                        times.setdefault(name, []).append(took)
    return {name: _step(found) for name, found in times.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark, and return 1 if a step costs more than half of the lightest peer's."""
    parser = argparse.ArgumentParser(description="what a step of an agent costs")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--short", action="store_true")
    options = parser.parse_args(argv)
    found = asyncio.run(measure(ROUNDS_SHORT if options.short else options.rounds))
    base = found.pop("bare httpx")
    over = {name: Step(took.wall_ms - base.wall_ms, took.cpu_ms - base.cpu_ms) for name, took in found.items()}
    peers = (over["pydantic-ai"], over["openai-agents"])
    least = Step(min(peer.wall_ms for peer in peers), min(peer.cpu_ms for peer in peers))
    print(f"bare httpx       {base.wall_ms:6.2f} ms a step, {base.cpu_ms:6.2f} ms of processor")
    for name, took in over.items():
        told = f"{name:16} {took.wall_ms:6.2f} ms on top,  {took.cpu_ms:6.2f} ms of processor"
        shares = f"  {took.wall_ms / least.wall_ms:.2f} and {took.cpu_ms / least.cpu_ms:.2f} of the lighter peer"
        print(told + (shares if name.startswith("elytron") else ""))
    return 0 if over["elytron, memory"].cpu_ms <= GOAL * least.cpu_ms else 1


def _step(rounds: list[tuple[float, float]]) -> Step:
    wall = min(wall for wall, _ in rounds)
    return Step(wall * 1000 / STEPS, statistics.median(cpu for _, cpu in rounds) * 1000 / STEPS)


@asynccontextmanager
async def serving_model(*, with_tool: bool = True) -> AsyncGenerator[str]:
    """Yield the address of a model server in its own process. Without the tool, it answers with text at once."""
    source = _SERVER if with_tool else _SERVER.replace('last["role"] == "tool"', "last")
    process = subprocess.Popen([sys.executable, "-c", source], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


if __name__ == "__main__":
    raise SystemExit(main())
