"""Configuration of the MCP server in a host: a text that people paste."""

import sys
from pathlib import Path
from urllib.parse import quote, urlsplit

from elytron_assistants.hosts import HostName
from elytron_assistants.wiring.host_table import HOST_TABLE, tools_text
from elytron_cli.config import RunSettings, program_path
from elytron_cli.terminal.help_page import PER_REPOSITORY
from elytron_core.errors import InvalidInput, StoreUrlInvalid
from elytron_core.model import Value
from elytron_mcp_shell import DEFAULT_SETS, ToolSet


class McpConfigReport(Value):
    """A text to paste, and the file that it belongs in."""

    host: HostName
    file: str
    text: str
    note: str


def config_of(
    host: HostName, /, *, settings: RunSettings, url: str | None, sets: frozenset[ToolSet] = DEFAULT_SETS
) -> McpConfigReport:
    """Return the configuration for `host` to reach the server at `url`, or to start one over the settings' store.

    Raises InvalidInput for an invalid URL, for a host that starts its servers itself, and for `sets` together with a
    URL, because a server chooses its own tools.
    """
    tools_form = HOST_TABLE[host].tools
    if url is None:
        text = tools_text(tools_form, tools_form.local(_server_command(settings, sets)), is_remote=False)
        return McpConfigReport(host=host, file=tools_form.file, text=text, note=tools_form.note)
    if sets != DEFAULT_SETS:
        raise InvalidInput(field="--tools", problem="cannot be used with --url: pass --mcp-tools to the server")
    if tools_form.remote is None:
        raise InvalidInput(field="--url", problem=f"cannot be used with {host.value}, which starts servers itself")
    text = tools_text(tools_form, tools_form.remote(mcp_address(url)), is_remote=True)
    return McpConfigReport(
        host=host, file=tools_form.file, text=text, note=f"{tools_form.note}; {tools_form.remote_note}"
    )


def mcp_address(url: str, /) -> str:
    """Return the MCP address of the server at `url`. Raises InvalidInput."""
    try:
        url_parts = urlsplit(url)
        is_server_address = (
            url_parts.scheme in {"http", "https"} and bool(url_parts.hostname) and url_parts.username is None
        )
    except ValueError:
        is_server_address = False
    if not is_server_address:
        raise InvalidInput(field="--url", problem="is not an http:// or https:// address without user information")
    base_url = url.rstrip("/")
    return base_url if base_url.endswith("/mcp") else f"{base_url}/mcp"


def _server_command(settings: RunSettings, sets: frozenset[ToolSet]) -> list[str]:
    """Return the command line of the server."""
    tool_options = [part for item in sorted(sets) for part in ("--tools", item.value)] if sets != DEFAULT_SETS else []
    return [program_path(sys.argv[0]), "mcp", *tool_options, *setting_options(settings)]


def setting_options(settings: RunSettings, /) -> list[str]:
    """Return `settings` as options of a command that may be started in any folder, with absolute paths.

    The store is always named: no variable that a repository sets, and no file in it, chooses another one then.
    """
    options = ["--store", _placed_store(settings.store.value)]
    if settings.is_per_repository:
        # Relative to the folder in which the host is started.
        options.append(PER_REPOSITORY)
    if settings.space.origin not in {"default", PER_REPOSITORY}:
        options += ["--space", settings.space.value]
    if settings.key_file is not None:
        options += ["--key-file", str(Path(settings.key_file.value).resolve())]
    models = (settings.embedder, settings.language_model)
    for option, setting in zip(("--embedder", "--language-model"), models, strict=True):
        if setting is not None:
            options += [option, setting.value]
    return options


def _placed_store(store: str) -> str:
    from elytron_store import parse_url

    address = parse_url(store)
    if address.path is None:
        raise StoreUrlInvalid(problem="is not a file or folder that a host can open: pass the server's --url")
    return f"{address.engine}://{quote(address.path.resolve().as_posix())}{address.options}"
