"""The `serve` command: a server over the store."""

import asyncio
import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from elytron_adapter.surface import SurfaceFigure
from elytron_cli.config import RunSettings
from elytron_cli.input.options import OneOf, common_options, page_command
from elytron_cli.input.server_options import (
    AGENT_LIMITS,
    BOUND_OPTIONS,
    RAG_LIMITS,
    REACH_OPTIONS,
    NamedLimits,
    address_kept,
    listening_options,
    logging_options,
    private_file,
    rag_settings,
    run_budget,
    several_options,
)
from elytron_cli.server.console_host import console_host
from elytron_cli.server.optional_surfaces import OptionalSurfaces, SurfaceOptions, open_surfaces
from elytron_cli.server.workers import end_with_input, read_server_key, require_workers, run_workers
from elytron_cli.session import (
    CommandSession,
    open_session,
    require_own_store,
    run_output,
    run_settings,
    without_core_dumps,
)
from elytron_cli.terminal.output import CommandOutput
from elytron_core.errors import MissingExtra
from elytron_core.model import Value
from elytron_core.ports.store import Store
from elytron_gateway import limits as gateway_limits
from elytron_mcp_shell import DEFAULT_SETS, ToolSet
from elytron_store import WhenMissing, parse_url
from elytron_store.backup import latest_backup, size_on_disk
from elytron_store.engine import innermost_store

if TYPE_CHECKING:
    from elytron_agent.service.companion import ServiceSettings
    from elytron_http_shell.server import ServingSettings, StartedServer
    from elytron_proxy import ProxySettings

WORKERS_MAX: Final = 64
"""Processes of one server at most."""


class ServeReport(Value):
    """A server's address, mode, store, process and protocols, and the first operator's key if requested."""

    address: str
    mode: str
    store: str
    pid: int
    protocols: tuple[str, ...]
    operator_key: str | None = None
    operator_key_file: str | None = None
    """The file that the first operator's key was written to."""
    workers: tuple[int, ...] = ()
    """Processes that answer, if there are several."""


_WORKERS: Final = (
    click.option(
        "--workers",
        type=click.IntRange(1, WORKERS_MAX),
        default=1,
        show_default=True,
        help="Number of worker processes; each has its own indexes and rate limits.",
    ),
    click.option("--listen-fd", "descriptor", type=click.IntRange(0), hidden=True, help="The socket of a worker."),
)
_BESIDE: Final = (
    click.option("--work", is_flag=True, help="Run deferred jobs of every space."),
    click.option(
        "--projection-events", is_flag=True, help="Record each projection in the journal, without its content."
    ),
    click.option("--share-store", is_flag=True, help="Share the store with other runtimes (gateway+http://)."),
    click.option("--upstream", metavar="URL", help="EverOS server that stores the gateway's memories."),
    click.option(
        "--llm-upstream",
        "llm_upstreams",
        multiple=True,
        metavar="[PREFIX=]URL",
        help="Model server to serve with memory below /llm (see `elytron proxy`).",
    ),
    click.option(
        "--llm-trusted-peer",
        "llm_peers",
        multiple=True,
        metavar="ADDRESS",
        help="Program or network whose headers below /llm may name the user.",
    ),
    click.option(
        "--llm-pass",
        "llm_passed",
        multiple=True,
        metavar="METHOD:/PATH",
        help="Additional route to pass through below /llm for every caller; {id} matches one segment.",
    ),
    click.option("--resource-host", "hosts", multiple=True, metavar="NAME", help="Host to read resources from."),
    click.option(
        "--resource-folder",
        "folders",
        multiple=True,
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="Folder to read resources from.",
    ),
    click.option(
        "--resource-type", "types", multiple=True, metavar="MIME", help="Media type of accepted files. [default: all]"
    ),
    click.option(
        "--upload-bytes",
        type=click.IntRange(1, gateway_limits.RESOURCE_BYTES),
        help="Maximum size of a file. [default: 50 MiB]",
    ),
    click.option(
        "--mcp-tools",
        "tools",
        multiple=True,
        type=OneOf(ToolSet),
        default=tuple(item.value for item in DEFAULT_SETS),
        show_default=True,
        help="Set of tools to offer over MCP.",
    ),
    click.option("--mcp-private", is_flag=True, help="Allow MCP callers to request private memories."),
    click.option(
        "--mcp-issuer",
        "mcp_issuers",
        multiple=True,
        metavar="URL",
        help="OAuth issuer that MCP hosts sign in at; a proxy must turn its tokens into access keys.",
    ),
    click.option("--public-url", metavar="URL", help="Public address of the server behind a proxy."),
    click.option("--quota-messages", type=click.IntRange(0), help="Messages per gateway user. [default: unlimited]"),
    click.option("--quota-bytes", type=click.IntRange(0), help="Resource bytes per gateway user. [default: unlimited]"),
)
"""Options for surfaces besides the operations: the fields of `SurfaceOptions`, and the model servers below /llm."""
_AGENT: Final = (
    click.option(
        "--agent-model",
        "agent_models",
        multiple=True,
        metavar="MODEL",
        help="Model for the agent of each user, such as ollama:llama3.2; with several, users choose.",
    ),
    click.option("--agent-summary-model", metavar="MODEL", help="Model for summaries. [default: the agent's model]"),
    click.option("--agent-vision-model", metavar="MODEL", help="Model for images. [default: the agent's model]"),
    click.option(
        "--agent-context-tokens", type=click.IntRange(1_000), metavar="N", help="Context size of the models, in tokens."
    ),
    click.option(
        "--agent-page",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        metavar="FILE",
        help="HTML file to serve as the page /agent instead of the default one.",
    ),
    click.option(
        "--agent-prompt",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        help="File with the agents' system prompt, instead of the default one.",
    ),
    click.option(
        "--agent-off",
        multiple=True,
        type=click.Choice(["all", "compaction", "embedding", "prompt", "push", "responses", "schedules", "tools"]),
        help="Feature of agents to switch off.",
    ),
    click.option(
        "--agent-limit",
        "agent_limits",
        multiple=True,
        callback=NamedLimits(AGENT_LIMITS),
        metavar="NAME=N",
        help=f"Limit of one turn ({', '.join(AGENT_LIMITS)}).",
    ),
    click.option(
        "--rag-limit",
        "rag_limits",
        multiple=True,
        callback=NamedLimits(RAG_LIMITS),
        metavar="NAME=N",
        help="Quota, limit or alert for embeddings, such as user-rows=1000.",
    ),
    click.option("--no-schedules", is_flag=True, help="Leave schedules and push messages to another process."),
    click.option(
        "--push-host",
        "push_hosts",
        multiple=True,
        metavar="NAME",
        help="Host in a private network to which push messages may be sent, even without TLS.",
    ),
    click.option("--push-contact", metavar="URL", help="Contact for push services: mailto:... or https://..."),
    click.option("--web-search", metavar="NAME=URL", help="Web search for agents, for example searxng=http://..."),
)


