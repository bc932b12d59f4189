"""Core blocks: text that an agent always sees, edited with tools and shown as files.

Two agents share the block about the person. The second one changes it; the first one learns of it before it writes.
"""

import asyncio

import elytron
from elytron_agent import AgentMemoryView, BlockTools, CallKey, MemoryFiles, Tool
from elytron_agent.blocks.block_repository import text_of
from elytron_agent.tool import Arguments


async def call(tools: tuple[Tool, ...], name: str, number: int, arguments: Arguments) -> str:
    """Call a tool as a loop does, with its own idempotency key."""
    tool = next(tool for tool in tools if tool.name == name)
    return (await tool.call(arguments, CallKey("run", 1, f"call {number}"))).text


async def main() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        view = AgentMemoryView.of(memory)
        shelf = view.blocks
        await shelf.create_missing()
        tools = BlockTools(view, seen=await shelf.list()).tools
        print(await call(tools, "memory_append", 1, {"block": "human", "content": "Name: Ada"}))

        await shelf.edit("human", lambda text: f"{text}\nLikes tea.")  # another agent, meanwhile
        print(await call(tools, "memory_replace", 2, {"label": "human", "old_str": "Ada", "new_str": "Ada L."}))
        print(await call(tools, "memory_replace", 3, {"label": "human", "old_str": "Ada", "new_str": "Ada L."}))

        await call(tools, "archival_insert", 4, {"content": "The boiler code is 4417.", "tags": "house"})
        print(await call(tools, "archival_search", 5, {"query": "boiler", "tags": ["house"]}))
        print((await MemoryFiles(shelf).view("/memories/human")).text)
        print(text_of(await shelf.list()))


asyncio.run(main())
