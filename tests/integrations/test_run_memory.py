"""Memory around a framework's runs: a block of what is not shown yet, and a turn that is stored once."""

import logging
from collections.abc import AsyncIterator

import pytest

import elytron
from elytron.api import MemoryFace
from elytron_core import limits
from elytron_core.errors import StoreClosed
from elytron_core.evidence import EvidenceRole
from elytron_integrations.run_memory import AgentRunMemory, spoken_message
from elytron_integrations.user_memory import user_memory

pytestmark = pytest.mark.anyio
ASKED = spoken_message(EvidenceRole.USER, "What is my boat called?")
ANSWERED = spoken_message(EvidenceRole.ASSISTANT, "Petrel.")


@pytest.fixture
async def memory() -> AsyncIterator[MemoryFace]:
    async with elytron.open("memory:", space="ada") as memory:
        yield memory


@pytest.fixture
def run(memory: MemoryFace) -> AgentRunMemory:
    return AgentRunMemory(user_memory(memory, operation="a test"), framework="framework")


async def test_a_block_shows_known_memories_and_is_empty_without_any(run: AgentRunMemory, memory: MemoryFace) -> None:
    assert await run.block("What is my boat called?") == ""
    await memory.add("My boat is called Petrel.")
    assert "My boat is called Petrel." in await run.block("What is my boat called?")


async def test_a_conversation_already_in_the_prompt_is_not_recalled(run: AgentRunMemory) -> None:
    said = spoken_message(EvidenceRole.USER, "My boat is called Petrel.")
    await run.store((said,), turn_id="run", conversation="harbour")
    assert await run.block("What is my boat called?", conversation="harbour") == ""
    assert "Petrel" in await run.block("What is my boat called?", conversation="office")


async def test_a_turn_is_stored_once_in_its_conversation(run: AgentRunMemory, memory: MemoryFace) -> None:
    for _ in range(2):
        await run.store((ASKED, ANSWERED), turn_id="run 1\n", conversation="c")
    await run.store((ASKED,), turn_id="run 2", conversation=None)
    items = (await memory.list()).items
    assert [(item.text, item.channel, item.conversation) for item in items] == [
        (ASKED.text, "framework", "c"),
        (ANSWERED.text, "framework", "c"),
        (ASKED.text, "framework", "default"),
    ]


async def test_a_turn_without_a_persons_text_is_not_stored(run: AgentRunMemory, memory: MemoryFace) -> None:
    await run.store((spoken_message(EvidenceRole.USER, " "), ANSWERED), turn_id="run", conversation="c")
    assert (await memory.list()).items == ()


async def test_messages_are_added_individually_and_once_per_id(run: AgentRunMemory, memory: MemoryFace) -> None:
    blank = spoken_message(EvidenceRole.TOOL, "")
    for _ in range(2):
        await run.add([(ASKED, "m1"), (blank, "m2"), (ANSWERED, None)], conversation="c")
    assert [item.text for item in (await memory.list()).items] == [ASKED.text, ANSWERED.text, ANSWERED.text]
    await memory.close()
    with pytest.raises(StoreClosed):
        await run.add([(ASKED, None)], conversation=None)


async def test_a_message_is_truncated_to_the_memorys_limit() -> None:
    assert len(spoken_message(EvidenceRole.USER, "a" * (limits.MESSAGE_CHARS + 1)).text) == limits.MESSAGE_CHARS


async def test_half_a_surrogate_pair_becomes_a_replacement_character(run: AgentRunMemory, memory: MemoryFace) -> None:
    await run.store((spoken_message(EvidenceRole.USER, "My boat is Petrel \ud83d."),), turn_id="run", conversation=None)
    assert (await memory.list()).items[0].text == "My boat is Petrel \ufffd."
    assert "Petrel" in await run.block("What is my boat called? \ud83d", conversation="c")
    assert spoken_message(EvidenceRole.USER, "\ud83d\ude00").text == "\U0001f600"


async def test_a_closed_memory_is_logged_and_adds_nothing(
    run: AgentRunMemory, memory: MemoryFace, caplog: pytest.LogCaptureFixture
) -> None:
    await memory.close()
    with caplog.at_level(logging.WARNING):
        assert await run.block("What is my boat called?") == ""
        await run.store((ASKED, ANSWERED), turn_id="run", conversation="c")
    assert [record.getMessage() for record in caplog.records] == [
        "memory failed, the run continues without it: store_closed"
    ] * 2
