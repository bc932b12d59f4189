"""The table of hosts: where each keeps its settings, how its entries look, and what runs at its events.

`elytron install`, `uninstall`, `doctor`, `mcp config` and the plugin folder are generated from these rows.
"""

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

from elytron_assistants.hooks.events import HOSTS, HookKind
from elytron_assistants.hosts import HostName
from elytron_core.strict_json import Json

KEY: Final = "ELYTRON_API_KEY"
"""The environment variable with the access key. The key itself is never printed or written."""
SERVER_NAME: Final = "elytron"
"""Name of the MCP server in every host."""


class SettingsStyle(StrEnum):
    """Format of a settings file."""

    JSON = "json"
    TOML = "toml"
    YAML = "yaml"


@dataclass(frozen=True, slots=True)
class ToolsForm:
    """The MCP server's entry in a host's settings: the file it goes into, and its content."""

    file: str
    local: Callable[[Sequence[str]], Json]
    """Return the entry that starts a command."""
    remote: Callable[[str], Json] | None
    """Return the entry for a URL; None if the host can only start commands."""
    path: tuple[str, ...] = ("mcpServers",)
    style: SettingsStyle = SettingsStyle.JSON
    prompt: Json = None
    """Item of `inputs` that makes the host prompt for the access key."""
    note: str = "add this to the existing settings"
    remote_note: str = f"set {KEY} in the host's environment"


HookItem = Callable[[str, int], dict[str, Json]]
"""Return the item in an event's list for a command line and its timeout in seconds."""


@dataclass(frozen=True, slots=True)
class HostWiring:
    """Where `elytron install` writes, per user and per project. Names in braces are keys of `host_folders`."""

    programs: tuple[str, ...]
    folder: str
    """The host counts as installed if one of its programs is found or this folder exists."""
    tools_user: tuple[str, ...]
    """Candidate files: the first one that exists is used, otherwise the first."""
    tools_project: tuple[str, ...]
    hooks_user: str
    hooks_project: str
    item: HookItem | None = None
    """None for a host whose hooks are a JavaScript module."""
    is_versioned: bool = False
    """True if a hooks file begins with `"version": 1`."""
    skills: str = ""
    """Folder of the user's skills."""
    commands: str = ""
    """Folder of the user's slash commands."""
    has_status_line: bool = False
    todo: str = ""
    """What the user still has to do in the host."""


@dataclass(frozen=True, slots=True)
class HostRow:
    """A host: its title, its MCP entry, and its wiring if `elytron install` supports it."""

    title: str
    tools: ToolsForm
    wiring: HostWiring | None = None


def host_folders(environment: Mapping[str, str], home: Path, platform: str, /) -> dict[str, Path]:
    """Return the hosts' folders for a home folder, taking overriding variables in `environment` into account."""

    def folder_of(variable: str, usual: Path) -> Path:
        path = environment.get(variable, "")
        return Path(path).expanduser() if path else usual

    config = folder_of("XDG_CONFIG_HOME", home / ".config")
    match platform:
        case "win32":
            editors_folder = folder_of("APPDATA", home / "AppData" / "Roaming")
        case "darwin":
            editors_folder = home / "Library" / "Application Support"
        case _:
            editors_folder = config
    return {
        "claude": folder_of("CLAUDE_CONFIG_DIR", home / ".claude"),
        "claude_root": folder_of("CLAUDE_CONFIG_DIR", home),
        "codex": folder_of("CODEX_HOME", home / ".codex"),
        "copilot": folder_of("COPILOT_HOME", home / ".copilot"),
        "cursor": folder_of("CURSOR_CONFIG_DIR", home / ".cursor"),
        "gemini": folder_of("GEMINI_CLI_HOME", home) / ".gemini",
        # OpenCode uses the Linux folders on every platform.
        "opencode": config / "opencode",
        "vscode": editors_folder / "Code" / "User",
    }


def command_line(words: Sequence[str], platform: str, /) -> str:
    """Quote `words` as one line for a platform's shells. On Windows, both `cmd` and Bash can read it."""
    if platform != "win32":
        return shlex.join(words)
    plain_words = (word.replace("\\", "/") if position == 0 else word for position, word in enumerate(words))
    return " ".join(
        f'"{word}"' if position == 0 or not word or " " in word else word for position, word in enumerate(plain_words)
    )


def _group_item(command: str, timeout_s: int) -> dict[str, Json]:
    return {"hooks": [{"type": "command", "command": command, "timeout": timeout_s}]}


def _gemini_item(command: str, timeout_s: int) -> dict[str, Json]:
    # Gemini is the only host with a timeout in milliseconds.
    hook: Json = {"name": SERVER_NAME, "type": "command", "command": command, "timeout": timeout_s * 1_000}
    return {"hooks": [hook]}


def _flat_item(command: str, timeout_s: int) -> dict[str, Json]:
    return {"command": command, "timeout": timeout_s}


def _typed_item(command: str, timeout_s: int) -> dict[str, Json]:
    return {"type": "command", "command": command, "timeout": timeout_s}


