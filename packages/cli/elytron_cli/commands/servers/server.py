"""Commands for a memory proxy, a local console, and stopping a server."""

import asyncio
import os
import signal
import socket
import sys
import webbrowser
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from elytron.remote.memory import shut_down
from elytron.remote.wire import address_of
from elytron_cli.commands.servers.serve import (
    log_to_stderr,
    loop_factory,
    serve_session,
)
from elytron_cli.input.options import PageGroup, choice_option, common_options, page_command
from elytron_cli.input.server_options import (
    NamedServer,
    address_kept_for,
    listening_options,
    logging_options,
    server_options,
)
from elytron_cli.server.optional_surfaces import SurfaceOptions, console_host, open_surfaces
from elytron_cli.session import open_session, require_own_store, run_output, run_settings, without_core_dumps
from elytron_cli.terminal.output import CommandOutput
from elytron_core import limits
from elytron_core.errors import InvalidInput, LimitExceeded, MissingExtra, PermissionRefused
from elytron_core.model import Value
from elytron_outbound.addresses import networks_of
from elytron_outbound.answers import request_within
from elytron_outbound.clients import ClientSettings, http_client
from elytron_proxy import BlockPlacement, MemoryUse, upstreams_of
from elytron_proxy import limits as proxy_limits
from elytron_proxy.settings import DEFAULT_UPSTREAM, PORT, pass_routes_of
from elytron_store import WhenMissing, parse_url

if TYPE_CHECKING:
    import httpx
    from starlette.types import ASGIApp

    from elytron_console.relay import Sender, UpstreamAnswer
    from elytron_http_shell.server import StartedServer
    from elytron_proxy import ProxySettings


class ProxyReport(Value):
    """A proxy's address, mode, store, model servers and process."""

    address: str
    mode: str
    store: str
    upstreams: tuple[str, ...]
    pid: int


@page_command("proxy")
@click.option(
    "--upstream",
    "upstreams",
    multiple=True,
    metavar="[PREFIX=]URL",
    help=(f"Model server; a PREFIX restricts it to models with that prefix. [default: {DEFAULT_UPSTREAM}]"),
)
@listening_options(PORT)
@choice_option("--placement", BlockPlacement.TAIL, "Position of the memory block in a request.")
@choice_option("--memory", MemoryUse.ON, "Use of memory, unless a request overrides it.")
@click.option(
    "--max-chars",
    type=click.IntRange(0, limits.PROJECTION_CHARS_MAX),
    default=proxy_limits.BLOCK_CHARS,
    show_default=True,
    help="Size of the memory block, in characters.",
)
@click.option(
    "--keep-partial", "partial", is_flag=True, help="Store answers that were cut off by length or by a filter."
)
@click.option("--finish", is_flag=True, help="Read and store whole answers even if the client disconnects.")
@click.option("--durable", is_flag=True, help="Send the end of an answer only after its turn is stored.")
@click.option("--stateless", is_flag=True, help="Do not store responses for `previous_response_id`.")
@click.option("--resend", is_flag=True, help="Retry without sealed reasoning if a model server cannot read it.")
@click.option("--audit", is_flag=True, help="Store the latest blocks sent to a model, as records.")
@click.option(
    "--trusted-peer",
    "peers",
    multiple=True,
    metavar="ADDRESS",
    help="Program or network whose headers may name the user.",
)
@click.option(
    "--pass",
    "passed",
    multiple=True,
    metavar="METHOD:/PATH",
    help="Additional route to pass through for every caller; {id} matches one segment.",
)
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="Host name that the proxy accepts.")
@click.option("--development", is_flag=True, help="Require no access key, even if keys exist; only for this machine.")
@logging_options("warning", "Minimum level to log.")
@common_options
def proxy_command(
    *,
    upstreams: tuple[str, ...],
    host: str,
    port: int,
    development: bool,
    stateless: bool,
    peers: tuple[str, ...],
    hosts: tuple[str, ...],
    passed: tuple[str, ...],
    style: str | None,
    log_level: str,
    **options: Any,
) -> int | None:
    """Serve a model server's unchanged API with memory added, and store the conversations.

    Supports the APIs of OpenAI (chat completions, Responses), Anthropic (Messages) and Ollama. The model server's key
    is read from ELYTRON_LLM_UPSTREAM_KEY. Once an access key exists (`elytron access add`), clients must send one.
    """
    from elytron_http_shell.server import ServingSettings
    from elytron_proxy import ProxySettings

    log_to_stderr(style, log_level, extra="proxy")
    without_core_dumps()
    serving = ServingSettings(host=host, port=port, development=development, names=frozenset(hosts))
    proxy_settings = ProxySettings(
        upstreams=upstreams_of(upstreams or (DEFAULT_UPSTREAM,), environment=os.environ),
        space=run_settings().space.value,
        stateful=not stateless,
        trusted_peers=networks_of(peers, field="trusted_peer"),
        passed=pass_routes_of(passed),
        hosts=frozenset({"localhost", "127.0.0.1", "::1", host.lower(), *(name.lower() for name in hosts)}),
        **options,
    )
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve_proxy(proxy_settings, serving))
    return None


