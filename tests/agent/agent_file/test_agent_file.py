"""Agent files: read, imported under governance, exported unchanged; and our own agents exported as files."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from tests.agent.chat_script import ScriptedChat, text
from tests.agent.places import EVERYWHERE, journal_beside

import elytron
from elytron.api import MemoryFace
from elytron_agent import (
    Agent,
    AgentFile,
    BlockDraft,
    BlockRepository,
    delete_agent,
    export_agent_file,
    import_agent_file,
    read_agent_file,
)
from elytron_agent.runs.journal import journal_of
from elytron_core.contracts.memories import MemoryEraseRequest
from elytron_core.contracts.records import RecordSearchRequest
from elytron_core.errors import ElytronError, InvalidInput, LimitExceeded, NotFound

pytestmark = pytest.mark.anyio
SAMPLES = Path(__file__).parent / "samples"
OUTSIDE = {"outside"}


def sample(name: str = "voyager") -> AgentFile:
    return read_agent_file((SAMPLES / f"{name}.af").read_bytes())


async def values(repository: BlockRepository) -> dict[str, str]:
    return {block.label: block.value for block in await repository.list()}


@pytest.mark.parametrize("name", ["voyager", "clio"])
async def test_a_file_round_trips_unchanged(memory: MemoryFace, name: str) -> None:
    file = sample(name)
    await import_agent_file(memory, file, name="one")
    again = await export_agent_file(memory, "one")
    assert again.document == file.document
    assert (await import_agent_file(memory, read_agent_file(again.text()), name="two")).blocks > 0
    assert (await export_agent_file(memory, "two")).document == file.document


async def test_imports_become_separate_blocks_and_text_from_outside(memory: MemoryFace) -> None:
    await BlockRepository(memory).create(BlockDraft(label="persona", value="I am shared."))
    report = await import_agent_file(memory, sample())
    assert (report.agents, report.blocks, report.messages, report.parts) == (
        ("Voyager", "Voyager/Voyager-sleeptime"),
        4,
        4,
        4,
    )
    assert await values(BlockRepository(memory)) == {"persona": "I am shared."}
    assert await values(BlockRepository(memory, agent="Voyager")) == {
        "persona": "I am Voyager. I plan journeys.",
        "human": "Ines likes ferries.",
    }
    (said,) = [hit for hit in (await memory.recall("ferry to Faial")).hits if "six" in hit.text]
    assert said.trust is not None
    assert {said.trust.value} == OUTSIDE
    assert (await memory.recall("where do we sleep?")).hits[0].text == "We sleep at Casa Branca."
    assert (await memory.list_facts()).items == ()


async def test_credentials_are_redacted_and_suspicious_blocks_omitted(memory: MemoryFace) -> None:
    file = sample()
    report = await import_agent_file(memory, file)
    assert report.redacted.keys() >= {"environment"}
    assert sum(report.redacted.values()) >= 7
    (left,) = report.left_out
    assert left.startswith("block 'rules': it looks like an injection")
    written = (await export_agent_file(memory, "Voyager")).text()
    for secret in ("hunter2", "sk-proj-Ab3d", '"TOKEN"', "abc"):
        assert secret not in written


async def test_a_files_instruction_is_a_proposal_and_never_used_in_a_run(memory: MemoryFace) -> None:
    report = await import_agent_file(memory, sample())
    assert report.system_prompt == "You plan journeys. You remember."
    model = ScriptedChat(text("Gladly."))
    agent = Agent(memory, model, name="Voyager", blocks=BlockRepository(memory, agent="Voyager"))
    await agent.say("Where do we sleep?")
    told = model.last.model_dump_json()
    assert "I am Voyager" in told
    assert "You plan journeys. You remember." not in told


async def test_an_interrupted_import_is_repeated_without_duplicates(memory: MemoryFace) -> None:
    first = await import_agent_file(memory, sample())
    again = await import_agent_file(memory, sample())
    assert (first.messages, again.messages, again.blocks) == (4, 0, 0)
    assert (await export_agent_file(memory, "Voyager")).document == sample().document


async def test_a_name_that_is_taken_is_refused(memory: MemoryFace) -> None:
    await import_agent_file(memory, sample(), name="taken")
    with pytest.raises(InvalidInput, match="another imported agent"):
        await import_agent_file(memory, sample("clio"), name="taken")
    await BlockRepository(memory, agent="mine").create(BlockDraft(label="persona", value="I am mine."))
    with pytest.raises(InvalidInput, match="agent with blocks"):
        await import_agent_file(memory, sample("clio"), name="mine")


@EVERYWHERE
async def test_later_changes_are_in_the_file(memory: MemoryFace) -> None:
    journal = journal_beside(memory)
    await import_agent_file(memory, sample(), journal=journal)
    repository = BlockRepository(memory, agent="Voyager")
    await repository.change("human", value="Ines likes trains and ferries.", limit=100, description="Who.")
    await repository.create(BlockDraft(label="trip", value="Faial in May"))
    agent = Agent(memory, ScriptedChat(text("The boat is blue.")), name="Voyager", blocks=repository, journal=journal)
    await agent.say("Which colour is the boat?")
    await repository.delete("persona")
    file = await export_agent_file(memory, "Voyager", journal=journal)
    blocks = {block["label"]: block for block in file.blocks}
    assert blocks.keys() == {"/human", "rules", "notes", "unused", "trip"}
    assert (blocks["/human"]["value"], blocks["/human"]["limit"]) == ("Ines likes trains and ferries.", 100)
    assert file.agents[0]["block_ids"] == ["block-1", "block-2", blocks["trip"]["id"]]
    assert [message["role"] for message in file.agents[0]["messages"]][6:] == ["user", "assistant"]
    assert len({message["id"] for message in file.agents[0]["messages"]}) == 8


async def test_erased_and_private_content_is_not_in_the_file(memory: MemoryFace) -> None:
    await import_agent_file(memory, sample())
    (hit,) = [hit for hit in (await memory.recall("ferry to Faial")).hits if "six" in hit.text]
    await memory.erase(MemoryEraseRequest(ids=(hit.id,)))
    await memory.add("I see a doctor.", conversation="Voyager", metadata={"private": True})
    written = (await export_agent_file(memory, "Voyager")).text()
    assert "leaves at six" not in written
    assert "doctor" not in written
    assert "I noted the ferry" in written


async def test_our_own_agent_is_exported_as_a_file(memory: MemoryFace) -> None:
    with pytest.raises(NotFound):
        await export_agent_file(memory, "main")
    agent = Agent(memory, ScriptedChat(text("I will.")))
    await agent.say("Remember the ferry.")
    file = await export_agent_file(memory, "main")
    assert [message["content"][0]["text"] for message in file.agents[0]["messages"]] == [
        "Remember the ferry.",
        "I will.",
    ]
    assert {block["label"] for block in file.blocks} == {"human", "persona"}
    report = await import_agent_file(memory, file, name="copy")
    assert (report.blocks, report.messages) == (2, 2)


@EVERYWHERE
async def test_a_deleted_agent_leaves_only_shared_blocks(memory: MemoryFace) -> None:
    journal = journal_beside(memory)
    await BlockRepository(memory).create(BlockDraft(label="human", value="Ines."))
    await import_agent_file(memory, sample(), journal=journal)
    agent = Agent(
        memory,
        ScriptedChat(text("Blue.")),
        name="Voyager",
        blocks=BlockRepository(memory, agent="Voyager"),
        journal=journal,
    )
    await agent.say("Which colour is the boat?")
    other = Agent(memory, ScriptedChat(text("Yes.")), name="other", journal=journal)
    await other.say("Is the harbour open?")
    told = await delete_agent(memory, "Voyager", journal=journal, dry_run=True)
    assert (await delete_agent(memory, "Voyager", journal=journal, reason="asked to")).records == told.records > 0
    with pytest.raises(NotFound):
        await delete_agent(memory, "Voyager", journal=journal)
    assert await values(BlockRepository(memory)) == {"human": "Ines.", "persona": "I am a helpful AI assistant."}
    assert await values(BlockRepository(memory, agent="Voyager")) == {}
    assert [hit.text for hit in (await memory.recall("colour of the boat")).hits if "boat" in hit.text] == []
    assert (await memory.recall("is the harbour open?")).hits[0].text == "Is the harbour open?"
    left = await memory.search_records(RecordSearchRequest(include_private=True, limit=1000))
    own = [each async for each in journal_of(memory, journal).below()]
    assert [item for item in (*left.items, *own) if "Voyager" in json.dumps([*item.namespace, item.value])] == []
    with pytest.raises(NotFound):
        await export_agent_file(memory, "Voyager", journal=journal)


async def test_a_large_message_is_stored_in_pieces_and_a_huge_one_as_text() -> None:
    document: dict[str, Any] = copy.deepcopy(sample().document)
    document["agents"][0]["messages"][1]["content"][0]["text"] = "word " * 40_000
    document["tools"][0]["source_code"] = "x" * 300_000
    file = read_agent_file(document)
    async with elytron.open("memory:", space="ada") as memory:
        report = await import_agent_file(memory, file)
        assert "tools 0: it is too large" in report.left_out
        written = await export_agent_file(memory, "Voyager")
        assert written.agents == file.agents
    document["agents"][0]["messages"][1]["content"][0]["text"] = "word " * 80_000
    document["agents"][0]["messages"][0]["content"][0]["text"] = "word " * 80_000
    async with elytron.open("memory:", space="ada") as memory:
        report = await import_agent_file(memory, read_agent_file(document))
        assert "message 0: it is too large" in report.left_out
        (made, *_) = (await export_agent_file(memory, "Voyager")).agents[0]["messages"]
        assert len(made["content"][0]["text"]) >= 399_000


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"no json", "is not JSON"),
        (b"[]", "not a JSON object"),
        (b'{"agents": [], "blocks": []}', "agents"),
        (b'{"agents": [{"id": "a", "block_ids": ["b"]}], "blocks": []}', "not in the file"),
    ],
)
def test_invalid_agent_files_are_rejected(content: bytes, error: str) -> None:
    with pytest.raises(ElytronError, match=error):
        read_agent_file(content)


def test_a_file_with_its_json_as_a_string_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = (SAMPLES / "voyager.af").read_text()
    assert read_agent_file(json.dumps(raw)).document == sample().document
    monkeypatch.setattr("elytron_agent.limits.FILE_BYTES", 100)
    with pytest.raises(LimitExceeded):
        read_agent_file(raw)


async def test_a_memory_without_a_space_is_refused() -> None:
    async with elytron.open("memory:", space=None) as memory:
        for call in (import_agent_file(memory, sample()), export_agent_file(memory, "x"), delete_agent(memory, "x")):
            with pytest.raises(InvalidInput):
                await call
