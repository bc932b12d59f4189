"""The command that opens a store, or a remote server, in the console of a browser."""

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
    log_to_stderr,
    loop_factory,
    serve_session,
)
from elytron_cli.input.options import common_options, page_command
from elytron_cli.input.server_options import (
    listening_options,
    logging_options,
)
from elytron_cli.server.console_host import console_host
from elytron_cli.server.optional_surfaces import SurfaceOptions, open_surfaces
from elytron_cli.session import open_session, run_output, run_settings, without_core_dumps
from elytron_core import limits
from elytron_core.errors import InvalidInput, LimitExceeded, MissingExtra
from elytron_core.model import Value
from elytron_outbound.answers import request_within
from elytron_outbound.clients import ClientSettings, http_client
from elytron_store import WhenMissing

if TYPE_CHECKING:
    import httpx
    from starlette.types import ASGIApp

    from elytron_console.relay import Sender, UpstreamAnswer


CONSOLE_PORT = 8718


class RelayReport(Value):
    """The address of a relayed console, and its server."""

    address: str
    server: str


@page_command("console")
@listening_options(CONSOLE_PORT)
@click.option("--url", metavar="URL", help="Address of a server whose console to show; requires an access key.")
@click.option("--keys", "asks_keys", is_flag=True, help="Require an access key, as `elytron serve` does.")
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
@logging_options("warning", "Minimum level to log.")
@common_options
def console_command(
    *, host: str, port: int, url: str | None, asks_keys: bool, opens: bool, style: str | None, log_level: str
) -> int | None:
    """Open the store in a browser: browse, search, explain, correct and erase memories.

    The console needs no key and is reachable only from this machine; with --keys, it requires a key and may listen
    elsewhere. If a server already has the store open, use its own console at /console.
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

    settings, output = run_settings(), run_output()
    serving_settings = ServingSettings(host=host, port=port, development=not asks_keys)
    async with open_session(settings, when_missing=WhenMissing.REFUSE) as session:
        surfaces = SurfaceOptions(console=console_host(settings, session.runtime))
        async with open_surfaces(session.runtime, surfaces) as optional_surfaces:
            await serve_session(
                session, serving_settings, optional_surfaces, settings, output, ready=webbrowser.open if opens else None
            )


async def _relay_server(url: str, host: str, port: int, *, opens: bool) -> None:
    """Relay the console of the server at `url` until interrupted. Raises InvalidInput, MissingExtra."""
    from elytron_http_shell.server import bound_socket, is_loopback, listening_address

    try:
        from elytron_console.relay import console_relay
    except ImportError as error:
        raise MissingExtra(extra="client", purpose="showing the console of a remote server") from error
    if not is_loopback(host):
        raise InvalidInput(field="--host", problem="must be a local address for a relayed console")
    settings = ClientSettings(
        extra="client",
        purpose="showing the console of a remote server",
        url=url.rstrip("/"),
        timeout_s=limits.REMOTE_ANSWER_S,
    )
    async with http_client(settings) as client:
        app = console_relay(url, sender_of(client))
        with bound_socket(host, port) as listening_socket:
            listening_socket.listen()  # from here on connections wait until they are accepted
            address = f"{listening_address(listening_socket)}/console"
            lines = f"the console of {url}: {address}\n  stop: Ctrl-C"
            report = RelayReport(address=address, server=url)
            run_output().report(report, lambda console, _: console.print(lines, soft_wrap=True))
            sys.stdout.flush()
            if opens:
                webbrowser.open(address)
            await _serve_until_signal(app, listening_socket)


async def _serve_until_signal(app: "ASGIApp", listening_socket: socket.socket) -> None:
    """Serve until this process is asked to end; the signal then ends the server and not the process."""
    import uvicorn

    class RelayServer(uvicorn.Server):
        """A server that leaves signals alone."""

        @contextmanager
        def capture_signals(self) -> Generator[None]:
            yield

    config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False, lifespan="off")
    relay_server = RelayServer(config)

    def end(*_: object) -> None:
        relay_server.should_exit = True

    previous_handlers = {
        signal_number: signal.signal(signal_number, end) for signal_number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        await relay_server.serve(sockets=[listening_socket])
    finally:
        for signal_number, handler in previous_handlers.items():
            signal.signal(signal_number, handler)


def sender_of(client: "httpx.AsyncClient", /) -> "Sender":
    """Return the function that sends a relay's requests through `client`."""
    import httpx

    from elytron_console.relay import UpstreamAnswer

    async def send(method: str, path: str, headers: Mapping[str, str], body: bytes) -> "UpstreamAnswer | None":
        try:
            max_bytes = limits.REMOTE_REPORT_BYTES
            answer = await request_within(client, method, path, limit=max_bytes, headers=dict(headers), content=body)
        except (httpx.HTTPError, LimitExceeded):
            return None
        return UpstreamAnswer(answer.status_code, answer.headers.multi_items(), answer.content)

    return send
