"""`elytron mcp`: a host's real client over stdin and stdout, and the configuration text for hosts."""

import asyncio
import json
import sys
import tomllib
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from tests.cli.conftest import CommandLine

import elytron as elytron_sdk
from elytron_assistants.hosts import HostName
from elytron_assistants.wiring.host_table import HOST_TABLE, KEY

RUN = "from elytron_cli.main import run_command_line; run_command_line()"


@pytest.mark.anyio
async def test_a_host_starts_the_command_and_has_the_tools_that_its_owner_chose(tmp_path: Path) -> None:
    options = ["--store", str(tmp_path / "m.db"), "--space", "ada", "--tools", "core", "--tools", "destructive"]
    command = StdioServerParameters(command=sys.executable, args=["-c", RUN, "mcp", *options, "--operator"])
    async with asyncio.timeout(100), Client(command) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"memory_add", "memory_recall", "memory_erase"} <= names
        stored = await client.call_tool("memory_add", {"text": "The boiler code is 4417."})
        assert stored.structured_content is not None
        erasing = {"ids": [stored.structured_content["decisions"][0]["id"]]}
        assert (await client.call_tool("memory_erase", erasing)).is_error
        assert not (await client.call_tool("memory_erase", {**erasing, "confirm": "erase"})).is_error
        assert not (await client.call_tool("memory_add", {"text": "The ferry leaves at six."})).is_error
    async with elytron_sdk.open(tmp_path / "m.db", space="ada") as memory:
        assert [hit.text for hit in (await memory.list()).items] == ["The ferry leaves at six."]


@pytest.mark.parametrize("host", list(HostName))
def test_every_host_gets_the_command_in_its_own_format(elytron: CommandLine, host: HostName) -> None:
    result = elytron("mcp", "config", "--host", host.value, "--space", "ada")
    assert HOST_TABLE[host].tools.file in result.stderr
    for word in ("elytron", "mcp", "--space", "ada", str(elytron.folder / "m.db")):
        assert word in result.stdout
    if host is HostName.CODEX:
        entry = tomllib.loads(result.stdout)["mcp_servers"]["elytron"]
        assert (Path(entry["command"]).name, entry["args"][0]) == ("elytron", "mcp")
        assert Path(entry["command"]).is_absolute()
    elif host is not HostName.CONTINUE:
        assert "elytron" in json.dumps(json.loads(result.stdout))


@pytest.mark.parametrize("host", [host for host in HostName if host is not HostName.CLAUDE_DESKTOP])
def test_every_host_gets_the_address_without_a_key(
    elytron: CommandLine, monkeypatch: pytest.MonkeyPatch, host: HostName
) -> None:
    monkeypatch.setenv(KEY, "ely_user_s3cret")
    result = elytron("mcp", "config", "--host", host.value, "--url", "https://memory.example/")
    assert "https://memory.example/mcp" in result.stdout
    assert KEY in result.stdout + result.stderr
    assert "s3cret" not in result.stdout + result.stderr


def test_opencode_gets_a_format_that_both_versions_read(elytron: CommandLine) -> None:
    started = json.loads(elytron("mcp", "config", "--host", "opencode").stdout)["mcp"]["elytron"]
    program, verb = started["command"][:2]
    assert (started["type"], Path(program).is_absolute(), verb) == ("local", True, "mcp")
    result = elytron("mcp", "config", "--host", "opencode", "--url", "https://memory.example")
    assert json.loads(result.stdout)["mcp"]["elytron"] == {
        "type": "remote",
        "url": "https://memory.example/mcp",
        "oauth": False,
        "headers": {"Authorization": f"Bearer {{env:{KEY}}}"},
        "enabled": True,
    }


def test_the_requested_tools_are_in_the_command(elytron: CommandLine) -> None:
    asked = ("--tools", "core", "--tools", "destructive")
    entry = json.loads(elytron("mcp", "config", "--host", "claude-code", *asked).stdout)["mcpServers"]["elytron"]
    assert entry["args"][:5] == ["mcp", *asked]
    assert "--tools" not in elytron("mcp", "config", "--host", "claude-code").stdout
    refused = elytron.error("mcp", "config", "--host", "cursor", "--url", "http://x", "--tools", "core", expect=2)
    assert "--mcp-tools" in refused["reason"]


def test_the_report_names_file_text_and_note(elytron: CommandLine) -> None:
    report = elytron.json("mcp", "config", "--host", "cursor", "--json", "--key-file", "k.json", "--embedder", "e")
    assert report["file"] == "~/.cursor/mcp.json"
    assert Path(json.loads(report["text"])["mcpServers"]["elytron"]["command"]).is_absolute()
    arguments = json.loads(report["text"])["mcpServers"]["elytron"]["args"]
    assert arguments[-4:] == ["--key-file", str(elytron.folder / "k.json"), "--embedder", "e"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--host", "claude-desktop", "--url", "http://localhost:8010"], 2),
        (["--host", "cursor", "--url", "ftp://x"], 2),
        (["--host", "cursor", "--url", "http://ada:s3cret@x"], 2),
        (["--host", "cursor", "--url", "http://[x"], 2),
        (["--host", "cursor", "--store", "memory:"], 2),
        (["--host", "emacs"], 2),
    ],
)
def test_options_a_host_cannot_use_are_refused(elytron: CommandLine, arguments: list[str], code: int) -> None:
    assert "s3cret" not in json.dumps(elytron.error("mcp", "config", *arguments, expect=code))
