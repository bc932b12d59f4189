"""Tools of MCP servers as tools of an agent: where a server is, and its tools while it is connected."""

import asyncio
import re
import shlex
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from elytron_agent import limits
from elytron_agent.context.request import clip_words
from elytron_agent.tool import Arguments, CallKey, Tool, ToolAnswer
from elytron_core.errors import InvalidInput, MissingExtra
from elytron_core.model import Request, invalid_input

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import ContentBlock
    from mcp.types import Tool as ServerTool

_NAME: Final = r"^[A-Za-z0-9_-]{1,32}$"
_NAME_CHARS: Final = 64


class McpToolServer(Request):
    """An MCP server: a command that is started, or the `url` of one that runs. `name` begins the names of its tools."""

    name: Annotated[str, Field(pattern=_NAME)]
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    """Variables for the command, beside the few that every command has: the search path, home and their like."""
    cwd: str | None = None
    url: str | None = None

    @property
    def is_whole(self) -> bool:
        """Return whether it has a command or a URL, and not both."""
        return bool(self.command) != bool(self.url)


class _ServerEntry(BaseModel):
    """An entry of `mcpServers`; what other programs keep beside these fields is passed over."""

    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    command: str | None = None
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = {}
    cwd: str | None = None
    url: str | None = None


class _ServersConfiguration(BaseModel):
    model_config = ConfigDict(frozen=True, hide_input_in_errors=True)

    servers: Annotated[Mapping[str, _ServerEntry], Field(alias="mcpServers")]


def mcp_server_of(text: str, /) -> McpToolServer:
    """Return the server that `NAME=COMMAND` or `NAME=URL` says; the command is split as a shell does. Raises
    InvalidInput."""
    name, _, place = text.partition("=")
    try:
        command = tuple(shlex.split(place))
    except ValueError:
        raise InvalidInput(field="MCP server", problem=f"{name!r} has a quote without its end") from None
    is_url = place.startswith(("http://", "https://"))
    return _named_server(name, url=place) if is_url else _named_server(name, command=command)


def mcp_servers_of(text: str, /) -> tuple[McpToolServer, ...]:
    """Return the servers of `mcpServers` in a host's configuration, which is JSON text. Raises InvalidInput."""
    try:
        found = _ServersConfiguration.model_validate_json(text).servers
    except ValidationError as error:
        raise invalid_input(error, model=_ServersConfiguration) from None
    return tuple(
        _named_server(
            name,
            command=(entry.command, *entry.args) if entry.command else (),
            env=entry.env,
            cwd=entry.cwd,
            url=entry.url,
        )
        for name, entry in found.items()
    )


@asynccontextmanager
async def mcp_tools(servers: Sequence[McpToolServer], /) -> AsyncGenerator[tuple[Tool, ...]]:
    """Yield the tools of all servers, which stay connected meanwhile.

    A tool is called `SERVER_TOOL`; all that it answers is text from outside. It is `read_only` if its server says so
    by `readOnlyHint`: connect servers that you trust. Raises InvalidInput for a server that does not answer in 30 s,
    MissingExtra without the extra "mcp".
    """
    tools: list[Tool] = []
    async with AsyncExitStack() as stack:
        for server in servers:
            tools += await _tools_of(server, stack)
        if len(tools) > limits.MCP_TOOLS:
            raise InvalidInput(field="MCP servers", problem=f"have {len(tools)} tools: {limits.MCP_TOOLS} at most")
        yield tuple(tools)


def _named_server(name: str, **fields: Any) -> McpToolServer:
    try:
        server = McpToolServer(name=name, **fields)
    except ValidationError as error:
        raise invalid_input(error, model=McpToolServer) from None
    if not server.is_whole:
        raise InvalidInput(field=f"MCP server {name!r}", problem="needs a command or a URL: write NAME=COMMAND")
    return server


async def _tools_of(server: McpToolServer, stack: AsyncExitStack) -> list[Tool]:
    try:
        from mcp import Client, StdioServerParameters, stdio_client
    except ImportError:
        raise MissingExtra(extra="mcp", purpose="the tools of an MCP server") from None
    if server.url:
        opened = Client(server.url)
    else:
        started = StdioServerParameters(
            command=server.command[0], args=list(server.command[1:]), env=dict(server.env), cwd=server.cwd
        )
        # Not `sys.stderr`, which a host may have replaced by what no process can write to.
        opened = Client(stdio_client(started, errlog=sys.__stderr__ or sys.stderr))
    try:
        async with asyncio.timeout(limits.MCP_START_SECONDS):
            client = await stack.enter_async_context(opened)
            page = await client.list_tools()
            listed = page.tools
            while page.next_cursor and len(listed) <= limits.MCP_TOOLS:
                page = await client.list_tools(cursor=page.next_cursor)
                listed = [*listed, *page.tools]
    except Exception as error:
        # Foreign code in another process: groups of exceptions, of its transport or its protocol.
        problem = f"did not answer as an MCP server ({_error_reason(error)}): try its command in a shell"
        raise InvalidInput(field=f"MCP server {server.name!r}", problem=problem) from error
    return [_server_tool(server.name, client, each) for each in listed]


def _server_tool(server: str, client: "Client", found: "ServerTool") -> Tool:
    hints = found.annotations
    is_read_only = hints is not None and hints.read_only_hint is True

    async def act(given: Arguments, _: CallKey, /) -> ToolAnswer:
        answer = await client.call_tool(found.name, dict(given))
        texts = [_block_text(block) for block in answer.content]
        return ToolAnswer(text="\n".join(texts) or "The tool answered nothing.", is_error=answer.is_error)

    return Tool(
        name=re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}_{found.name}")[:_NAME_CHARS],
        description=clip_words(found.description or found.title or found.name, limits.MCP_DESCRIPTION_CHARS),
        parameters=found.input_schema,
        act=act,
        may_repeat=is_read_only or (hints is not None and hints.idempotent_hint is True),
        is_outside=True,
        read_only=is_read_only,
    )


def _block_text(block: "ContentBlock") -> str:
    """Return a part of an answer as text; what is none is named by its kind."""
    match block.type:
        case "text":
            return block.text
        case "resource":
            return getattr(block.resource, "text", f"[{block.resource.uri}]")
        case "resource_link":
            return f"[{block.uri}]"
        case _:
            return f"[{block.type}, {block.mime_type}]"


def _error_reason(error: Exception) -> str:
    """Return what went wrong: of a group, its first exception."""
    first: BaseException = error
    while isinstance(first, BaseExceptionGroup):
        first = cast("BaseExceptionGroup[BaseException]", first).exceptions[0]
    return clip_words(f"{type(first).__name__}: {first}".removesuffix(": "), limits.PROBLEM_CHARS)
