"""Erased, forgotten, or private content is never shown to a model again, whatever an agent stores of its runs."""

from pathlib import Path

import pytest
from tests.agent.chat_script import ScriptedChat, text
from tests.agent.places import EVERYWHERE, journal_beside

import elytron
from elytron import FactAction, FactChangeRequest, FactPrivacy
from elytron.api import MemoryFace
from elytron.runtime_records import records_of
from elytron_agent import Agent, AgentSettings
from elytron_agent.runs.thread_notes import AGENTS
from elytron_core.errors import NotFound
from elytron_core.ports.chat import ModelRequest

pytestmark = pytest.mark.anyio

SECRET = "The cellar code is marigold."


def told(request: ModelRequest) -> str:
    return "\n".join(message.model_dump_json() for message in request.messages)


def agent_of(memory: MemoryFace, model: ScriptedChat) -> Agent:
    return Agent(
        memory, model, journal=journal_beside(memory), settings=AgentSettings(enabled=True, recall_deadline_s=30.0)
    )


async def id_of(memory: MemoryFace, part: str) -> str:
    return next(hit.id for hit in (await memory.list()).items if part in hit.text)


@pytest.mark.parametrize("verb", ["erase", "forget"])
async def test_a_retracted_turn_leaves_the_window(memory: MemoryFace, verb: str) -> None:
    model = ScriptedChat(text("Noted."))
    agent = agent_of(memory, model)
    await agent.say("I have a boat.")
    await agent.say(SECRET)
    await agent.say("I have a cat.")
    assert SECRET in told(model.last)
    gone = await id_of(memory, SECRET)
    await (memory.erase(gone) if verb == "erase" else memory.forget(gone))
    for each in (agent, agent_of(memory, model)):
        await each.say("What do you know?")
        assert SECRET not in told(model.last)
        assert "I have a boat." in told(model.last)
        assert "I have a cat." in told(model.last)


@EVERYWHERE
async def test_an_erased_turn_leaves_its_summary_which_is_recreated(memory: MemoryFace) -> None:
    model = ScriptedChat(text("Noted."))
    agent = agent_of(memory, model)
    for said in ("My boat is called Marimba.", SECRET, "It is blue.", "It is old."):
        await agent.say(said)
    made = await agent.compact()
    assert made is not None
    await agent.say("And now?")
    await memory.erase(await id_of(memory, SECRET))
    fresh = agent_of(memory, model)
    await fresh.say("What do you know?")
    assert SECRET not in told(model.last)
    assert "My boat is called Marimba." in told(model.last)
    with pytest.raises(NotFound):
        await fresh.undo_compaction()
    again = await fresh.compact()
    assert again is not None
    assert "marigold" not in again.text


async def test_a_missing_summary_is_not_found(memory: MemoryFace) -> None:
    model = ScriptedChat(text("Noted."))
    agent = agent_of(memory, model)
    for said in ("My boat is called Marimba.", "It is blue.", "It is old."):
        await agent.say(said)
    made = await agent.compact()
    assert made is not None
    records = records_of(memory)
    named = [each async for each in records.below((AGENTS, agent.name, agent.name)) if each.key.startswith("summary")]
    assert len(named) == 1
    await records.erase(named)
    with pytest.raises(NotFound, match="summary"):
        await agent_of(memory, model).say("What do you know?")


async def test_the_file_contains_nothing_of_an_erased_turn_or_fact(tmp_path: Path) -> None:
    place = tmp_path / "memory.db"
    model = ScriptedChat(text("The code marigold is noted."), text("Yes."))
    async with elytron.open(str(place), space="ada") as memory:
        await memory.add_fact("colour", "Ada likes vermilion")
        agent = agent_of(memory, model)
        for said in (SECRET, "It is blue.", "It is old."):
            await agent.say(said)
        assert "vermilion" in told(model.last)
        await agent.compact()
        items = (await memory.list()).items
        erased = await memory.erase([hit.id for hit in items if "marigold" in hit.text or "vermilion" in hit.text])
        if erased.derived:
            await memory.erase(erased.derived)
    stored = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"marigold" not in stored
    assert b"vermilion" not in stored


async def test_an_outdated_fact_leaves_the_stable_part_immediately(memory: MemoryFace) -> None:
    model = ScriptedChat(text("Yes."))
    agent = agent_of(memory, model)
    (tea,) = (await memory.add_fact("drink", "Ada likes green tea")).ids
    (scar,) = (await memory.add_fact("scar", "from the kiln")).ids
    await agent.say("Hello.")
    assert "green tea" in told(model.last)
    assert "kiln" in told(model.last)
    await memory.forget(tea)
    await memory.change_fact(
        FactChangeRequest(id=scar, action=FactAction.CHANGE_PRIVACY, privacy=FactPrivacy.PRIVATE, reason="asked to")
    )
    await agent.say("And now?")
    assert "green tea" not in told(model.last)
    assert "kiln" not in told(model.last)
    kept = model.asked[-1].messages[:2]
    await memory.add_fact("home", "Ada lives in Lisbon")
    await agent.say("Still?")
    assert model.asked[-1].messages[:2] == kept
