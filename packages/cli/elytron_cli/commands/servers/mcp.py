"""MCP for hosts on this machine, and what to paste into them."""

import asyncio
import sys

import click

from elytron_cli.agents.hosts import Host, config_of
from elytron_cli.input.options import Group, OneOf, common
from elytron_cli.runner import output, settings
from elytron_cli.server.protocols import require_entry
from elytron_cli.session import opened
from elytron_cli.terminal.output import safe
from elytron_mcp_shell import DEFAULT_SETS, ToolSet, serve_stdio
from elytron_store import WhenMissing

_tools = click.option(
    "--tools",
    "sets",
    multiple=True,
    type=OneOf(ToolSet),
    default=tuple(item.value for item in DEFAULT_SETS),
    show_default=True,
    help="Which tools the host is shown; may be repeated.",
)


@click.group("mcp", cls=Group, invoke_without_command=True)
@_tools
@click.option("--operator", is_flag=True, help="Show an operator's tools too, over every space of the store.")
@click.option("--mcp-private", is_flag=True, help="Let the host's model ask for private memories.")
@common
@click.pass_context
def mcp(context: click.Context, *, sets: tuple[ToolSet, ...], operator: bool, mcp_private: bool) -> None:
    """Serve the space to an MCP host on stdin and stdout, until the host hangs up.

    Hosts start this themselves: `elytron mcp config --host NAME` prints what to paste into one.
    """
    if context.invoked_subcommand is not None:
        return
    found = settings()

    async def work() -> None:
        async with opened(found, when_missing=WhenMissing.MAKE) as session:
            require_entry(session.runtime.context, "mcp_server")
            session.runtime.context.entries.add("mcp_server")
            await serve_stdio(session.runtime, sets=frozenset(sets), is_operator=operator, is_private=mcp_private)

    asyncio.run(work())


@mcp.command("config")
@click.option(
    "--host",
    required=True,
    type=OneOf(Host),
    help="Which program is to use the memory.",
)
@click.option("--url", metavar="URL", help="A server's address; without it, the host starts `elytron mcp` itself.")
@_tools
@common
def config(*, host: Host, url: str | None, sets: tuple[ToolSet, ...]) -> None:
    """Print what to paste into a host's configuration. No key is printed: ELYTRON_API_KEY is named in its place."""
    made = config_of(host, settings=settings(), url=url, sets=frozenset(sets))
    out = output()
    if out.as_json:
        out.report(made, lambda console, _: console.print(""))
        return
    # The text alone goes to stdout, so that it can be sent to a file.
    print(f"{made.file}: {safe(made.note)}", file=sys.stderr)
    print(made.text)
