"""Core blocks: bounded, versioned, shared or private to an agent (S14)."""

from typing import Any

import pytest
from tests.agent.places import EVERYWHERE

import elytron
from elytron.api import MemoryFace
from elytron_agent import BlockDraft, BlockRepository, limits
from elytron_agent.blocks.block_repository import DEFAULTS, append_text, insert_text, replace_text
from elytron_core.errors import InvalidInput, LimitExceeded, NotFound, PermissionRefused, PreconditionFailed

pytestmark = pytest.mark.anyio


async def test_an_agent_starts_with_a_persona_and_an_empty_human_block(memory: MemoryFace) -> None:
    repository = BlockRepository(memory)
    await repository.create_missing()
    await repository.create_missing()
    human, persona = await repository.list()
    assert (human.label, human.value, human.limit, human.version) == ("human", "", 20_000, 1)
    assert (persona.label, persona.value) == ("persona", "I am a helpful AI assistant.")
    assert persona.description == DEFAULTS[0].description


@EVERYWHERE
async def test_an_edit_is_stored_as_a_version_and_a_stale_edit_is_refused(memory: MemoryFace) -> None:
    repository = BlockRepository(memory)
    made = await repository.create(BlockDraft(label="human", value="Name: Ada"))
    edited = await repository.edit("human", lambda text: text + " L.", expected_version=made.version)
    assert (edited.value, edited.version) == ("Name: Ada L.", 2)
    with pytest.raises(PreconditionFailed):
        await repository.edit("human", lambda text: text + "!", expected_version=made.version)
    assert (await repository.read("human")).value == "Name: Ada L."


async def test_a_repeated_call_edits_once(memory: MemoryFace) -> None:
    repository = BlockRepository(memory)
    await repository.create(BlockDraft(label="human"))
    for _ in range(2):
        await repository.edit("human", lambda text: append_text(text, "Likes tea."), call="r/1/c")
    block = await repository.read("human")
    assert (block.value, block.version) == ("Likes tea.", 2)


async def test_blocks_belong_to_a_space_or_to_one_agent(memory: MemoryFace) -> None:
    shared, own = BlockRepository(memory), BlockRepository(memory, agent="helper")
    await shared.create_missing()
    await own.create(BlockDraft(label="persona", value="I count."))
    assert [block.value for block in await own.list()] == ["I count."]
    assert (await shared.read("persona")).value == "I am a helpful AI assistant."
    assert [block.label for block in await BlockRepository(memory, agent="other").list()] == []
    mixed = BlockRepository(memory, agent="helper", shared=("human",))
    assert [(block.label, block.agent) for block in await mixed.list()] == [("human", None), ("persona", "helper")]
    await mixed.edit("human", lambda _text: "Name: Ada")
    assert (await shared.read("human")).value == "Name: Ada"


async def test_a_block_respects_its_limit_and_a_read_only_block_keeps_its_text(memory: MemoryFace) -> None:
    repository = BlockRepository(memory)
    await repository.create(BlockDraft(label="small", limit=5))
    with pytest.raises(LimitExceeded, match="at most 5"):
        await repository.edit("small", lambda _text: "123456")
    with pytest.raises(LimitExceeded, match="at most 20000"):
        await repository.create(BlockDraft(label="large", value="x" * 20_001))
    await repository.change("small", read_only=True, description="Fixed.")
    with pytest.raises(PermissionRefused, match="read-only"):
        await repository.edit("small", lambda _text: "1")
    with pytest.raises(PermissionRefused):
        await repository.delete("small")
    settled = await repository.change("small", value="12345", read_only=False)
    assert (settled.value, settled.description, settled.read_only) == ("12345", "Fixed.", False)
    with pytest.raises(PreconditionFailed):
        await repository.change("small", value="1", expected_version=1)
    assert await repository.delete("small")
    assert not await repository.delete("small")
    with pytest.raises(NotFound):
        await repository.read("small")


async def test_a_duplicate_label_and_a_block_beyond_the_limit_are_refused() -> None:
    async with elytron.open("memory:") as memory:
        repository = BlockRepository(memory)
        for number in range(limits.BLOCKS):
            await repository.create(BlockDraft(label=f"b{number}"))
        with pytest.raises(LimitExceeded, match="blocks"):
            await repository.create(BlockDraft(label="more"))
        with pytest.raises(PreconditionFailed):
            await repository.create(BlockDraft(label="b1"))
        await repository.create_missing([BlockDraft(label="b1"), BlockDraft(label="b2")])
        await repository.delete("b0")
        with pytest.raises(PreconditionFailed):
            await repository.create(BlockDraft(label="b1"))


@pytest.mark.parametrize(
    "wrong", [{"label": ""}, {"label": "a//b"}, {"label": "a/../b"}, {"label": "a\n"}, {"label": "a", "limit": 50_001}]
)
def test_invalid_drafts_are_rejected_by_field(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=r"label|limit"):
        BlockDraft(**wrong)


@EVERYWHERE
async def test_an_invalid_label_names_no_block(memory: MemoryFace) -> None:
    with pytest.raises(NotFound):
        await BlockRepository(memory).read("a\n")


def test_edits_are_pure() -> None:
    assert replace_text("tea, tea", "tea", "rye") == "rye, rye"
    assert append_text("", "a") == "a"
    assert append_text("a\n", "b") == "a\nb"
    assert insert_text("a\nb", "x", 1) == "a\nx\nb"
    assert insert_text("a\nb", "x", 0) == "x\na\nb"
    assert insert_text("a\nb", "x", -1) == "a\nb\nx"
    assert insert_text("", "x", -1) == "x"
    for wrong in (-2, 3):
        with pytest.raises(InvalidInput, match="between 0 and 2"):
            insert_text("a\nb", "x", wrong)
    with pytest.raises(InvalidInput, match="is not in the block"):
        replace_text("tea", "", "x")
