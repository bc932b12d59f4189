"""The console in a browser of this machine: of a store here, or of a server elsewhere."""

import asyncio
import signal
import socket
import sys
import webbrowser
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

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
from elytron_core import limits
from elytron_core.errors import InvalidInput, MissingExtra
from elytron_core.model import Value
from elytron_store import WhenMissing

if TYPE_CHECKING:
    import httpx
    from starlette.types import ASGIApp

    from elytron_console.relay import Sender, UpstreamAnswer

PORT = 8718


class RelayReport(Value):
    """The address of a relayed console, and its server."""

    address: str
    server: str


@page_command("console")
@listening_options(PORT)
@click.option("--url", metavar="URL", help="Show the console of the server there instead; it asks for a key.")
@click.option("--keys", "asks_keys", is_flag=True, help="Require an access key, as `elytron serve` does.")
@click.option("--open", "opens", is_flag=True, help="Open the page in this user's browser.")
@logging_options("warning", "From which level on is logged.")
@common_options
def console_command(
    *, host: str, port: int, url: str | None, asks_keys: bool, opens: bool, style: str | None, log_level: str
) -> int | None:
    """Show the store in a browser: see, search, explain, correct and erase what is remembered.

    It asks for no key and listens on this machine alone. With --keys it asks for one, and may listen elsewhere. A
    store that a server has open already is shown by that server, at /console.
    """
    log_to_stderr(style, log_level)
    without_core_dumps()
    work = (
        _relay_server(url, host, port, opens=opens)
        if url is not None
        else _serve_store(host, port, asks_keys=asks_keys, opens=opens)
    )
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(work)
    return None


async def _serve_store(host: str, port: int, *, asks_keys: bool, opens: bool) -> None:
    from elytron_http_shell.server import ServingSettings

    found, out = run_settings(), run_output()
    serving = ServingSettings(host=host, port=port, development=not asks_keys)
    async with open_session(found, when_missing=WhenMissing.REFUSE) as session:
        wanted = WantedSurfaces(console=console_host(found, session.runtime))
        async with surfaces_beside(session.runtime, wanted) as beside:
            await serve_session(session, serving, beside, found, out, ready=webbrowser.open if opens else None)


async def _relay_server(url: str, host: str, port: int, *, opens: bool) -> None:
    """Relay the console of the server at `url` until it is interrupted. Raises InvalidInput, MissingExtra."""
    from elytron_http_shell.server import bound_socket, is_loopback, listening_address

    try:
        import httpx

        from elytron_console.relay import console_relay
    except ImportError as error:
        raise MissingExtra(extra="client", purpose="the console of a server elsewhere") from error
    if not is_loopback(host):
        raise InvalidInput(field="--host", problem="is beyond this machine, where a relayed console is not shown")
    # No proxy, certificate or password from the environment, which may be meant for another program.
    async with httpx.AsyncClient(base_url=url.rstrip("/"), trust_env=False, timeout=limits.REMOTE_ANSWER_S) as client:
        app = console_relay(url, sender_of(client))
        with bound_socket(host, port) as listening:
            listening.listen()  # from here on connections wait until they are taken up
            address = f"{listening_address(listening)}/console"
            lines = f"the console of {url}: {address}\n  stop it: Ctrl-C"
            report = RelayReport(address=address, server=url)
            run_output().report(report, lambda console, _: console.print(lines, soft_wrap=True))
            sys.stdout.flush()
            if opens:
                webbrowser.open(address)
            await _serve_until_signal(app, listening)


async def _serve_until_signal(app: "ASGIApp", listening: socket.socket) -> None:
    """Serve until this process is asked to end; the signal then ends the server and not the process."""
    import uvicorn

    class RelayServer(uvicorn.Server):
        """A server that leaves signals alone."""

        @contextmanager
        def capture_signals(self) -> Generator[None]:
            yield

    config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False, lifespan="off")
    server = RelayServer(config)

    def end(*_: object) -> None:
        server.should_exit = True

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        await server.serve(sockets=[listening])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def sender_of(client: "httpx.AsyncClient", /) -> "Sender":
    """Return what sends the requests of a relay by `client`."""
    import httpx

    from elytron_console.relay import UpstreamAnswer

    async def send(method: str, path: str, headers: Mapping[str, str], body: bytes) -> "UpstreamAnswer | None":
        try:
            answer = await client.request(method, path, headers=dict(headers), content=body, follow_redirects=False)
        except httpx.HTTPError:
            return None
        client.cookies.clear()  # each browser brings its own
        return UpstreamAnswer(answer.status_code, answer.headers.multi_items(), answer.content)

    return send
