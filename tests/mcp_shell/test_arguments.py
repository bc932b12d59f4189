"""Arguments as MCP clients write them: null for unset ones, text for numbers and lists, additional fields."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client

import elytron
from elytron.api.line_tools import adds_only, line_tools
from elytron.registry import WIRE_OPERATIONS
from elytron_core.model import Value, model_schema
from elytron_mcp_shell.arguments import prepare_arguments
from elytron_mcp_shell.reference_tools import reference_tools
from elytron_mcp_shell.server import ERROR
from elytron_mcp_shell.stdio import mcp_server
from elytron_mcp_shell.tools import ToolSet, everyday_tools, mem0_tools

pytestmark = pytest.mark.anyio
ALL = frozenset(ToolSet)
MODELS: dict[str, type[Value]] = {
    **{operation.name: operation.request for operation in WIRE_OPERATIONS},
    **{tool.name: tool.request_type for tool in (*everyday_tools(), *mem0_tools(), *reference_tools(), *line_tools())},
}
TEXTS: dict[str, tuple[Any, Any]] = {
    "integer": ("5", 5),
    "number": ("0.5", 0.5),
    "boolean": ("True", True),
    "array": ("[]", []),
    "object": ("{}", {}),
}


@pytest.fixture
async def memory() -> Any:
    async with elytron.open("memory:", space="ada") as found:
        yield found


def fields_of(model: type[Value]) -> Iterator[tuple[str, dict[str, Any], bool]]:
    """Yield the fields of a tool, with the accepted forms of each and whether it is required."""
    described = model_schema(model)
    shared = described.get("$defs", {})
    schema = shared[described["$ref"].rpartition("/")[2]] if "$ref" in described else described
    for name, field in schema.get("properties", {}).items():
        yield name, field, name in schema.get("required", ())


def forms_of(field: dict[str, Any]) -> list[str]:
    return [form["type"] for form in field.get("anyOf", [field]) if "type" in form]


@pytest.mark.parametrize("name", MODELS)
def test_every_tool_accepts_null_for_optional_arguments(name: str) -> None:
    optional = [field for field, _, is_required in fields_of(MODELS[name]) if not is_required]
    prepared = prepare_arguments(dict.fromkeys(optional), MODELS[name], ignores_unknown=True)
    assert (prepared.arguments, prepared.ignored) == ({}, 0)


@pytest.mark.parametrize("name", MODELS)
def test_every_tool_accepts_numbers_booleans_lists_and_objects_as_text(name: str) -> None:
    for field, schema, _ in fields_of(MODELS[name]):
        forms = [form for form in forms_of(schema) if form != "null"]
        if len(forms) == 1 and forms[0] in TEXTS:
            text, value = TEXTS[forms[0]]
            assert prepare_arguments({field: text}, MODELS[name], ignores_unknown=True).arguments == {field: value}


@pytest.mark.parametrize("name", MODELS)
def test_valid_values_are_unchanged(name: str) -> None:
    for field, schema, _ in fields_of(MODELS[name]):
        for form in forms_of(schema):
            value = {"string": "[1]", **{kind: value for kind, (_, value) in TEXTS.items()}}.get(form)
            if value is not None:
                found = prepare_arguments({field: value}, MODELS[name], ignores_unknown=True).arguments
                assert found == {field: value}


@pytest.mark.parametrize(
    ("tool", "sent", "expected"),
    [
        ("search", {"query": "a", "limit": "5 "}, {"query": "a", "limit": 5}),
        ("search", {"query": "a", "limit": 5.0}, {"query": "a", "limit": 5}),
        ("search", {"query": "a", "limit": "5.0"}, {"query": "a", "limit": 5}),
        ("search", {"query": 5}, {"query": "5"}),
        ("add", {"text": "a", "tags": "x"}, {"text": "a", "tags": ["x"]}),
        ("add", {"text": "a", "tags": '["x", "y"]'}, {"text": "a", "tags": ["x", "y"]}),
        ("add", {"text": '["x"]', "tags": "[x"}, {"text": '["x"]', "tags": ["[x"]}),
        ("forget", {"ids": "a"}, {"ids": ["a"]}),
        ("recall", {"query": "a", "filters": '{"planes": "skills", "conversations": null}'},
         {"query": "a", "filters": {"planes": ["skills"]}}),
        ("create_entities", {"entities": {"name": "a", "entityType": "b", "observations": "c"}},
         {"entities": [{"name": "a", "entityType": "b", "observations": ["c"]}]}),
        ("write", {"write": '{"kind": "transcript", "turns": [{"messages": {"text": "a"}}]}'},
         {"write": {"kind": "transcript", "turns": [{"messages": [{"text": "a"}]}]}}),
    ],
)  # fmt: skip
def test_an_unambiguous_value_is_converted(tool: str, sent: dict[str, Any], expected: dict[str, Any]) -> None:
    assert prepare_arguments(sent, MODELS[tool], ignores_unknown=True).arguments == expected


class ChoosingTool(Value):
    """A tool whose fields accept several forms."""

    size: Literal["small", "large"] | tuple[int, ...] = "small"
    word: Literal["on"] | tuple[str, ...] = "on"
    names: tuple[str, ...] = ()
    parts: tuple["ChoosingTool", ...] = ()


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"size": "large"}, {"size": "large"}),
        ({"size": "5"}, {"size": [5]}),
        ({"size": 5}, {"size": 5}),
        ({"word": "on"}, {"word": "on"}),
        ({"word": "off"}, {"word": ["off"]}),
        ({"word": True}, {"word": True}),
        ({"names": 5.5}, {"names": 5.5}),
        ({"names": None, "parts": {"names": "x"}}, {"parts": [{"names": ["x"]}]}),
    ],
)  # fmt: skip
def test_the_matching_one_of_several_forms_is_used(sent: dict[str, Any], expected: dict[str, Any]) -> None:
    assert prepare_arguments(sent, ChoosingTool, ignores_unknown=True).arguments == expected


def test_deeply_nested_arguments_are_unchanged() -> None:
    sent: dict[str, Any] = {"names": "x"}
    for _ in range(40):
        sent = {"parts": [sent]}
    prepared = prepare_arguments(sent, ChoosingTool, ignores_unknown=True).arguments
    while "parts" in prepared:
        (prepared,) = prepared["parts"]
    assert prepared == {"names": "x"}


@pytest.mark.parametrize("limit", ["five", "5x", "", "1e400", [5], {}, True, 5.5])
async def test_values_that_do_not_fit_the_schema_are_rejected_by_field(
    memory: elytron.MemoryRuntime, limit: Any
) -> None:
    async with Client(mcp_server(memory)) as client:
        result = await client.call_tool("search", {"query": "a", "limit": limit})
    assert result.is_error
    assert (result.meta or {})[ERROR]["details"]["field"] == "limit"


async def test_a_null_query_is_rejected(memory: elytron.MemoryRuntime) -> None:
    async with Client(mcp_server(memory)) as client:
        result = await client.call_tool("search", {"query": None})
    assert (result.meta or {})[ERROR]["details"]["field"] == "query"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [("search", {"query": "a"}), ("add", {"text": "a"}), ("memory_recall", {"query": "a"}), ("get_memories", {})],
)
async def test_reading_and_adding_tools_ignore_and_report_unknown_fields(
    memory: elytron.MemoryRuntime, tool: str, arguments: dict[str, Any]
) -> None:
    async with Client(mcp_server(memory, sets=ALL)) as client:
        result = await client.call_tool(tool, {**arguments, "sessionId": "s3cret", "chatInput": "s3cret"})
    told = [part.text for part in result.content if part.type == "text"]
    assert not result.is_error
    assert told[-1].startswith("Ignored 2 unknown arguments: this tool accepts ")
    assert "s3cret" not in str(result)
    assert "sessionId" not in str(result)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("forget", {"ids": ["a"]}),
        ("memory_forget", {"ids": ["a"]}),
        ("memory_erase", {"ids": ["a"], "confirm": "erase"}),
        ("delete_memory", {"memory_id": "a"}),
        ("update_memory", {"memory_id": "a", "text": "b"}),
        ("delete_entities", {"entityNames": ["a"]}),
    ],
)
async def test_mutating_tools_reject_unknown_fields(
    memory: elytron.MemoryRuntime, tool: str, arguments: dict[str, Any]
) -> None:
    async with Client(mcp_server(memory, sets=ALL)) as client:
        result = await client.call_tool(tool, {**arguments, "only_if": "s3cret"})
    assert result.is_error
    assert (result.meta or {})[ERROR]["key"] == "invalid_input"
    assert "s3cret" not in str(result)


@pytest.mark.parametrize(
    "operation", [each for each in WIRE_OPERATIONS if each.grave is not None], ids=lambda o: o.name
)
def test_no_destructive_operation_ignores_a_field(operation: Any) -> None:
    assert not (operation.mutates and adds_only(operation))


async def test_a_destructive_value_as_text_needs_confirmation(memory: elytron.MemoryRuntime, tmp_path: Path) -> None:
    async with Client(mcp_server(memory, sets=ALL, is_operator=True)) as client:
        asked = {"path": str(tmp_path / "a.elytron"), "include_private": "true"}
        result = await client.call_tool("memory_export", asked)
    assert result.is_error
    assert list(tmp_path.iterdir()) == []


RUN = "from elytron_cli.main import run_command_line; run_command_line()"
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}


def piped(tmp_path: Path, *messages: dict[str, Any]) -> dict[Any, dict[str, Any]]:
    """Return a server's answers by id, when all messages are sent before its input ends."""
    sent = [
        {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        *({"jsonrpc": "2.0", **message} for message in messages),
    ]
    command = [sys.executable, "-c", RUN, "mcp", "--store", str(tmp_path / "m.db"), "--space", "s"]
    ended = subprocess.run(
        command,
        input="".join(f"{json.dumps(message)}\n" for message in sent).encode(),
        capture_output=True,
        check=True,
        env={**os.environ, "NO_COLOR": "1"},
    )
    answers = [json.loads(line) for line in ended.stdout.splitlines()]
    return {answer.get("id"): answer for answer in answers}


def test_calls_before_the_end_of_input_are_all_answered(tmp_path: Path) -> None:
    calls = [
        {"id": f"c{n}", "method": "tools/call", "params": {"name": "add", "arguments": {"text": f"note {n}"}}}
        for n in range(10)
    ]
    answers = piped(tmp_path, *calls, {"id": 99, "method": "no/such"})
    assert {*answers} == {0, 99, *(f"c{n}" for n in range(10))}
    assert all("stored" in str(answers[f"c{n}"]["result"]) for n in range(10))


def test_a_cancelled_call_does_not_delay_the_end(tmp_path: Path) -> None:
    call = {"id": 5, "method": "tools/call", "params": {"name": "add", "arguments": {"text": "a"}}}
    cancelled = {"method": "notifications/cancelled", "params": {"requestId": 5}}
    assert 0 in piped(tmp_path, call, cancelled)
