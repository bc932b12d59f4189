"""A memory store of Strands: what its manager adds is found again, also by other programs."""

import asyncio

from strands.memory import MemoryManager

import elytron
from elytron_integrations.strands import ElytronMemoryStore


async def main() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        manager = MemoryManager(stores=[ElytronMemoryStore(memory)])  # for Agent(memory_manager=manager)
        await manager.add("Ada's boat is called Petrel.")
        print(*(entry.content for entry in await manager.search("what is the boat called?")))
        print((await memory.recall("what is the boat called?"))[0].text)


asyncio.run(main())
