"""Servers beside the store's own: a memory proxy before a model server; and the end of one that runs."""

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from elytron.remote.memory import shut_down
from elytron.remote.wire import address_of
from elytron_cli.commands.servers.serve import listening_options, log_to_stderr, logging_options, loop_factory
from elytron_cli.input.options import PageGroup, choice_option, common_options, page_command
from elytron_cli.input.server_address import NamedServer, address_kept_for, server_options
from elytron_cli.runner import run_output, run_settings
from elytron_cli.session import open_session, require_own_store, without_core_dumps
from elytron_cli.terminal.output import CommandOutput
from elytron_core import limits
from elytron_core.errors import InvalidInput, MissingExtra, PermissionRefused
from elytron_core.model import Value
from elytron_proxy import BlockPlacement, MemoryUse, upstreams_of
from elytron_proxy import limits as proxy_limits
from elytron_proxy.settings import DEFAULT_UPSTREAM, PORT, networks_of, pass_routes_of
from elytron_store import WhenMissing, parse_url

if TYPE_CHECKING:
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
    help=(f"A model server; with a prefix, for the models whose names begin so. Without: {DEFAULT_UPSTREAM}."),
)
@listening_options(PORT)
@choice_option("--placement", BlockPlacement.TAIL, "The place of memory in a request.")
@choice_option("--memory", MemoryUse.ON, "How memory takes part, unless a request says otherwise.")
@click.option(
    "--max-chars",
    type=click.IntRange(0, limits.PROJECTION_CHARS_MAX),
    default=proxy_limits.BLOCK_CHARS,
    show_default=True,
    help="Size of what memory adds.",
)
@click.option("--keep-partial", "partial", is_flag=True, help="Keep answers that their length or a filter ended, too.")
@click.option("--finish", is_flag=True, help="Read answers to their end, and keep them, if their client leaves.")
@click.option("--stateless", is_flag=True, help="Keep no responses for `previous_response_id`.")
@click.option(
    "--resend",
    is_flag=True,
    help="Ask once more without sealed reasoning where a model server cannot read it.",
)
@click.option("--audit", is_flag=True, help="Keep the last blocks that went to a model, as records.")
@click.option(
    "--trusted-peer",
    "peers",
    multiple=True,
    metavar="ADDRESS",
    help="A program, or network, whose headers say for which user it asks.",
)
@click.option(
    "--pass",
    "passed",
    multiple=True,
    metavar="METHOD:/PATH",
    help="A further route that passes to model servers, for every caller; {id} is one segment.",
)
@click.option("--allow-host", "hosts", multiple=True, metavar="NAME", help="A name that the proxy is reached by.")
@click.option("--development", is_flag=True, help="Require no key, even if there are some. On this machine alone.")
@logging_options("warning", "The lowest level that is logged.")
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
    **given: Any,
) -> int | None:
    """Serve a model server's unchanged API with memory added, and remember what is said.

    Speaks OpenAI's chat completions and Responses, Anthropic's Messages and Ollama's API. The key of a model server
    is read from ELYTRON_LLM_UPSTREAM_KEY; clients show an access key, once there is one (`elytron access add`).
    """
    from elytron_http_shell.server import ServingSettings
    from elytron_proxy import ProxySettings

    log_to_stderr(style, log_level)
    without_core_dumps()
    serving = ServingSettings(host=host, port=port, development=development, names=frozenset(hosts))
    asked = ProxySettings(
        upstreams=upstreams_of(upstreams or (DEFAULT_UPSTREAM,), environment=os.environ),
        space=run_settings().space.value,
        stateful=not stateless,
        trusted_peers=networks_of(peers),
        passed=pass_routes_of(passed),
        hosts=frozenset({"localhost", "127.0.0.1", "::1", host.lower(), *(name.lower() for name in hosts)}),
        **given,
    )
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(_serve_proxy(asked, serving))
    return None


