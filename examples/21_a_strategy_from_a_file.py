"""Memory strategies: one loop, three memories, chosen by a file.

The loop below does not know which memory it has. This example's gateway is down, and the run continues without it.
"""

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

import elytron
from elytron_agent import CallKey, MemoryStrategy, RunEvent, TurnExchange, load_strategy
from elytron_agent.strategies.strategy import role_message
from elytron_core.clock import SystemClock
from elytron_core.ports.chat import ChatRole

CLOCK = SystemClock()
GATEWAY = {"baseUrl": "http://127.0.0.1:9", "userId": "ada", "userKey": "uk_xxx"}
MODES: dict[str, dict[str, Any]] = {
    "curated": {},
    "memory_gateway": {"gateway": GATEWAY},
    "runtime": {},
}


async def run(strategy: MemoryStrategy, prompt: str) -> str:
    """Do one run: a real loop would call a model where this one only records something."""
    asked_at = CLOCK.now()
    memory = await strategy.before_run("chat", prompt)
    head = [role_message(f"You are helpful.\n{memory.system}", role=ChatRole.SYSTEM)]
    messages = memory.arranged(head, [], role_message(prompt))
    for tool in memory.tools:
        if tool.name == "memory":
            await tool.call({"action": "add", "target": "user", "content": prompt}, CallKey("run", 1, prompt))
    answer = f"{len(messages)} messages, tools: {', '.join(tool.name for tool in memory.tools)}"
    exchange = TurnExchange(prompt=prompt, answer=answer, asked_at=asked_at, answered_at=CLOCK.now())
    await strategy.after_run("chat", exchange)
    return answer


async def tell(_conversation: str, event: RunEvent, /) -> None:
    print(f"  event: {event.kind}, {event.failure}")


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for mode, sections in MODES.items():
            path = Path(folder) / "config.json"
            path.write_text(json.dumps({"memory": {"mode": mode, **sections}}))
            async with (
                elytron.open("memory:", space="ada") as memory,
                load_strategy(path, memory, tell=tell) as strategy,
            ):
                print(mode)
                print(f"  {await run(strategy, 'I like rye bread.')}")
                print(f"  {await run(strategy, 'Which bread do I like?')}")


asyncio.run(main())
