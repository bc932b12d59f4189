"""The SDK's client with the server: tools, resources, prompts, refusals, and isolation."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import TextContent, TextResourceContents

import elytron
from elytron.registry import WIRE_OPERATIONS, CallerRole
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds
from elytron_mcp_shell import ToolSet, mcp_server
from elytron_mcp_shell.server import ERROR

pytestmark = pytest.mark.anyio

CORE = frozenset({ToolSet.CORE})
EVERYDAY = {"memory_add", "memory_write_candidate"}
NINE = {
    "create_entities",
    "create_relations",
    "add_observations",
    "delete_entities",
    "delete_observations",
    "delete_relations",
    "read_graph",
    "search_nodes",
    "open_nodes",
}


@pytest.fixture
async def memory() -> AsyncIterator[elytron.MemoryRuntime]:
    async with elytron.open("memory:", space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds()) as runtime:
        yield runtime


async def called(client: Client, name: str, /, **arguments: Any) -> Any:
    """Return the structured answer of a successful call; its text is the same."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    (content,) = result.content
    assert isinstance(content, TextContent)
    assert json.loads(content.text) == result.structured_content
    return result.structured_content


async def test_added_memories_are_recalled_projected_and_read(memory: elytron.MemoryRuntime) -> None:
    async with Client(mcp_server(memory, sets=CORE)) as client:
        stored = await called(client, "memory_add", text="The boiler code is 4417.", speaker="Ada", conversation="home")
        memory_id = stored["decisions"][0]["id"]
        found = await called(client, "memory_recall", query="boiler code")
        assert [(hit["text"], hit["conversation"]) for hit in found["hits"]] == [("The boiler code is 4417.", "home")]
        block = await called(client, "memory_project", query="boiler code")
        assert "4417" in block["system_memory_block"]
        proposed = await called(client, "memory_write_candidate", topic="boiler code", content="4417")
        assert proposed["decisions"][0]["outcome"] == "stored"
        for uri in ("memory://inspection", "memory://facts", f"memory://memory/{quote(memory_id, safe='')}"):
            (content,) = (await client.read_resource(uri)).contents
            assert isinstance(content, TextResourceContents)
            assert json.loads(content.text)
        prompt = await client.get_prompt("memory_context", {"query": "boiler code"})
        assert isinstance(prompt.messages[0].content, TextContent)
        assert "4417" in prompt.messages[0].content.text


