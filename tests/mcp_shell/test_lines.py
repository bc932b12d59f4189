"""The default tools of a host: few, flat, and answered in short lines, each shown once."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import TextContent

import elytron
from elytron.api.line_tools import LINE_CHARS
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds
from elytron_mcp_shell import mcp_server
from elytron_mcp_shell.server import ERROR
from elytron_mcp_shell.tools import TOOLS_LISTED_CHARS

pytestmark = pytest.mark.anyio

ANSWERING: list[tuple[str, dict[str, str]]] = [("search", {"query": "crate"}), ("list_recent", {}), ("status", {})]
SEVEN = ["add", "search", "context", "remember_fact", "forget", "list_recent", "status"]


@pytest.fixture
async def memory() -> AsyncIterator[elytron.MemoryRuntime]:
    async with elytron.open("memory:", space="ada", clock=FrozenClock(step_ms=1), ids=SeededIds()) as runtime:
        yield runtime


async def answered(client: Client, name: str, /, **arguments: Any) -> str:
    """Return the text of a successful call, which is its whole answer."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, result.content
    assert result.structured_content is None
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


async def test_a_model_is_told_about_losses_until_an_operator_acknowledges_them(tmp_path: Path) -> None:
    file = tmp_path / "m.db"
    async with elytron.open(file, space="ada") as memory:
        await memory.add(["The red crate stands in hall 7.", "The blue crate stands in hall 8."])
    file.write_bytes(file.read_bytes().replace(b'"The red crate', b'"The rad crate'))
    async with elytron.open(file, space="ada") as memory, Client(mcp_server(memory)) as client:
        await memory.inspect(elytron.MemoryInspectionRequest(check=True, repair=True))
        answers = [await answered(client, name, **asked) for name, asked in ANSWERING]
        assert all(answer.startswith("Damage took memories") for answer in answers)
        await memory.inspect(acknowledge=True)
        answers = [await answered(client, name, **asked) for name, asked in ANSWERING]
        assert not any("Damage" in answer for answer in answers)


async def test_the_complete_tool_list_uses_few_tokens(memory: elytron.MemoryRuntime) -> None:
    async with Client(mcp_server(memory)) as client:
        listed = await client.list_tools()
    assert [tool.name for tool in listed.tools] == SEVEN
    assert len(listed.model_dump_json(by_alias=True, exclude_none=True)) < TOOLS_LISTED_CHARS
    assert all(tool.output_schema is None for tool in listed.tools)


async def test_each_memory_is_one_line_with_its_day_speaker_and_id(memory: elytron.MemoryRuntime) -> None:
    async with Client(mcp_server(memory)) as client:
        assert await answered(client, "search", query="boiler") == "Nothing has been stored here yet."
        assert await answered(client, "list_recent") == "Nothing is stored."
        kept = await answered(
            client, "add", text="The boiler\n[2020-01-01 Bob] code", speaker="Ada", conversation="home"
        )
        memory_id = kept.removeprefix("stored (").removesuffix(")")
        line = f"[2026-01-01 Ada] The boiler [2020-01-01 Bob] code ({memory_id})"
        assert await answered(client, "search", query="boiler code") == line
        assert (
            await answered(client, "search", query="boiler code", conversation="away") == "Nothing relevant is stored."
        )
        fact = await answered(client, "remember_fact", topic="boiler code", content="4417")
        assert fact.startswith("stored (")
        latest = (await answered(client, "list_recent", limit=2)).splitlines()
        assert [one.partition("] ")[2].rpartition(" (")[0] for one in latest] == [
            "4417",
            "The boiler [2020-01-01 Bob] code",
        ]
        assert await answered(client, "list_recent", conversation="home") == line
        assert "4417" in await answered(client, "context", query="boiler code", max_chars=2_000)
        status = await answered(client, "status")
        assert status.splitlines()[0] == "memories: 1 long_term, 1 transcript"
        assert "speakers: Ada" in status
        assert await answered(client, "forget", ids=[memory_id]) == f"changed ({memory_id})"
        assert line not in await answered(client, "list_recent")
        assert "no memory has this id" in await answered(client, "forget", ids=["nothing"])


async def test_unrelated_lines_are_omitted_and_doubt_comes_first(memory: elytron.MemoryRuntime) -> None:
    await memory.add("The boiler code is 4417.", speaker="Ada")
    await memory.add("We moved to Lisbon in May.", speaker="Ada")
    async with Client(mcp_server(memory)) as client:
        assert (await answered(client, "search", query="boiler code")).startswith("[")
        assert (await answered(client, "search", query="Which country did they visit?")).startswith("Uncertain")
        for query in ("who is the president of France?", "qwxz flurb"):
            assert await answered(client, "search", query=query) == "Nothing relevant is stored."


async def test_a_long_text_is_shortened_in_its_line(memory: elytron.MemoryRuntime) -> None:
    await memory.add("boiler " * 1_000)
    async with Client(mcp_server(memory)) as client:
        line = await answered(client, "search", query="boiler")
    assert "…" in line
    assert len(line) < LINE_CHARS + 200


async def test_an_invalid_call_of_a_line_tool_is_rejected_with_its_key(memory: elytron.MemoryRuntime) -> None:
    async with Client(mcp_server(memory)) as client:
        wrong: tuple[tuple[str, dict[str, Any]], ...] = (
            ("search", {"query": ""}),
            ("search", {"question": "s3cret"}),
            ("forget", {"ids": ["x"], "space": "bob"}),
            ("forget", {"ids": []}),
        )
        for name, arguments in wrong:
            result = await client.call_tool(name, arguments)
            assert (result.meta or {})[ERROR]["key"] == "invalid_input"
            assert "s3cret" not in str(result)


async def test_echoed_lines_are_not_stored(memory: elytron.MemoryRuntime) -> None:
    async with Client(mcp_server(memory)) as client:
        await answered(client, "add", text="The boiler code is 4417.", speaker="Ada")
        found = await answered(client, "search", query="boiler code")
        await answered(client, "add", text=f"{found}\n\nIs that right?", speaker="Ada")
    assert [item.text for item in (await memory.list()).items] == ["The boiler code is 4417.", "Is that right?"]
