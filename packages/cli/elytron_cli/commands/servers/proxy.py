"""The command that serves a model API with memory added."""

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from elytron_cli.commands.servers.serve import (
    log_to_stderr,
    loop_factory,
)
from elytron_cli.input.options import choice_option, common_options, page_command
from elytron_cli.input.server_options import (
    listening_options,
    logging_options,
)
from elytron_cli.session import open_session, require_own_store, run_output, run_settings, without_core_dumps
from elytron_cli.terminal.output import CommandOutput
from elytron_core import limits
from elytron_core.errors import PermissionRefused
from elytron_core.model import Value
from elytron_outbound.addresses import networks_of
from elytron_proxy import BlockPlacement, MemoryUse, upstreams_of
from elytron_proxy import limits as proxy_limits
from elytron_proxy.settings import DEFAULT_UPSTREAM, PORT, pass_routes_of
from elytron_store import WhenMissing

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
    serving_settings = ServingSettings(host=host, port=port, development=development, names=frozenset(hosts))
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
        runner.run(_serve_proxy(proxy_settings, serving_settings))
    return None


async def _serve_proxy(proxy_settings: "ProxySettings", serving: Any) -> None:
    from elytron_adapter.access_keys import AccessKeys, DevelopmentCallers
    from elytron_adapter.admission_control import FairPlaces
    from elytron_adapter.dispatch import CallerAdmission, OperationDispatcher
    from elytron_adapter.key_quotas import WrongAttempts
    from elytron_cli.server.optional_surfaces import require_entry
    from elytron_http_shell.server import is_loopback, serve_watched
    from elytron_proxy import ProxyApp

    settings, output = run_settings(), run_output()
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
        needs_no_key = serving.development or not has_keys
        admission = CallerAdmission(
            OperationDispatcher(memory),
            authenticator=DevelopmentCallers() if needs_no_key else keys,
            shedding=FairPlaces(serving.bounds),
            attempts=WrongAttempts(memory.context.clock),
        )
        mode = f"every caller on this machine, as {settings.space.value!r}" if needs_no_key else "access keys"

        def started(server: "StartedServer") -> None:
            _tell_proxy(output, server, proxy_settings, settings.store.masked_value)

        app = ProxyApp(admission, proxy_settings)
        figures = (app.figures.prometheus_figures,)
        await serve_watched(app, admission, serving, started=started, mode=mode, figures=figures)


def _tell_proxy(output: CommandOutput, server: "StartedServer", proxy_settings: "ProxySettings", store: str) -> None:
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
    output.report(report, lambda console, _: console.print("\n".join(lines), soft_wrap=True))
    sys.stdout.flush()
