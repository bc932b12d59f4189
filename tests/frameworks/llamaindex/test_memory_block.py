"""The memory block: shows what is recalled for the latest message, and remembers what leaves the chat history."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from llama_index.core.llms import ChatMessage, MessageRole
from llama_index.core.memory import Memory
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import StaticPool

import elytron
from elytron.api import MemoryFace
from elytron_core.errors import ScopeMissing, StoreClosed
from elytron_integrations.llamaindex import ElytronMemoryBlock

pytestmark = pytest.mark.anyio


@pytest.fixture
async def memory() -> AsyncIterator[MemoryFace]:
    async with elytron.open("memory:", space="ada") as memory:
        yield memory


def said(text: str, role: MessageRole = MessageRole.USER) -> ChatMessage:
    return ChatMessage(role=role, content=text)


async def test_the_block_shows_memories_for_the_users_latest_message(memory: MemoryFace) -> None:
    await memory.add("My boat is called Petrel.")
    block = ElytronMemoryBlock(memory)
    messages = [said("Hello."), said("What is my boat called?"), said("One moment.", MessageRole.ASSISTANT)]
    assert "My boat is called Petrel." in await block.aget(messages)
    assert (await block.aget(), await block.aget([said("Hm.", MessageRole.ASSISTANT)])) == ("", "")


async def test_messages_except_system_ones_are_stored_by_session(memory: MemoryFace) -> None:
    block = ElytronMemoryBlock(memory)
    answer = said("Noted.", MessageRole.CHATBOT)
    await block.aput([said("The key is under the oar."), said("Be brief.", MessageRole.SYSTEM)], session_id="s1")
    await block.aput([answer, ChatMessage(role=MessageRole.USER)])
    items = (await memory.list()).items
    assert [(item.text, item.channel, item.conversation) for item in items] == [
        ("The key is under the oar.", "llamaindex", "s1"),
        ("Noted.", "llamaindex", "default"),
    ]


async def test_messages_dropped_from_the_history_are_remembered_and_shown(memory: MemoryFace) -> None:
    engine = create_async_engine("sqlite+aiosqlite:///:memory:", poolclass=StaticPool)
    limits: Any = {"token_limit": 60, "token_flush_size": 20}
    blocks: Any = [ElytronMemoryBlock(memory)]
    chat = Memory.from_defaults("s1", memory_blocks=blocks, async_engine=engine, **limits)  # pyright: ignore[reportUnknownMemberType]
    await chat.aput(said("My boat is called Petrel, and I keep the key under the oar in the bow."))
    for number in range(8):
        await chat.aput(said(f"Noted with care, as number {number} of many.", MessageRole.ASSISTANT))
        await chat.aput(said(f"Message number {number} is about the weather."))
    assert any("Petrel" in item.text for item in (await memory.list()).items)
    await chat.aput(said("What is my boat called?"))
    assert "My boat is called Petrel" in str(await chat.aget())
    assert all("elytron" not in item.text for item in (await memory.list()).items)
    await engine.dispose()


async def test_without_enough_tokens_the_whole_block_is_omitted(memory: MemoryFace) -> None:
    assert await ElytronMemoryBlock(memory, priority=1).atruncate("a block", 1) is None


async def test_a_failing_write_raises_and_a_failing_recall_shows_nothing(memory: MemoryFace) -> None:
    block = ElytronMemoryBlock(memory)
    await memory.close()
    assert await block.aget([said("What is my boat called?")]) == ""
    with pytest.raises(StoreClosed):
        await block.aput([said("Hello.")])


async def test_another_space_is_shown_nothing(memory: MemoryFace) -> None:
    ada, grace = ElytronMemoryBlock(memory), ElytronMemoryBlock(memory, space="grace")
    await ada.aput([said("My boat is called Petrel.")], session_id="s1")
    await grace.aput([said("I have no boat.")], session_id="s1")
    assert "Petrel" not in await grace.aget([said("What is my boat called?")])
    assert len((await memory.list()).items) == 1


async def test_a_block_without_a_space_is_refused() -> None:
    async with elytron.open("memory:", space=None) as memory:
        with pytest.raises(ScopeMissing, match="the memory block"):
            ElytronMemoryBlock(memory)