async def _serve_proxy(proxy_settings: "ProxySettings", serving: Any) -> None:
    from elytron_adapter.access_keys import AccessKeys, DevelopmentCallers
    from elytron_adapter.admission_control import FairPlaces
    from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
    from elytron_adapter.key_quotas import WrongAttempts
    from elytron_cli.server.optional_surfaces import require_entry
    from elytron_http_shell.server import is_loopback, serve_watched
    from elytron_proxy import ProxyApp

    settings, out = run_settings(), run_output()
    require_own_store(settings)
    async with open_session(settings, when_missing=WhenMissing.MAKE) as session:
        memory = session.runtime
        require_entry(memory.context, "llm_gateway")
        memory.context.entries.add("llm_gateway")
        keys = AccessKeys(memory.context)
        has_keys = bool(await keys.open_kinds())
        if not is_loopback(serving.host) and (serving.development or not has_keys):
            raise PermissionRefused(
                "callers from other machines need an access key: create one with `elytron access add --kind user "
                "--space <name> --label <name>`, and do not pass --development"
            )
        is_open = serving.development or not has_keys
        admission = CallerAdmission(
            OperationDispatcher(memory),
            authenticator=DevelopmentCallers() if is_open else keys,
            shedding=FairPlaces(serving.bounds),
            attempts=WrongAttempts(memory.context.clock),
        )
        mode = f"every caller on this machine, as {settings.space.value!r}" if is_open else "access keys"

        def started(server: "StartedServer") -> None:
            _tell_proxy(out, server, proxy_settings, settings.store.masked_value)

        app = ProxyApp(admission, proxy_settings)
        figures = (app.figures.prometheus_figures,)
        await serve_watched(app, admission, serving, started=started, mode=mode, figures=figures)


def _tell_proxy(out: CommandOutput, server: "StartedServer", proxy_settings: "ProxySettings", store: str) -> None:
    servers = tuple(f"{one.prefix}={one.url}" if one.prefix else one.url for one in proxy_settings.upstreams)
    report = ProxyReport(address=server.address, mode=server.mode, store=store, upstreams=servers, pid=os.getpid())
    lines = (
        f"listening on {report.address}",
        f"  upstream: {', '.join(servers)}",
        f"  store: {store}",
        f"  access: {report.mode}",
        f"  OpenAI clients: base URL {report.address}/v1; Anthropic's and Ollama's: {report.address}",
        f"  stop: Ctrl-C, or kill {report.pid}",
    )
    out.report(report, lambda console, _: console.print("\n".join(lines), soft_wrap=True))
    sys.stdout.flush()


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
    is_given = click.get_current_context().get_parameter_source("url") is not ParameterSource.DEFAULT
    url = server.url if is_given else _kept_address() or server.url
    address = address_of(url, api_key=server.key, proxy=server.proxy)
    report = asyncio.run(shut_down(address, reason=reason))
    run_output().report(report, lambda console, _: console.print(f"stopping the server: process {report.pid}"))


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

    settings, out = run_settings(), run_output()
    serving = ServingSettings(host=host, port=port, development=not asks_keys)
    async with open_session(settings, when_missing=WhenMissing.REFUSE) as session:
        surfaces = SurfaceOptions(console=console_host(settings, session.runtime))
        async with open_surfaces(session.runtime, surfaces) as beside:
            await serve_session(session, serving, beside, settings, out, ready=webbrowser.open if opens else None)


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
        with bound_socket(host, port) as listening:
            listening.listen()  # from here on connections wait until they are accepted
            address = f"{listening_address(listening)}/console"
            lines = f"the console of {url}: {address}\n  stop: Ctrl-C"
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
    """Return the function that sends a relay's requests through `client`."""
    import httpx

    from elytron_console.relay import UpstreamAnswer

    async def send(method: str, path: str, headers: Mapping[str, str], body: bytes) -> "UpstreamAnswer | None":
        try:
            most = limits.REMOTE_REPORT_BYTES
            answer = await request_within(client, method, path, limit=most, headers=dict(headers), content=body)
        except (httpx.HTTPError, LimitExceeded):
            return None
        return UpstreamAnswer(answer.status_code, answer.headers.multi_items(), answer.content)

    return send
