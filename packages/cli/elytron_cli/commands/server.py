"""A server that runs, ended from its own machine."""

import asyncio

import click

from elytron.remote.address import address_of
from elytron.remote.shutdown import shut_down
from elytron_cli.input.options import Command, Group, common
from elytron_cli.input.server_address import Server, addressed
from elytron_cli.runner import output


@click.group("server", cls=Group)
@common
def server() -> None:
    """End a server that runs on this machine."""


@server.command("stop", cls=Command)
@click.option("--reason", default="", metavar="TEXT", help="Why, for whoever called.")
@addressed
def stop(*, reason: str, server: Server) -> None:
    """End the server at --url: it finishes what it accepted. Needs an operator's key, on the server's own machine."""
    address = address_of(server.url, api_key=server.key, proxy=server.proxy)
    report = asyncio.run(shut_down(address, reason=reason))
    output().report(report, lambda console: console.print(f"the server ends: process {report.pid}"))