@page_command("serve")
@listening_options(8010)
@click.option("--development", is_flag=True, help="Require no access key; only for this machine.")
@click.option("--operator-key", is_flag=True, help="Create the first operator key and print it once.")
@click.option(
    "--operator-key-file",
    "first_key_file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="File for the first operator key, readable only by its owner, instead of printing it.",
)
@click.option("--console/--no-console", default=True, show_default=True, help="Serve the console at /console.")
@logging_options("info", "Minimum level to log; requests are logged at info.")
@click.option("--otel", "spans", is_flag=True, help="Export spans over OTLP, configured by the OTEL_ variables.")
@several_options(*_WORKERS)
@several_options(*REACH_OPTIONS)
@several_options(*BOUND_OPTIONS)
@common_options
@several_options(*_BESIDE)
@several_options(*_AGENT)
def serve_command(
    *,
    style: str | None,
    log_level: str,
    names: tuple[str, ...],
    proxies: tuple[str, ...],
    is_public: bool,
    calls_per_minute: int,
    wrong_credentials_per_minute: int,
    llm_upstreams: tuple[str, ...],
    llm_peers: tuple[str, ...],
    llm_passed: tuple[str, ...],
    console: bool,
    workers: int,
    node_url: str | None,
    first_key_file: Path | None,
    **values: Any,
) -> int | None:
    """Serve the store over HTTP until interrupted.

    Callers need an access key (`elytron access add`). Only this machine can connect unless --host says otherwise.
    """
    from elytron_adapter.admission_control import LoadBounds
    from elytron_http_shell.server import ServingSettings

    log_to_stderr(style, log_level, extra="agent" if values["agent_models"] else "proxy" if llm_upstreams else "server")
    without_core_dumps()
    settings, output = run_settings(), run_output()
    require_own_store(settings)
    if workers > 1:
        return _serve_by_workers(workers, values["host"], values["port"], settings, output)
    values["operator_key"] |= first_key_file is not None
    serving_settings = ServingSettings(
        **{name: values.pop(name) for name in _SERVING},
        names=frozenset((*names, *_node_hosts(node_url))),
        trusted_proxies=frozenset(proxies),
        is_described_to_all=is_public,
        bounds=LoadBounds(calls_per_minute=calls_per_minute, wrong_credentials_per_minute=wrong_credentials_per_minute),
    )
    is_embedding_off = bool({"all", "embedding"} & set(values["agent_off"]))
    rag = rag_settings(values.pop("rag_limits"), is_off=is_embedding_off)
    agent = _agent_settings(**{name: values.pop(name) for name in _AGENT_OPTIONS})
    llm = _proxy_settings(llm_upstreams, llm_peers, llm_passed)
    surfaces = SurfaceOptions(llm=llm, agent=agent, rag=rag, node_url=node_url, **values)

    server_key = read_server_key() if serving_settings.descriptor is not None else None

    async def work() -> None:
        async with open_session(
            settings, when_missing=WhenMissing.MAKE, projection_events=surfaces.projection_events
        ) as session:
            if server_key is not None:
                session.runtime.secrets.share_sessions(server_key)
            hosted_console = console_host(settings, session.runtime) if console else None
            async with open_surfaces(session.runtime, replace(surfaces, console=hosted_console)) as extras:
                await serve_session(session, serving_settings, extras, settings, output, key_file=first_key_file)

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(work())
    return None


