"""A proxy in front of a model server: the client only changes its base URL to get memory.

A scripted model that knows only its request stands in for a real one. On the command line this is
`elytron proxy --upstream http://127.0.0.1:11434 --store memory.db`.
"""

import asyncio

import elytron
from elytron_evaluation.proxy_demo import demonstrate_proxy


async def main() -> None:
    async with elytron.open("memory:", space="default") as memory:
        for call in await demonstrate_proxy(memory, "default"):
            print(f"conversation {call.conversation}")
            print(f"  you:   {call.said}")
            print(f"  model: {call.answered} ({call.recalled} memories in its request)")


asyncio.run(main())