def _shells_item(command: str, timeout_s: int) -> dict[str, Json]:
    return {"type": "command", "bash": command, "powershell": f"& {command}", "timeoutSec": timeout_s}


def _split_command(command: Sequence[str], **more: Json) -> Json:
    return {**more, "command": command[0], "args": list(command[1:])}


def _bearer_header(variable: str) -> Json:
    return {"Authorization": f"Bearer {variable}"}


def quoted_text(value: Json, /) -> str:
    """Quote strings so that JSON, TOML and YAML all read them."""
    return json.dumps(value, ensure_ascii=False)


_ASKED_KEY: Json = {
    "type": "promptString",
    "id": "elytron-key",
    "description": f"Elytron access key ({KEY})",
    "password": True,
}
_UNREAD_VARIABLE: Final = f"replace the placeholder with the value of {KEY}: the host does not read variables there"
_RESTART: Final = "restart it or open a new session"

# fmt: off
HOST_TABLE: Final[Mapping[HostName, HostRow]] = {
    HostName.CLAUDE_CODE: HostRow(
        "Claude Code",
        ToolsForm(
            ".mcp.json", _split_command,
            lambda url: {"type": "http", "url": url, "headers": _bearer_header(f"${{{KEY}}}")},
        ),
        HostWiring(
            programs=("claude",), folder="{claude}", has_status_line=True,
            skills="{claude}/skills", commands="{claude}/commands",
            tools_user=("{claude_root}/.claude.json",), tools_project=(".mcp.json",),
            hooks_user="{claude}/settings.json", hooks_project=".claude/settings.local.json", item=_group_item,
            todo="open a new session",
        ),
    ),
    HostName.CLAUDE_DESKTOP: HostRow(
        "Claude Desktop",
        ToolsForm(
            "claude_desktop_config.json", _split_command, None,
            note="add this to the existing settings (Settings, Developer, Edit Config) and restart the program",
        ),
    ),
    HostName.CLINE: HostRow(
        "Cline",
        ToolsForm(
            "cline_mcp_settings.json", _split_command,
            lambda url: {"type": "streamableHttp", "url": url, "headers": _bearer_header(f"<{KEY}>")},
            remote_note=_UNREAD_VARIABLE,
        ),
    ),
    HostName.CODEX: HostRow(
        "Codex CLI",
        ToolsForm(
            "~/.codex/config.toml", _split_command, lambda url: {"url": url, "bearer_token_env_var": KEY},
            path=("mcp_servers",), style=SettingsStyle.TOML,
        ),
        HostWiring(
            programs=("codex",), folder="{codex}", skills="{codex}/skills",
            tools_user=("{codex}/config.toml",), tools_project=(".codex/config.toml",),
            hooks_user="{codex}/hooks.json", hooks_project=".codex/hooks.json", item=_group_item,
            todo="run `/hooks` in Codex and trust the new hooks: until then Codex skips them without a message",
        ),
    ),
    HostName.CONTINUE: HostRow(
        "Continue",
        ToolsForm(
            ".continue/mcpServers/elytron.yaml", _split_command,
            lambda url: {
                "type": "streamable-http", "url": url,
                "requestOptions": {"headers": _bearer_header(f"${{{{ secrets.{KEY} }}}}")},
            },
            style=SettingsStyle.YAML, note="this is the whole file", remote_note=f"store the key as the secret {KEY}",
        ),
    ),
    HostName.COPILOT: HostRow(
        "Copilot CLI",
        ToolsForm(
            "~/.copilot/mcp-config.json", lambda command: _split_command(command, type="local", tools=["*"]),
            lambda url: {"type": "http", "url": url, "headers": _bearer_header(f"${{{KEY}}}"), "tools": ["*"]},
        ),
        HostWiring(
            programs=("copilot",), folder="{copilot}", skills="{copilot}/skills",
            tools_user=("{copilot}/mcp-config.json",), tools_project=(),
            hooks_user="{copilot}/hooks/elytron.json", hooks_project=".github/hooks/elytron.json",
            item=_shells_item, is_versioned=True, todo=_RESTART,
        ),
    ),
    HostName.CURSOR: HostRow(
        "Cursor",
        ToolsForm(
            "~/.cursor/mcp.json", _split_command,
            lambda url: {"url": url, "headers": _bearer_header(f"${{env:{KEY}}}")},
        ),
        HostWiring(
            programs=("cursor", "cursor-agent"), folder="{cursor}",
            tools_user=("{cursor}/mcp.json",), tools_project=(".cursor/mcp.json",),
            hooks_user="{cursor}/hooks.json", hooks_project=".cursor/hooks.json",
            item=_flat_item, is_versioned=True,
            todo="enable the server `elytron` in Settings, MCP, and restart Cursor",
        ),
    ),
    HostName.GEMINI: HostRow(
        "Gemini CLI",
        ToolsForm(
            "~/.gemini/settings.json", _split_command,
            lambda url: {"httpUrl": url, "headers": _bearer_header(f"${{{KEY}}}")},
        ),
        HostWiring(
            programs=("gemini",), folder="{gemini}", skills="{gemini}/skills",
            tools_user=("{gemini}/settings.json",), tools_project=(".gemini/settings.json",),
            hooks_user="{gemini}/settings.json", hooks_project=".gemini/settings.json", item=_gemini_item,
            todo=_RESTART,
        ),
    ),
    HostName.OPENCODE: HostRow(
        "OpenCode",
        ToolsForm(
            "opencode.json", lambda command: {"type": "local", "command": list(command), "enabled": True},
            # OpenCode tries OAuth unless it is disabled, and a server with access keys does not offer it.
            lambda url: {
                "type": "remote", "url": url, "oauth": False, "headers": _bearer_header(f"{{env:{KEY}}}"),
                "enabled": True,
            },
            path=("mcp",), note="add this to the existing settings; OpenCode 1 and 2 read it",
        ),
        HostWiring(
            programs=("opencode",), folder="{opencode}", skills="{opencode}/skills",
            tools_user=("{opencode}/opencode.json", "{opencode}/opencode.jsonc"),
            tools_project=("opencode.json", "opencode.jsonc"),
            hooks_user="{opencode}/plugins/elytron.js", hooks_project=".opencode/plugins/elytron.js",
            todo=_RESTART,
        ),
    ),
    HostName.VSCODE: HostRow(
        "VS Code Copilot",
        ToolsForm(
            ".vscode/mcp.json", lambda command: _split_command(command, type="stdio"),
            lambda url: {"type": "http", "url": url, "headers": _bearer_header("${input:elytron-key}")},
            path=("servers",), prompt=_ASKED_KEY, remote_note="the host asks for the key once and stores it",
        ),
        HostWiring(
            programs=("code",), folder="{vscode}",
            tools_user=("{vscode}/mcp.json",), tools_project=(".vscode/mcp.json",),
            # VS Code reads every file in this folder, which it shares with Copilot CLI.
            hooks_user="{copilot}/hooks/elytron-vscode.json", hooks_project=".github/hooks/elytron-vscode.json",
            item=_typed_item,
            todo="reload the window and start the server `elytron` when VS Code asks whether to trust it",
        ),
    ),
    HostName.WINDSURF: HostRow(
        "Windsurf",
        ToolsForm(
            "~/.codeium/windsurf/mcp_config.json", _split_command,
            lambda url: {"serverUrl": url, "headers": _bearer_header(f"${{env:{KEY}}}")},
        ),
    ),
    HostName.ZED: HostRow(
        "Zed",
        ToolsForm(
            "~/.config/zed/settings.json", lambda command: _split_command(command, source="custom"),
            lambda url: {"url": url, "headers": _bearer_header(f"<{KEY}>")},
            path=("context_servers",), remote_note=_UNREAD_VARIABLE,
        ),
    ),
}
# fmt: on
WIRED_HOSTS: Final[Mapping[HostName, HostWiring]] = {
    name: row.wiring for name, row in HOST_TABLE.items() if row.wiring is not None
}
"""The hosts that `elytron install` supports."""
_STORING: Final = frozenset({HookKind.COMPACT, HookKind.KEEP})