async def test_tools_describe_their_action_and_result(memory: elytron.MemoryRuntime) -> None:
    async with Client(mcp_server(memory, sets=CORE)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        seed = ("recall", "project", "inspect", "replay", "write_candidate", "capabilities")
        assert {f"memory_{name}" for name in seed} <= set(tools)
        assert tools["memory_recall"].annotations is not None
        assert tools["memory_recall"].annotations.read_only_hint is True
        forget = tools["memory_forget"].annotations
        assert forget is not None
        assert (forget.read_only_hint, forget.destructive_hint) == (False, True)
        assert all(tool.description and tool.output_schema for tool in tools.values())
        assert [str(one.uri) for one in (await client.list_resources()).resources] == [
            "memory://inspection",
            "memory://facts",
        ]
        assert (await client.list_resource_templates()).resource_templates[0].uri_template == "memory://memory/{id}"
        assert [prompt.name for prompt in (await client.list_prompts()).prompts] == ["memory_context"]


async def test_members_see_member_tools_and_operators_see_all(memory: elytron.MemoryRuntime) -> None:
    every = frozenset({ToolSet.ALL, ToolSet.DESTRUCTIVE})
    names: dict[bool, set[str]] = {}
    for is_operator in (False, True):
        async with Client(mcp_server(memory, sets=every, is_operator=is_operator)) as client:
            names[is_operator] = {tool.name for tool in (await client.list_tools()).tools}
    assert names[True] == {f"memory_{operation.name}" for operation in WIRE_OPERATIONS} | EVERYDAY
    assert names[True] - names[False] == {
        f"memory_{operation.name}" for operation in WIRE_OPERATIONS if operation.role is CallerRole.OPERATOR
    }


async def test_a_refusal_is_a_tool_answer_with_its_key_and_no_value(memory: elytron.MemoryRuntime) -> None:
    async with Client(mcp_server(memory, sets=CORE)) as client:
        for name, arguments, key in (
            ("memory_get", {"id": "s3cret"}, "not_found"),
            ("memory_recall", {"query": "x", "limit": 0}, "invalid_input"),
            ("memory_recall", {"s3cret": 1}, "invalid_input"),
            ("memory_recall", {"query": "x", "scope": {"space": "bob"}}, "permission_refused"),
            ("memory_add", {"text": ""}, "invalid_input"),
        ):
            result = await client.call_tool(name, arguments)
            assert result.is_error
            assert (result.meta or {})[ERROR]["key"] == key
            if key != "not_found":
                assert "s3cret" not in str(result)
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("memory_nonsense", {})
        for uri in ("memory://nonsense", "memory://memory/nothing"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
        with pytest.raises(MCPError, match="unknown prompt"):
            await client.get_prompt("nonsense", {})


GRAVE = {"erase", "export", "delete_runtime_skill", "delete_agent_tool_registry"}


@pytest.mark.parametrize("sets", [{ToolSet.CORE}, {ToolSet.ALL}, {ToolSet.CORE, ToolSet.ALL}])
async def test_destructive_and_exporting_tools_are_available_only_if_enabled(
    memory: elytron.MemoryRuntime, sets: set[ToolSet]
) -> None:
    stored = await memory.add("The boiler code is 4417.", conversation="home")
    async with Client(mcp_server(memory, sets=frozenset(sets), is_operator=True)) as client:
        shown = {tool.name for tool in (await client.list_tools()).tools}
        assert not shown & {f"memory_{name}" for name in GRAVE}
        with pytest.raises(MCPError, match="unknown tool"):
            await client.call_tool("memory_erase", {"ids": [stored.decisions[0].id], "confirm": "erase"})
        if ToolSet.ALL in sets:
            deleting = {"transition": "delete_raw", "conversation": "home", "confirm": "request_transcript_lifecycle"}
            refused = await client.call_tool("memory_request_transcript_lifecycle", deleting)
            assert (refused.meta or {})[ERROR]["key"] == "permission_refused"
            kept = await called(client, "memory_request_transcript_lifecycle", transition="review", conversation="home")
            assert kept["affected_turns"] == 1
        assert [item["text"] for item in (await called(client, "memory_list"))["items"]] == ["The boiler code is 4417."]


async def test_a_model_cannot_approve_pending_proposals(memory: elytron.MemoryRuntime) -> None:
    proposal = {"target": "long_term", "topic": "safe", "content": "It opens with 4417."}
    waiting = {"write": {"kind": "candidates", "candidates": [{"proposal": proposal, "authority": "user_asserted"}]}}
    for sets, key in (({ToolSet.ALL}, "permission_refused"), ({ToolSet.ALL, ToolSet.DESTRUCTIVE}, "invalid_input")):
        async with Client(mcp_server(memory, sets=frozenset(sets))) as client:
            await called(client, "memory_write", **waiting)
            (one,) = (await called(client, "memory_list_candidates"))["items"]
            refused = await client.call_tool("memory_resolve_candidate", {"id": one["id"], "resolution": "accept"})
            assert (refused.meta or {})[ERROR]["key"] == key
            asked = {"id": one["id"], "resolution": "accept", "dry_run": True}
            assert (await called(client, "memory_resolve_candidate", **asked))["changed"] is False
    async with Client(mcp_server(memory, sets=frozenset({ToolSet.ALL}))) as client:
        told = await called(client, "memory_resolve_candidate", id=one["id"], resolution="reject")
        assert told["state"] == "rejected"


async def test_a_destructive_call_acts_once_confirmed_and_a_dry_run_needs_none(
    memory: elytron.MemoryRuntime, tmp_path: Path
) -> None:
    sets = frozenset({ToolSet.CORE, ToolSet.DESTRUCTIVE})
    async with Client(mcp_server(memory, sets=sets, is_operator=True)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {f"memory_{name}" for name in GRAVE} < set(tools)
        assert tools["memory_erase"].input_schema["properties"]["confirm"]["const"] == "erase"
        assert "confirm" not in tools["memory_forget"].input_schema["properties"]
        stored = await called(client, "memory_add", text="The boiler code is 4417.", conversation="home")
        erasing = {"ids": [stored["decisions"][0]["id"]]}
        for confirm in ({}, {"confirm": True}, {"confirm": "export"}):
            refused = await client.call_tool("memory_erase", {**erasing, **confirm})
            assert (refused.meta or {})[ERROR]["details"]["field"] == "confirm"
        archive = str(tmp_path / "ada.elytron")
        refused = await client.call_tool("memory_export", {"path": archive})
        assert (refused.meta or {})[ERROR]["key"] == "invalid_input"
        whole = await client.call_tool("memory_export", {"path": archive, "include_private": True, "confirm": "export"})
        assert (whole.meta or {})[ERROR]["key"] == "permission_refused"
        exported = await called(client, "memory_export", path=archive, confirm="export")
        assert (exported["documents"], exported["redacted"]["turns"]) == ({}, 1)
        assert (await called(client, "memory_erase", **erasing, dry_run=True))["removed"]["turns"] == 1
        assert len((await called(client, "memory_list"))["items"]) == 1
        assert (await called(client, "memory_erase", **erasing, confirm="erase"))["changed"] is True
        assert (await called(client, "memory_list"))["items"] == []
        unknown = await client.call_tool("memory_forget", {**erasing, "confirm": "forget"})
        assert (unknown.meta or {})[ERROR]["key"] == "invalid_input"


async def test_the_same_idempotency_key_acts_once(memory: elytron.MemoryRuntime) -> None:
    async with Client(mcp_server(memory, sets=CORE)) as client:
        for _ in range(2):
            result = await client.call_tool("memory_add", {"text": "Only once."}, meta={"idempotency_key": "k"})
            assert not result.is_error
        assert len((await called(client, "memory_list"))["items"]) == 1


async def test_mem0s_tools_are_available_by_name(memory: elytron.MemoryRuntime) -> None:
    async with Client(mcp_server(memory, sets=frozenset({ToolSet.MEM0}))) as client:
        kept = await called(client, "add_memory", text="Ada likes green tea.")
        memory_id = kept["decisions"][0]["id"]
        assert (await called(client, "search_memories", query="green tea"))["hits"][0]["id"] == memory_id
        assert (await called(client, "get_memories", limit=10))["items"][0]["id"] == memory_id
        assert (await called(client, "get_memory", memory_id=memory_id))["text"] == "Ada likes green tea."
        assert (await called(client, "get_memory_history", memory_id=memory_id))["items"]
        assert (await called(client, "delete_memory", memory_id=memory_id))["changed"] is True
        refused = await client.call_tool("update_memory", {"memory_id": memory_id, "text": "x"})
        assert refused.is_error


async def test_the_reference_servers_nine_tools_keep_a_graph(memory: elytron.MemoryRuntime) -> None:
    async with Client(mcp_server(memory, sets=frozenset({ToolSet.REFERENCE}))) as client:
        assert {tool.name for tool in (await client.list_tools()).tools} == NINE
        ada = {"name": "Ada", "entityType": "person", "observations": ["likes green tea"]}
        boat: dict[str, Any] = {"name": "Seagull", "entityType": "boat", "observations": []}
        assert (await called(client, "create_entities", entities=[ada, boat]))["count"] == 3
        sails = {"from": "Ada", "to": "Seagull", "relationType": "sails"}
        assert (await called(client, "create_relations", relations=[sails]))["count"] == 1
        told = [{"entityName": "Seagull", "contents": ["moors at pier nine"]}]
        assert (await called(client, "add_observations", observations=told))["count"] == 1
        graph = await called(client, "read_graph")
        assert {one["name"]: (one["entityType"], one["observations"]) for one in graph["entities"]} == {
            "Ada": ("person", ["likes green tea"]),
            "Seagull": ("boat", ["moors at pier nine"]),
        }
        assert graph["relations"] == [sails]
        found = await called(client, "search_nodes", query="pier nine")
        assert [one["name"] for one in found["entities"]] == ["Seagull"]
        opened = await called(client, "open_nodes", names=["Ada"])
        assert [one["name"] for one in opened["entities"]] == ["Ada"]
        gone = [{"entityName": "Ada", "observations": ["likes green tea"]}]
        assert (await called(client, "delete_observations", deletions=gone))["count"] == 1
        assert (await called(client, "delete_relations", relations=[sails]))["count"] == 1
        assert (await called(client, "delete_entities", entityNames=["Seagull"]))["count"] == 2
        assert [one["name"] for one in (await called(client, "read_graph"))["entities"]] == ["Ada"]


@pytest.mark.parametrize("content", ["Ada sails the Seagull.", "[1, 2, 3]", '["Ada", "sails"]', '["", "a", "b"]'])
async def test_a_fact_that_is_not_a_relation_is_omitted_from_the_graph(
    memory: elytron.MemoryRuntime, content: str
) -> None:
    await memory.add_fact("relation/0", content)
    await memory.add_fact("harbour", "The harbour opens at six.")
    async with Client(mcp_server(memory, sets=frozenset({ToolSet.REFERENCE}))) as client:
        ada: dict[str, Any] = {"name": "Ada", "entityType": "person", "observations": []}
        assert (await called(client, "create_entities", entities=[ada]))["count"] == 1
        assert (await called(client, "read_graph"))["relations"] == []
        assert (await called(client, "open_nodes", names=["Ada"]))["relations"] == []
        assert (await called(client, "search_nodes", query="when does the harbour open?"))["entities"] == []
        assert (await called(client, "delete_entities", entityNames=["Ada"]))["count"] == 1


async def test_a_model_sees_private_memories_only_if_its_host_allows_it(memory: elytron.MemoryRuntime) -> None:
    draft = elytron.FactDraft.model_validate(
        {"topic": "scar", "content": "from the kiln", "privacy": "private", "authority": "user_asserted"}
    )
    write = elytron.LongTermExtraction(facts=(draft,))
    (fact,) = (await memory.write(elytron.MemoryWriteRequest(write=write))).ids
    every = frozenset({ToolSet.ALL})
    asking: tuple[tuple[str, dict[str, Any]], ...] = (
        ("memory_recall", {"query": "kiln", "include_private": True}),
        ("memory_list", {"include_private": True}),
        ("memory_get", {"id": fact, "include_private": True}),
        ("memory_history", {"id": fact, "include_private": True}),
        ("memory_list_candidates", {"include_private": True}),
        ("memory_list_facts", {"include_private": True}),
        ("memory_get_fact", {"id": fact, "include_private": True}),
        ("memory_project", {"query": "kiln", "private_context": "allowed"}),
        ("memory_read_garden", {"audience": "owner"}),
        ("memory_replay_transcript", {"view": "raw_owner_only"}),
    )
    async with Client(mcp_server(memory, sets=every)) as client:
        assert (await called(client, "memory_recall", query="kiln"))["hits"] == []
        for name, arguments in asking:
            result = await client.call_tool(name, arguments)
            assert result.is_error, name
            assert (result.meta or {})[ERROR]["key"] == "permission_refused"
    async with Client(mcp_server(memory, sets=every, is_private=True)) as client:
        for name, arguments in asking:
            await called(client, name, **arguments)
        found = await called(client, "memory_recall", query="kiln", include_private=True)
        assert [hit["id"] for hit in found["hits"]] == [fact]
