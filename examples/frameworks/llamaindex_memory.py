"""A memory block of LlamaIndex shows what was said long ago. The chat history is what an agent passes to its model."""

import asyncio

from llama_index.core.llms import ChatMessage

import elytron
from elytron_integrations.llamaindex import ElytronMemoryBlock


async def main() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        block = ElytronMemoryBlock(memory)  # for Memory.from_defaults(memory_blocks=[block])
        await block.aput([ChatMessage(role="user", content="My boat is called Petrel.")], session_id="monday")
        shown = await block.aget([ChatMessage(role="user", content="What is my boat called?")])
        print("Petrel" in shown)
        print(*(item.text for item in (await memory.list()).items))


asyncio.run(main())