async def _serve_proxy(asked: "ProxySettings", serving: Any) -> None:
    try:
        from elytron_http_shell.server import is_loopback, serve_watched
        from elytron_proxy import ProxyApp
    except ImportError as error:
        raise MissingExtra(extra="proxy", purpose="the memory proxy") from error
    from elytron_adapter.admission_control import FairPlaces
    from elytron_adapter.dispatch import CallerEntrance, OperationDispatcher
    from elytron_adapter.identity.access_keys import AccessKeys, DevelopmentCallers
    from elytron_adapter.identity.key_quotas import WrongAttempts
    from elytron_cli.server.extras import require_entry

    found, out = run_settings(), run_output()
    require_own_store(found)
    async with open_session(found, when_missing=WhenMissing.MAKE) as session:
        memory = session.runtime
        require_entry(memory.context, "llm_gateway")
        memory.context.entries.add("llm_gateway")
        keys = AccessKeys(memory.context)
        has_keys = bool(await keys.open_kinds())
        if not is_loopback(serving.host) and (serving.development or not has_keys):
            raise PermissionRefused(
                "beyond this machine every caller needs a key: make one with"
                " `elytron access add --kind user --space <name> --label <name>`, and leave --development out"
            )
        is_open = serving.development or not has_keys
        entrance = CallerEntrance(
            OperationDispatcher(memory),
            authenticator=DevelopmentCallers() if is_open else keys,
            shedding=FairPlaces(serving.bounds),
            attempts=WrongAttempts(memory.context.clock),
        )
        mode = f"every caller on this machine, as {found.space.value!r}" if is_open else "access keys"

        def started(told: "StartedServer") -> None:
            _tell_proxy(out, told, asked, found.store.shown)

        app = ProxyApp(entrance, asked)
        figures = (app.figures.shown,)
        await serve_watched(app, entrance, serving, started=started, mode=mode, figures=figures)


def _tell_proxy(out: CommandOutput, told: "StartedServer", asked: "ProxySettings", store: str) -> None:
    servers = tuple(f"{one.prefix}={one.url}" if one.prefix else one.url for one in asked.upstreams)
    report = ProxyReport(address=told.address, mode=told.mode, store=store, upstreams=servers, pid=os.getpid())
    lines = (
        f"listening on {report.address}",
        f"  before: {', '.join(servers)}",
        f"  its store: {store}",
        f"  who may call: {report.mode}",
        f"  OpenAI clients: base URL {report.address}/v1; Anthropic's and Ollama's: {report.address}",
        f"  stop it: Ctrl-C, or kill {report.pid}",
    )
    out.report(report, lambda console, _: console.print("\n".join(lines), soft_wrap=True))
    sys.stdout.flush()


@click.group("server", cls=PageGroup)
@common_options
def server_group() -> None:
    """End a server that runs on this machine."""


def _kept_address() -> str | None:
    """Return the address of the server over the store. Raises InvalidInput for a store that was named and has none."""
    store = run_settings().store
    kept = address_kept_for(store.value)
    if kept is None and store.origin != "default" and parse_url(store.value).path is not None:
        # The usual address may be another store's.
        raise InvalidInput(field="--url", problem="is needed: no server over this store is known on this machine")
    return kept


@server_group.command("stop")
@click.option("--reason", default="", metavar="TEXT", help="Why; shown to callers.")
@server_options
def stop_command(*, reason: str, server: NamedServer) -> None:
    """End the server at --url, else the one that serves the store: it finishes what it accepted.

    Needs an operator's key, on the server's own machine.
    """
    is_given = click.get_current_context().get_parameter_source("url") is not ParameterSource.DEFAULT
    url = server.url if is_given else _kept_address() or server.url
    address = address_of(url, api_key=server.key, proxy=server.proxy)
    report = asyncio.run(shut_down(address, reason=reason))
    run_output().report(report, lambda console, _: console.print(f"the server ends: process {report.pid}"))
