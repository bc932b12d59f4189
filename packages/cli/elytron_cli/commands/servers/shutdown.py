"""The command that stops a server on this machine."""

import asyncio

import click
from click.core import ParameterSource

from elytron.remote.memory import shut_down
from elytron.remote.wire import address_of
from elytron_cli.input.options import PageGroup, common_options
from elytron_cli.input.server_options import (
    NamedServer,
    address_kept_for,
    server_options,
)
from elytron_cli.session import run_output, run_settings
from elytron_core.errors import InvalidInput
from elytron_store import parse_url


@click.group("server", cls=PageGroup)
@common_options
def server_group() -> None:
    """Stop a server that runs on this machine."""


def _kept_address() -> str | None:
    """Return the address of the server over the store. Raises InvalidInput for a named store without one."""
    store = run_settings().store
    address = address_kept_for(store.value)
    if address is None and store.origin != "default" and parse_url(store.value).path is not None:
        # The usual address may belong to another store.
        raise InvalidInput(field="--url", problem="is missing: no server of this store is known on this machine")
    return address


@server_group.command("stop")
@click.option("--reason", default="", metavar="TEXT", help="Reason, shown to callers.")
@server_options
def stop_command(*, reason: str, server: NamedServer) -> None:
    """Stop the server at --url or, by default, the one that serves the store, after its pending requests.

    Requires an operator's key, and must be run on the server's machine.
    """
    is_url_stated = click.get_current_context().get_parameter_source("url") is not ParameterSource.DEFAULT
    url = server.url if is_url_stated else _kept_address() or server.url
    address = address_of(url, api_key=server.key, proxy=server.proxy)
    report = asyncio.run(shut_down(address, reason=reason))
    run_output().report(report, lambda console, _: console.print(f"stopping the server: process {report.pid}"))
