"""Tools of MCP servers in an agent, with real servers in separate processes."""

import json
import sys
from pathlib import Path

import pytest
from tests.agent.chat_script import ScriptedChat, calls, heard, results, text

import elytron
from elytron_agent import Agent, AgentSettings, ApprovalRequest, McpToolServer, ToolAnswered, mcp_tools
from elytron_agent.loop.tools import mcp_server_of, mcp_servers_of
from elytron_core.errors import InvalidInput

pytestmark = pytest.mark.anyio
SCRIPT = str(Path(__file__).parent / "mcp_note_server.py")
NOTES = McpToolServer(name="notes", command=(sys.executable, SCRIPT))


async def test_an_agent_calls_mcp_tools_and_asks_before_those_that_write() -> None:
    requests: list[ApprovalRequest] = []

    async def approve(request: ApprovalRequest, /) -> bool:
        requests.append(request)
        return "tea" in request.arguments

    model = ScriptedChat(
        calls(("notes_read", {}), ("notes_write_note", {"text": "Buy tea."})),
        calls(("notes_write_note", {"text": "Buy rum."}), ("notes_write_note", {"tea": ""}), ("notes_read", {})),
        text("Done."),
    )
    async with (
        elytron.open("memory:", space="ada") as memory,
        mcp_tools([NOTES]) as tools,
        Agent(memory, model, tools, settings=AgentSettings(enabled=True), approve=approve) as agent,
    ):
        assert [(tool.name, tool.read_only, tool.is_outside) for tool in tools] == [
            ("notes_read", True, True),
            ("notes_write_note", False, True),
        ]
        assert (await agent.say("Note that I need tea.")).text == "Done."
    texts = results(model.last)
    assert any("The ferry leaves at six.\nBuy tea." in each for each in texts)
    assert not any("Buy rum." in each for each in texts)
    assert [request.tool for request in requests] == ["notes_write_note"] * 3
    assert requests[0].description == "Write a note."


async def test_server_failures_are_answers_to_the_model() -> None:
    model = ScriptedChat(calls(("notes_write_note", {"text": ""})), text("It failed."))
    async with (
        elytron.open("memory:", space="ada") as memory,
        mcp_tools([NOTES]) as tools,
        Agent(memory, model, tools, settings=AgentSettings(enabled=True)) as agent,
    ):
        (answered,) = [event for event in await heard(agent.run("Write.")) if isinstance(event, ToolAnswered)]
    assert answered.is_error
    assert "Error executing tool write.note" in answered.text


@pytest.mark.parametrize("command", [("no-such-command-anywhere",), (sys.executable, "-c", "")])
async def test_a_command_that_is_not_a_server_is_reported_by_name(command: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput, match="MCP server 'broken' did not answer like an MCP server"):
        async with mcp_tools([McpToolServer(name="broken", command=command)]):
            pytest.fail("it answered")


def test_a_server_is_written_as_a_command_or_a_url() -> None:
    assert mcp_server_of("files=npx -y 'a server' /tmp") == McpToolServer(
        name="files", command=("npx", "-y", "a server", "/tmp")
    )
    assert mcp_server_of("far=https://mcp.example/mcp?a=b").url == "https://mcp.example/mcp?a=b"
    for wrong in ("files", "files=", "=npx", "two words=npx", "files=npx 'a"):
        with pytest.raises(InvalidInput):
            mcp_server_of(wrong)


def test_servers_are_read_from_the_configuration_of_a_host() -> None:
    entries = {
        "files": {"type": "stdio", "command": "npx", "args": ["server"], "env": {"TOKEN": "t"}},
        "far": {"url": "https://mcp.example/mcp", "disabled": False},
    }
    assert mcp_servers_of(json.dumps({"mcpServers": entries, "theme": "dark"})) == (
        McpToolServer(name="files", command=("npx", "server"), env={"TOKEN": "t"}),
        McpToolServer(name="far", url="https://mcp.example/mcp"),
    )
    for wrong in ("{", "[]", "{}", '{"mcpServers": {"files": {}}}', '{"mcpServers": {"files": {"args": 7}}}'):
        with pytest.raises(InvalidInput):
            mcp_servers_of(wrong)
