"""A memory's tools as data for frameworks: formats, calls, and isolation between users."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

import elytron
from elytron import SyncMemoryRuntime
from elytron.api.model_tools import ToolFramework
from elytron_core.errors import InvalidInput, ScopeMissing

FORMS = {
    ToolFramework.OPENAI: {"type", "function"},
    ToolFramework.ANTHROPIC: {"name", "description", "input_schema"},
    ToolFramework.LANGCHAIN: {"name", "description", "args_schema"},
    ToolFramework.PYDANTIC_AI: {"name", "description", "json_schema"},
}
SCHEMAS = ("parameters", "input_schema", "args_schema", "json_schema")


@pytest.fixture
def memory() -> SyncMemoryRuntime:
    memory = elytron.open("memory:", space="ada").sync()
    memory.add("The boat key is under the oar.")
    return memory


@pytest.mark.parametrize("framework", ToolFramework)
def test_each_framework_gets_every_tool_in_its_format(memory: SyncMemoryRuntime, framework: ToolFramework) -> None:
    tools = memory.tools(framework)
    assert [set(tool) for tool in tools] == [FORMS[framework]] * len(tools.names)
    for tool in tools:
        parts = tool.get("function", tool)
        assert [parts[name]["type"] for name in SCHEMAS if name in parts] == ["object"]
    assert json.loads(json.dumps(list(tools))) == list(tools)


def test_a_call_accepts_a_mapping_or_json_and_answers_in_text(memory: SyncMemoryRuntime) -> None:
    tools = memory.tools()
    assert "under the oar" in tools.call("memory_search", {"query": "Where is the boat key?"})
    assert "under the oar" in tools.call("memory_search", '{"query": "Where is the boat key?"}')
    assert tools.call("memory_status", "").startswith("memories: 1 transcript")
    assert "memory_search" in repr(tools)


def test_a_tool_is_a_function_of_keywords(memory: SyncMemoryRuntime) -> None:
    add = memory.tools("langchain").function("memory_add")
    assert (add.__name__, add(text="The ferry leaves at six.").split()[0]) == ("memory_add", "stored")
    assert "ferry" in memory.tools().function("memory_search")(query="When does the ferry leave?")


@pytest.mark.anyio
async def test_the_tools_of_an_asyncio_memory_are_awaited() -> None:
    async with elytron.open("memory:", space="ada") as memory:
        tools = memory.tools("pydantic-ai")
        await tools.function("memory_add")(text="The boat key is under the oar.")
        assert "oar" in await tools.call("memory_search", {"query": "boat key"})
        with pytest.raises(InvalidInput, match="is no tool"):
            tools.function("memory_drop")


@pytest.mark.parametrize(
    ("name", "arguments", "problem"),
    [
        ("memory_drop", {}, "is no tool of this memory"),
        ("memory_search", {}, "query"),
        ("memory_search", "{", "cannot be parsed"),
        ("memory_search", "[]", "is not valid"),
        ("memory_search", {"query": "x", "space": "tomas"}, "space is not a field"),
        ("memory_search", {"query": "x", "limit": 100_000}, "limit"),
    ],
)
def test_unknown_tool_arguments_are_rejected(
    memory: SyncMemoryRuntime, name: str, arguments: Any, problem: str
) -> None:
    with pytest.raises(InvalidInput, match=problem):
        memory.tools().call(name, arguments)


def test_an_unknown_framework_is_rejected(memory: SyncMemoryRuntime) -> None:
    with pytest.raises(InvalidInput, match="framework must be one of openai, anthropic"):
        memory.tools("fortran")


def every_text(memory: SyncMemoryRuntime, ids: Sequence[str]) -> str:
    tools = memory.tools()
    calls: list[tuple[str, dict[str, Any]]] = [
        ("memory_search", {"query": "Where is the boat key?"}),
        ("memory_context", {"query": "Where is the boat key?"}),
        ("memory_list_recent", {}),
        ("memory_status", {}),
        ("memory_forget", {"ids": list(ids)}),
    ]
    return "\n".join(tools.call(name, arguments) for name, arguments in calls)


def test_tools_of_one_user_cannot_reach_another(tmp_path: Any) -> None:
    with elytron.open(tmp_path / "m.db", space="ada") as ada:
        ids = ada.add("The boat key is under the oar.").ids
    with elytron.open(tmp_path / "m.db", space="tomas") as tomas:
        texts = every_text(tomas, ids)
        assert "oar" not in texts
        assert "not_found" in texts
    with elytron.open(tmp_path / "m.db", space="ada") as ada:
        assert "oar" in ada.tools().call("memory_search", {"query": "boat key"})


def test_tools_of_a_memory_without_a_scope_do_nothing() -> None:
    memory = elytron.open("memory:", space=None).sync()
    with pytest.raises(ScopeMissing):
        memory.tools().call("memory_add", {"text": "x"})
