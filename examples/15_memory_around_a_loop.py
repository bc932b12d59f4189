"""Memory around an existing agent loop: three lines, two days, a tool, and another user."""

import asyncio
import json
from typing import Any

import elytron
from elytron_agent import TurnHooks
from elytron_core.clock import DAY_MS, FrozenClock

TIDE = {"role": "tool", "tool_call_id": "c1", "content": "High water at 14:20."}


async def model(messages: list[dict[str, Any]]) -> str:
    """Stand in for a model that repeats what memory gave it."""
    found = [line for message in messages for line in str(message["content"]).splitlines() if line.startswith("{")]
    facts: list[dict[str, str]] = json.loads(found[0]).get("facts", []) if found else []
    return "I know: " + (", ".join(f"{fact['key']} = {fact['value']}" for fact in facts) or "nothing")


async def main() -> None:
    clock = FrozenClock()
    async with elytron.open("memory:", space=None, clock=clock) as memory:
        hooks = TurnHooks(memory, session_secret=b"of this installation")

        async def ask(user: str, text: str) -> str:
            async with hooks.turn(text, credential=f"key-of-{user}", user_id=user) as turn:
                turn.answered(reply := await model(turn.messages))
            return reply

        print(await ask("ada", "My name is Ada. I prefer short answers. Today I need to buy bread."))
        print(await ask("ada", "What do I need to buy?"))
        clock.advance(DAY_MS)
        print(await ask("ada", "And tomorrow?"))
        print(await ask("eve", "Who am I?"))

        async with hooks.turn("When is high water?", credential="key-of-ada") as turn:
            call = {"id": "c1", "type": "function", "function": {"name": "tide", "arguments": "{}"}}
            sent = [*turn.messages, {"role": "assistant", "content": None, "tool_calls": [call]}, TIDE]
            turn.answered("At 14:20.", messages=sent)
        assert turn.after is not None
        print(turn.after.messages, "messages stored;", hooks.metrics().memory_after_turn_total, "turns")


asyncio.run(main())