def timeout_s(kind: HookKind, /) -> int:
    """Return the timeout that hosts are given for a hook."""
    return 60 if kind in _STORING else 10


def host_events(host: HostName, /) -> Mapping[HookKind, str]:
    """Return a host's event names by the `elytron hooks` command that each event runs."""
    return HOSTS[host].names


def tools_text(form: ToolsForm, entry: Json, /, *, is_remote: bool) -> str:
    """Return settings text for a host that contains only this server entry."""
    match form.style:
        case SettingsStyle.TOML:
            return toml_table((*form.path, SERVER_NAME), entry)
        case SettingsStyle.YAML:
            lines = ("name: Elytron", "version: 0.0.1", "schema: v1", "mcpServers:", f"  - name: {SERVER_NAME}")
            return "\n".join((*lines, *_yaml_lines(entry, "    ")))
        case SettingsStyle.JSON:
            settings: Json = {SERVER_NAME: entry}
            for name in reversed(form.path):
                settings = {name: settings}
            inputs_field: dict[str, Json] = {"inputs": [form.prompt]} if is_remote and form.prompt is not None else {}
            assert isinstance(settings, dict)
            return json.dumps(inputs_field | settings, indent=2, ensure_ascii=False)


def toml_table(path: Sequence[str], entry: Json, /) -> str:
    """Format an entry of strings and lists of strings as a TOML table."""
    assert isinstance(entry, dict)
    return "\n".join((f"[{'.'.join(path)}]", *(f"{name} = {quoted_text(value)}" for name, value in entry.items())))


def _yaml_lines(entry: Json, indent: str) -> list[str]:
    assert isinstance(entry, dict)
    lines: list[str] = []
    for name, value in entry.items():
        if isinstance(value, dict):
            lines += [f"{indent}{name}:", *_yaml_lines(value, f"{indent}  ")]
        else:
            lines.append(f"{indent}{name}: {quoted_text(value)}")
    return lines
