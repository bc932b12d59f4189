"""Learning rules and tombstones judge what a model writes into blocks, files, and entries, but not the host's text."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.agent.places import EVERYWHERE

from elytron import FactAction, FactChangeRequest, FactKind, LearningAction
from elytron.api import MemoryFace
from elytron_agent import (
    AgentMemoryView,
    BlockDraft,
    BlockRepository,
    BlockTools,
    CallKey,
    CuratedStrategy,
    MemoryFiles,
    Tool,
    ToolAnswer,
)
from elytron_agent.blocks.block_repository import learning_refusal
from elytron_core.contracts.records import RecordHistoryRequest
from elytron_core.policy.admission.learning_rules import FORGOTTEN_BEFORE, PAUSED, SUPPRESSED

pytestmark = pytest.mark.anyio

KEY = CallKey("r", 1, "c")
STOOD = "Ada sails. Ada drinks green tea."


def refused(reason: str) -> ToolAnswer:
    return ToolAnswer(text=f"The text cannot be learned: {reason}. Nothing was changed.", is_error=True)


async def human_of(memory: MemoryFace) -> tuple[BlockRepository, dict[str, Tool]]:
    """Return the repository with the block `human`, and the tools of a run by name."""
    repository = BlockRepository(memory)
    await repository.create(BlockDraft(label="human", value=STOOD))
    tools = BlockTools(AgentMemoryView.of(memory), seen=await repository.list()).tools
    return repository, {tool.name: tool for tool in tools}


async def forget_the_cellar(memory: MemoryFace) -> None:
    (fact,) = (await memory.add_fact("cellar", "The cellar code is marigold", kind=FactKind.FACT)).ids
    await memory.forget(fact)


@EVERYWHERE
async def test_each_rule_rejects_a_models_text_and_nothing_changes(memory: MemoryFace) -> None:
    repository, tools = await human_of(memory)
    append = tools["memory_append"]
    await memory.set_learning(LearningAction.SUPPRESS, "blood pressure")
    ill = {"block": "human", "content": "Called Ada.\n- Her blood pressure is 140."}
    assert await append.call(ill, KEY) == refused(SUPPRESSED)
    await forget_the_cellar(memory)
    code = {"block": "human", "content": "* the cellar code is  Marigold."}
    assert await append.call(code, KEY) == refused(FORGOTTEN_BEFORE)
    await memory.set_learning(LearningAction.PAUSE)
    cat = {"block": "human", "content": "Has a cat."}
    assert await append.call(cat, KEY) == refused(PAUSED)
    assert (await repository.read("human")).version == 1
    await memory.set_learning(LearningAction.RESUME)
    await memory.set_learning(LearningAction.ALLOW, "cellar")
    for given in (cat, code):
        assert not (await append.call(given, KEY._replace(call=given["content"]))).is_error


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("memory_replace", {"old": "green tea", "new": "white tea"}),
        ("memory_insert", {"content": "Ada has a teapot. Tea is hot.", "line": 0}),
        ("memory_rethink", {"content": "Ada likes tea"}),
    ],
)
async def test_every_block_tool_is_judged(memory: MemoryFace, tool: str, given: dict[str, object]) -> None:
    repository, tools = await human_of(memory)
    await memory.set_learning(LearningAction.SUPPRESS, "tea")
    assert await tools[tool].call({"block": "human", **given}, KEY) == refused(SUPPRESSED)
    assert (await repository.read("human")).value == STOOD


async def test_a_label_counts_as_a_keyword_and_the_resulting_text_is_judged(memory: MemoryFace) -> None:
    repository, tools = await human_of(memory)
    await repository.create(BlockDraft(label="health", value="The cellar code is [x]"))
    await memory.set_learning(LearningAction.SUPPRESS, "health")
    given = {"block": "health", "content": "140 over 90"}
    assert await tools["memory_append"].call(given, KEY) == refused(SUPPRESSED)
    await memory.set_learning(LearningAction.ALLOW, "health")
    await forget_the_cellar(memory)
    # Neither the new text nor the old one is what was forgotten, but both together are.
    pieced = {"block": "health", "old": "[x]", "new": "marigold"}
    assert await tools["memory_replace"].call(pieced, KEY) == refused(FORGOTTEN_BEFORE)


async def test_a_model_may_remove_whole_sentences_while_learning_is_paused(memory: MemoryFace) -> None:
    repository, tools = await human_of(memory)
    await memory.set_learning(LearningAction.PAUSE)
    given = {"block": "human", "old": " Ada drinks green tea.", "new": ""}
    assert not (await tools["memory_replace"].call(given, KEY)).is_error
    assert (await repository.read("human")).value == "Ada sails."


async def test_a_repeated_call_is_not_judged_again(memory: MemoryFace) -> None:
    repository, tools = await human_of(memory)
    given = {"block": "human", "content": "Has a cat."}
    first = await tools["memory_append"].call(given, KEY)
    await memory.set_learning(LearningAction.PAUSE)
    assert await tools["memory_append"].call(given, KEY) == first
    assert (await repository.read("human")).version == 2


async def test_the_host_is_not_judged_and_the_history_marks_tool_calls(memory: MemoryFace) -> None:
    repository, tools = await human_of(memory)
    await tools["memory_append"].call({"block": "human", "content": "Has a cat."}, KEY)
    await memory.set_learning(LearningAction.PAUSE)
    await repository.change("human", value="Has a dog.")
    await repository.edit("human", lambda text: f"{text} It barks.")
    await repository.create(BlockDraft(label="rules", value="Answer briefly."))
    assert (await repository.read("human")).value == "Has a dog. It barks."
    asked = RecordHistoryRequest(namespace=("blocks", "shared"), key="human")
    values: list[Any] = [version.value for version in (await memory.record_history(asked)).versions]
    assert [value.get("calls", []) for value in values] == [[], [str(KEY)], [str(KEY)], [str(KEY)]]


async def test_a_models_files_are_judged_but_moving_one_is_not(memory: MemoryFace) -> None:
    files = MemoryFiles(BlockRepository(memory))
    await files.create("/memories/a", "Tea is hot.\nEnd.")
    await memory.set_learning(LearningAction.SUPPRESS, "tea")
    assert await files.create("/memories/b", "More tea.") == refused(SUPPRESSED)
    assert await files.str_replace("/memories/a", "End.", "End of tea.") == refused(SUPPRESSED)
    assert await files.insert("/memories/a", 0, "First the tea.") == refused(SUPPRESSED)
    assert not (await files.rename("/memories/a", "/memories/c")).is_error


@pytest.mark.parametrize("has_files", [False, True])
async def test_curated_entries_are_judged(memory: MemoryFace, has_files: bool, tmp_path: Path) -> None:
    strategy = CuratedStrategy(memory, folder=tmp_path if has_files else None)
    (tool, *_) = (await strategy.before_run("c", "Hello.")).tools
    await tool.call({"action": "add", "content": "Has a cat."}, KEY)
    await memory.set_learning(LearningAction.SUPPRESS, "tea")
    told = await tool.call({"action": "add", "content": "Likes tea."}, KEY._replace(call="d"))
    assert (told.is_error, json.loads(told.text)["error"]) == (True, refused(SUPPRESSED).text)
    assert not (await tool.call({"action": "remove", "old_text": "cat"}, KEY._replace(call="e"))).is_error


async def test_a_stored_fact_does_not_exempt_a_text_from_judgement(memory: MemoryFace) -> None:
    (fact,) = (await memory.add_fact("elytronprompttext", "Ada likes rye")).ids
    await memory.change_fact(FactChangeRequest(id=fact, action=FactAction.MARK_STALE))
    await memory.set_learning(LearningAction.SUPPRESS, "tea")
    # More sentences than fit into one write are judged too.
    long = "\n".join(f"Line {number}." for number in range(600))
    assert await learning_refusal(memory, "", long) is None
    assert SUPPRESSED in (await learning_refusal(memory, "", f"{long}\nTea.") or "")