_SERVING: Final = ("host", "port", "descriptor", "development", "operator_key", "spans")


def _node_hosts(url: str | None) -> tuple[str, ...]:
    """Return the host of the server's own address, if it has one."""
    if url is None:
        return ()
    from elytron_adapter.http.store import node_host

    return (node_host(url),)


def _serve_by_workers(count: int, host: str, port: int, settings: RunSettings, output: CommandOutput) -> int:
    """Serve with several processes, started with this one's arguments; return the exit code."""
    from elytron_http_shell.server import bound_socket, listening_address

    require_workers(settings.store.value)
    with bound_socket(host, port) as listening_socket, ExitStack() as stack:
        address = listening_address(listening_socket)

        def ready(first: Mapping[str, Any], processes: Sequence[int]) -> None:
            # Only now, so that other commands find a server that answers.
            stack.enter_context(address_kept(settings.store.value, address))
            process_fields = {"pid": os.getpid(), "workers": tuple(processes), "protocols": tuple(first["protocols"])}
            _tell_ready(output, ServeReport.model_validate({**first, **process_fields}))

        return asyncio.run(run_workers(sys.argv[1:], listening_socket, count, ready))


async def serve_session(
    session: CommandSession,
    serving_settings: "ServingSettings",
    beside: OptionalSurfaces,
    settings: RunSettings,
    output: CommandOutput,
    /,
    *,
    ready: Callable[[str], object] | None = None,
    key_file: Path | None = None,
) -> None:
    """Serve the store of `session` with its additional surfaces, until it is ended. Raises as servers do.

    `ready` is given the address of the console when it can be opened. An operator's first key goes to `key_file`.
    """
    from elytron_http_shell.server import serve_http as served

    with ExitStack() as stack:
        # Opened before the key exists, which an unwritable file would lose.
        key_text = stack.enter_context(private_file(key_file)) if key_file is not None else None

        def started(server: "StartedServer") -> None:
            # The process that started the workers records their address.
            if serving_settings.descriptor is None:
                stack.enter_context(address_kept(settings.store.value, server.address))
            else:
                end_with_input(server.end)
            report = _serve_report(server, settings.store.masked_value, beside.protocols)
            if key_text is not None and server.operator_key is not None:
                key_text.write(f"{server.operator_key}\n")
                key_text.flush()
                report = report.model_copy(update={"operator_key": None, "operator_key_file": str(key_file)})
            _tell_ready(output, report, has_key=serving_settings.operator_key)
            if ready is not None:
                ready(f"{server.address}/console")

        figures = (
            lambda: store_figures(settings.store.value),
            lambda: engine_figures(session.runtime.context.store),
        )
        await served(
            session.runtime,
            serving_settings,
            started=started,
            further=beside.further,
            authenticators=beside.authenticators,
            figures=figures,
        )


def _serve_report(server: "StartedServer", store: str, protocols: tuple[str, ...]) -> ServeReport:
    return ServeReport(
        address=server.address,
        mode=server.mode,
        # Absolute, because other commands are started in other folders.
        store=store if ":" in store else str(Path(store).absolute()),
        pid=os.getpid(),
        protocols=protocols,
        operator_key=server.operator_key,
    )


def engine_figures(store: Store) -> Iterator[SurfaceFigure]:
    """Yield the metrics of a store's engine in this process, such as its connections."""
    figures: Mapping[str, tuple[str, float]] = getattr(innermost_store(store), "figures", {})
    for name, (text, value) in figures.items():
        yield SurfaceFigure(f"elytron_{name}", text, value)


def store_figures(url: str) -> Iterator[SurfaceFigure]:
    """Yield the size of the store's files and the time of its last `elytron backup`; nothing for a remote store."""
    path = parse_url(url).path
    if path is None:
        return
    yield SurfaceFigure("elytron_store_bytes", "Bytes of the store's files.", size_on_disk(path))
    backup_at = latest_backup(path)
    if backup_at is not None:
        text = "Time of the latest `elytron backup` of the store, in seconds since 1970."
        yield SurfaceFigure("elytron_backup_timestamp_seconds", text, backup_at / 1000)


