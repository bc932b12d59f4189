"""The console of a store on this machine: a server of one's own, for a browser."""

import asyncio
import webbrowser

import click

from elytron_cli.commands.servers.serve import (
    listening_options,
    log_to_stderr,
    logging_options,
    loop_factory,
    serve_session,
)
from elytron_cli.input.options import common_options, page_command
from elytron_cli.runner import run_output, run_settings
from elytron_cli.server.console_host import console_host
from elytron_cli.server.extras import WantedSurfaces, surfaces_beside
from elytron_cli.session import open_session, without_core_dumps
from elytron_store import WhenMissing

PORT = 8718


@page_command("console")
@listening_options(PORT)
@click.option("--keys", "asks_keys", is_flag=True, help="Require an access key, as `elytron serve` does.")
@click.option("--open", "opens", is_flag=True, help="Open the page in this user's browser.")
@logging_options("warning", "The lowest level that is logged.")
@common_options
def console_command(
    *, host: str, port: int, asks_keys: bool, opens: bool, style: str | None, log_level: str
) -> int | None:
    """Show the store in a browser: see, search, explain, correct and erase what is remembered.

    It asks for no key and listens on this machine alone. With --keys it asks for one, and may listen elsewhere. A
    store that a server has open already is shown by that server, at /console.
    """
    from elytron_http_shell.server import ServingSettings

    log_to_stderr(style, log_level)
    without_core_dumps()
    found, out = run_settings(), run_output()
    serving = ServingSettings(host=host, port=port, development=not asks_keys)

    async def work() -> None:
        async with open_session(found, when_missing=WhenMissing.REFUSE) as session:
            wanted = WantedSurfaces(console=console_host(found, session.runtime))
            async with surfaces_beside(session.runtime, wanted) as beside:
                await serve_session(session, serving, beside, found, out, ready=webbrowser.open if opens else None)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(work())
    return None
