"""Write the hosts' plugins and extensions from the table.

    python -m elytron_assistants.wiring.plugins plugin

The plugins call the program `elytron`, which has to be installed and on the search path.
"""

import json
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Final

from elytron_assistants.hosts import HostName
from elytron_assistants.wiring.host_table import HOST_TABLE, SERVER_NAME, WIRED_HOSTS, host_events, timeout_s
from elytron_assistants.wiring.wiring_files import SKILL, WiringChoice, module_text, packaged_text, slash_command_text
from elytron_core.strict_json import Json

_CHOICE: Final = WiringChoice("elytron", ("--per-repository",), {}, "linux", is_resident=True)
_DESCRIPTION: Final = "Long-term memory for coding assistants: recalled at each prompt, stored after each turn."
_AUTHOR: Final[Json] = {"name": "Elytron contributors"}
_CATEGORY: Final = "Productivity"
_REGISTRY_NAME: Final = "io.github.elytron/elytron"
_REGISTRY_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"
_READ_ME: Final = """# Elytron in coding assistants

Plugins and extensions, all with the same version and generated from one table: do not edit them by hand. Each requires
the program `elytron` with the extra `mcp` on the search path. `elytron install` does the same without a plugin.

| folder | for |
|---|---|
"""


def plugin_files(release: str, /) -> dict[str, str]:
    """Return the plugin folder's files by path, for a release of the package."""
    files = {"README.md": _read_me()}
    for path, content in _manifest_files(release):
        files[path] = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    for host in (*WIRED_HOSTS, "agent-plugin"):
        if host not in {HostName.COPILOT, HostName.VSCODE}:
            files[f"{host}/skills/{SKILL}/SKILL.md"] = packaged_text("skill.md")
    files["claude-code/commands/elytron.md"] = slash_command_text(_CHOICE)
    files["opencode/elytron.js"] = module_text(HostName.OPENCODE, _CHOICE)
    return dict(sorted(files.items()))


def write_plugins(folder: Path, release: str, /) -> None:
    """Write the plugin folder and delete any other file in it."""
    files = plugin_files(release)
    for path in folder.rglob("*"):
        if path.is_file() and path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, "utf-8")


def _read_me() -> str:
    rows = [f"| `{host}` | {HOST_TABLE[host].title} |" for host in WIRED_HOSTS]
    other_rows = [
        "| `agent-plugin` | any client that reads Agent Plugins |",
        "| `server.json` | registries of MCP servers |",
    ]
    return _READ_ME + "\n".join((*rows, *other_rows)) + "\n"


def _manifest_files(release: str) -> Iterator[tuple[str, Json]]:
    """Yield the JSON files by path."""
    about: dict[str, Json] = {"name": SERVER_NAME, "version": release, "description": _DESCRIPTION}
    manifest: dict[str, Json] = {**about, "author": _AUTHOR, "license": "Apache-2.0", "keywords": ["memory", "mcp"]}
    paths: dict[str, Json] = {"skills": "./skills/", "hooks": "./hooks/hooks.json"}
    interface: Json = {"displayName": "Elytron", "shortDescription": _DESCRIPTION, "category": _CATEGORY}
    listing: dict[str, Json] = {"name": SERVER_NAME, "description": _DESCRIPTION}
    marketplace: dict[str, Json] = {"name": SERVER_NAME, "owner": _AUTHOR}

    yield ".claude-plugin/marketplace.json", {**marketplace, "plugins": [{**listing, "source": "./claude-code"}]}
    yield "claude-code/.claude-plugin/plugin.json", manifest
    yield "claude-code/hooks/hooks.json", _hooks_of(HostName.CLAUDE_CODE)
    yield "claude-code/.mcp.json", _tools_of(HostName.CLAUDE_CODE)

    source: Json = {"source": "local", "path": "./codex"}
    terms: Json = {"installation": "AVAILABLE", "authentication": "ON_INSTALL"}
    entry: Json = {"name": SERVER_NAME, "source": source, "policy": terms, "category": _CATEGORY}
    shop_interface: Json = {"displayName": "Elytron"}
    yield ".agents/plugins/marketplace.json", {"name": SERVER_NAME, "interface": shop_interface, "plugins": [entry]}
    yield "codex/.codex-plugin/plugin.json", {**manifest, **paths, "mcpServers": "./.mcp.json", "interface": interface}
    yield "codex/hooks/hooks.json", _hooks_of(HostName.CODEX)
    # Codex plugins use the same JSON format as Claude Code.
    yield "codex/.mcp.json", _tools_of(HostName.CLAUDE_CODE)

    yield ".cursor-plugin/marketplace.json", {**marketplace, "plugins": [{**listing, "source": "./cursor"}]}
    yield "cursor/.cursor-plugin/plugin.json", {**manifest, **paths, "mcpServers": "./mcp.json"}
    yield "cursor/hooks/hooks.json", _hooks_of(HostName.CURSOR)
    yield "cursor/mcp.json", _tools_of(HostName.CURSOR)

    yield "gemini/gemini-extension.json", {**about, **_tools_of(HostName.GEMINI)}
    yield "gemini/hooks/hooks.json", _hooks_of(HostName.GEMINI)

    yield "opencode/package.json", {**manifest, "name": "opencode-elytron", "type": "module", "main": "elytron.js"}
    yield "copilot/hooks/elytron.json", _hooks_of(HostName.COPILOT)
    yield "copilot/mcp-config.json", _tools_of(HostName.COPILOT)
    yield "vscode/hooks/elytron-vscode.json", _hooks_of(HostName.VSCODE)
    yield "vscode/mcp.json", _tools_of(HostName.VSCODE)

    server: Json = {"type": "stdio", "command": "elytron", "args": ["mcp", "--per-repository"]}
    yield "agent-plugin/plugin.json", {**manifest, "extensions": {}}
    yield "agent-plugin/mcp.json", {"mcpServers": {SERVER_NAME: server}}
    package: Json = {
        "registryType": "pypi",
        "identifier": "elytron",
        "version": release,
        "runtimeHint": "uvx",
        "runtimeArguments": [{"type": "named", "name": "--from", "value": "elytron[mcp]"}],
        "transport": {"type": "stdio"},
        "packageArguments": [{"type": "positional", "value": "mcp"}],
    }
    registration: dict[str, Json] = {
        "$schema": _REGISTRY_SCHEMA,
        **about,
        "name": _REGISTRY_NAME,
        "packages": [package],
    }
    yield "server.json", registration


def _hooks_of(host: HostName) -> dict[str, Json]:
    wiring = WIRED_HOSTS[host]
    assert wiring.item is not None

    hooks: Json = {
        event: [wiring.item(_CHOICE.hook_line(host, kind), timeout_s(kind))]
        for kind, event in host_events(host).items()
    }
    return {"version": 1, "hooks": hooks} if wiring.is_versioned else {"hooks": hooks}


def _tools_of(host: HostName) -> dict[str, Json]:
    tools_form = HOST_TABLE[host].tools
    servers: Json = {SERVER_NAME: tools_form.local(["elytron", "mcp", *_CHOICE.options])}
    return {tools_form.path[0]: servers}


if __name__ == "__main__":
    write_plugins(Path(sys.argv[1]), version("elytron"))