def _proxy_settings(
    upstreams: tuple[str, ...], peers: tuple[str, ...], passed: tuple[str, ...]
) -> "ProxySettings | None":
    """Return how model APIs are served below /llm; None if they are not."""
    if not upstreams:
        return None
    from elytron_outbound.addresses import networks_of
    from elytron_proxy.settings import ProxySettings, pass_routes_of, upstreams_of

    return ProxySettings(
        upstreams=upstreams_of(upstreams, environment=os.environ),
        space=run_settings().space.value,
        trusted_peers=networks_of(peers, field="trusted_peer"),
        passed=pass_routes_of(passed),
    )


_AGENT_OPTIONS: Final = (
    *("agent_models", "agent_summary_model", "agent_vision_model", "agent_context_tokens"),
    *("agent_page", "agent_prompt", "agent_off", "no_schedules", "push_hosts"),
    *("push_contact", "web_search", "agent_limits"),
)


def _agent_settings(
    *,
    agent_models: tuple[str, ...],
    agent_summary_model: str | None,
    agent_vision_model: str | None,
    agent_context_tokens: int | None,
    agent_page: Path | None,
    agent_prompt: Path | None,
    agent_off: tuple[str, ...],
    no_schedules: bool,
    push_hosts: tuple[str, ...],
    push_contact: str | None,
    web_search: str | None,
    agent_limits: Sequence[tuple[str, Any]],
) -> "ServiceSettings | None":
    """Return how agents are served; None if they are not."""
    if not agent_models:
        return None
    from elytron_agent.loop.tools import open_web_search
    from elytron_agent.service.companion import AgentPart, ServiceSettings
    from elytron_models import address_of, require_key

    for address in (*agent_models, agent_summary_model, agent_vision_model):
        if address is not None:
            require_key(address_of(address), os.environ)
    return ServiceSettings(
        models=agent_models,
        summary_model=agent_summary_model,
        vision_model=agent_vision_model,
        context_tokens=agent_context_tokens,
        page=agent_page.read_bytes() if agent_page is not None else None,
        prompt=agent_prompt.read_text(encoding="utf-8").strip() if agent_prompt is not None else None,
        web_search=open_web_search(web_search) if web_search is not None else None,
        off=frozenset(map(AgentPart, agent_off)),
        runs_schedules=not no_schedules,
        push_hosts=push_hosts,
        push_contact=push_contact,
        budget=run_budget(agent_limits),
    )


_PURPOSES: Final = {"server": "the HTTP server", "proxy": "the memory proxy", "agent": "a server of agents"}


def log_to_stderr(style: str | None, level: str, /, *, extra: str = "server") -> None:
    """Log this process's work, as JSON or for people. Raises MissingExtra, which names `extra`."""
    try:
        from elytron_http_shell.telemetry.logs import LogStyle, configure_logs
    except ImportError as error:
        raise MissingExtra(extra=extra, purpose=_PURPOSES[extra]) from error

    configure_logs(LogStyle(style or ("console" if sys.stderr.isatty() else "json")), level=level)


def _tell_ready(output: CommandOutput, report: ServeReport, *, has_key: bool = False) -> None:
    """Print where it listens, and reduce cyclic garbage collection from then on."""
    lines = [
        f"listening on {report.address}",
        f"  store: {report.store}",
        f"  access: {report.mode}",
        f"  protocols: {', '.join(report.protocols)}",
        f"  try it: {report.address}/docs",
        *([f"  console: {report.address}/console"] if "console" in report.protocols else []),
        *([f"  workers: {len(report.workers)} processes"] if report.workers else []),
        f"  stop: Ctrl-C, or kill {report.pid}",
    ]
    if report.operator_key_file is not None:
        lines.insert(4, f"  operator key, written to a file once: {report.operator_key_file}")
    elif report.operator_key is not None:
        lines.insert(4, f"  operator key, shown only once: {report.operator_key}")
    elif has_key:
        lines.insert(4, "  operator key: created earlier; `elytron access rotate` replaces it")
    output.report(report, lambda console, _: console.print("\n".join(lines), soft_wrap=True))
    sys.stdout.flush()  # the process that started this one may read it through a pipe
    ease_collector()


def ease_collector() -> None:
    """Exclude everything loaded so far from cyclic garbage collection, and collect less often.

    It stops all turns for a tenth of a second to half a second whenever it goes through the whole heap.
    """
    # Collected first, so that no garbage is frozen.
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)


def loop_factory():
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


_YOUNG_OBJECTS: Final = 10_000
"""New objects after which cyclic garbage is collected; Python's own 700 are what a turn or two of an agent creates."""
