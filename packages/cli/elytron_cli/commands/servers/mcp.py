"""Commands that serve a space to an MCP host, and print the configuration for one."""

import asyncio
import sys

import click

from elytron_assistants.hosts import HostName
from elytron_cli.agents.mcp_config import config_of
from elytron_cli.input.options import OneOf, PageGroup, common_options
from elytron_cli.server.optional_surfaces import (
    require_entry,
)
from elytron_cli.session import (
    open_session,
    run_output,
    run_settings,
    stated_settings,
)
from elytron_cli.terminal.output import safe_text
from elytron_mcp_shell import DEFAULT_SETS, ToolSet, serve_stdio
from elytron_store import WhenMissing

_tools = click.option(
    "--tools",
    "sets",
    multiple=True,
    type=OneOf(ToolSet),
    default=tuple(item.value for item in DEFAULT_SETS),
    show_default=True,
    help="Set of tools to offer to the host.",
)


@click.group("mcp", cls=PageGroup, invoke_without_command=True)
@_tools
@click.option("--operator", is_flag=True, help="Offer operator tools too, for every space of the store.")
@click.option("--mcp-private", is_flag=True, help="Allow the host's model to request private memories.")
@common_options
@click.pass_context
def mcp_group(context: click.Context, *, sets: tuple[ToolSet, ...], operator: bool, mcp_private: bool) -> None:
    """Serve the space to an MCP host on stdin and stdout until the host disconnects.

    Hosts start this command themselves: `elytron mcp config --host NAME` prints the configuration.
    """
    if context.invoked_subcommand is not None:
        return
    settings = run_settings()

    async def work() -> None:
        async with open_session(settings, when_missing=WhenMissing.MAKE) as session:
            require_entry(session.runtime.context, "mcp_server")
            session.runtime.context.entries.add("mcp_server")
            await serve_stdio(session.runtime, sets=frozenset(sets), is_operator=operator, is_private=mcp_private)

    asyncio.run(work())


@mcp_group.command("config")
@click.option("--host", required=True, type=OneOf(HostName), help="Program that will use the memory.")
@click.option("--url", metavar="URL", help="Address of a memory server. [default: the host starts `elytron mcp`]")
@_tools
@common_options
def config_command(*, host: HostName, url: str | None, sets: tuple[ToolSet, ...]) -> None:
    """Print the MCP configuration for a host; it refers to ELYTRON_API_KEY and contains no key."""
    host_config = config_of(host, settings=stated_settings(), url=url, sets=frozenset(sets))
    output = run_output()
    if output.as_json:
        output.report(host_config, lambda console, _: console.print(""))
        return
    # Only the text goes to stdout, so that it can be redirected to a file.
    print(f"{host_config.file}: {safe_text(host_config.note)}", file=sys.stderr)
    print(host_config.text)
