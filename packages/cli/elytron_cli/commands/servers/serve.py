"""A server over the store."""

import asyncio
import gc
import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import click

from elytron_cli.input.options import command, common
from elytron_cli.runner import output, settings
from elytron_cli.server.extras import Wanted, beside
from elytron_cli.session import opened, without_core_dumps
from elytron_cli.terminal.output import Output
from elytron_core import limits
from elytron_core.errors import MissingExtra
from elytron_core.model import Value
from elytron_gateway import limits as gateway_limits
from elytron_mcp_shell import DEFAULT_SETS, ToolSet
from elytron_store import WhenMissing

if TYPE_CHECKING:
    from elytron_adapter.admission_control import Bounds
    from elytron_http_shell.server import Started
    from elytron_proxy import ProxySettings


class ServeReport(Value):
    """A server's address, mode, store, process and protocols, and the first operator's key if it was asked for."""

    address: str
    mode: str
    store: str
    pid: int
    protocols: tuple[str, ...]
    operator_key: str | None = None


_BESIDE = (
    click.option("--work", is_flag=True, help="Do the jobs that were put off, of every space."),
    click.option(
        "--projection-events", is_flag=True, help="Leave an entry in the journal for each projection; no word of it."
    ),
    click.option(
        "--share-store", is_flag=True, help="Let runtimes elsewhere keep their memory here (gateway+http://)."
    ),
    click.option(
        "--upstream", metavar="URL", help="An EverOS server for the gateway's memories, in place of the store."
    ),
    click.option(
        "--llm-upstream",
        "llm_upstreams",
        multiple=True,
        metavar="[PREFIX=]URL",
        help="A model server, shown with memory below /llm (`elytron proxy`).",
    ),
    click.option(
        "--llm-trusted-peer",
        "llm_peers",
        multiple=True,
        metavar="ADDRESS",
        help="A program, or network, whose headers below /llm say for which user it asks.",
    ),
    click.option("--resource-host", "hosts", multiple=True, metavar="NAME", help="A host to read resources from."),
    click.option(
        "--resource-folder",
        "folders",
        multiple=True,
        type=click.Path(path_type=Path, exists=True, file_okay=False),
        help="A folder to read resources from.",
    ),
    click.option(
        "--resource-type", "types", multiple=True, metavar="MIME", help="A kind of file to take in; without: all."
    ),
    click.option(
        "--upload-bytes",
        type=click.IntRange(1, gateway_limits.RESOURCE_BYTES),
        help="The largest file; without: 50 MiB.",
    ),
    click.option(
        "--mcp-tools",
        "tools",
        multiple=True,
        type=click.Choice([item.value for item in ToolSet]),
        default=tuple(item.value for item in DEFAULT_SETS),
        show_default=True,
        help="Which tools MCP shows; may be repeated.",
    ),
    click.option("--mcp-private", is_flag=True, help="Let what calls over MCP ask for private memories."),
    click.option(
        "--public-url", metavar="URL", help="Where others reach the server, for its A2A card; behind a proxy."
    ),
    click.option(
        "--quota-messages", type=click.IntRange(0), help="Messages that a gateway user may hold; without: any."
    ),
    click.option("--quota-bytes", type=click.IntRange(0), help="Bytes in a gateway user's resources; without: any."),
)


def _wanting(body: Callable[..., int | None]) -> Callable[..., int | None]:
    """Give a command the options that say what is shown beside the operations, as one value `wanted`."""

    @wraps(body)
    def told(
        *,
        work: bool,
        projection_events: bool,
        share_store: bool,
        upstream: str | None,
        llm_upstreams: tuple[str, ...],
        llm_peers: tuple[str, ...],
        hosts: tuple[str, ...],
        folders: tuple[Path, ...],
        types: tuple[str, ...],
        upload_bytes: int | None,
        tools: tuple[str, ...],
        mcp_private: bool,
        public_url: str | None,
        quota_messages: int | None,
        quota_bytes: int | None,
        **others: Any,
    ) -> int | None:
        secret = settings().gateway_secret
        wanted = Wanted(
            share_store=share_store,
            upstream=upstream,
            llm=_llm(llm_upstreams, llm_peers),
            hosts=frozenset(hosts),
            folders=folders,
            types=types,
            upload_bytes=upload_bytes,
            secret=secret.value if secret is not None else None,
            quota_messages=quota_messages,
            quota_bytes=quota_bytes,
            tools=frozenset(map(ToolSet, tools)),
            mcp_private=mcp_private,
            public_url=public_url,
            work=work,
            projection_events=projection_events,
        )
        return body(wanted=wanted, **others)

    for option in reversed(_BESIDE):
        told = option(told)
    return told


def _llm(upstreams: tuple[str, ...], peers: tuple[str, ...]) -> "ProxySettings | None":
    """Return how model APIs are shown below /llm; None if they are not."""
    if not upstreams:
        return None
    from elytron_proxy.settings import ProxySettings, networks_of, upstreams_of

    return ProxySettings(
        upstreams=upstreams_of(upstreams, environment=os.environ),
        space=settings().space.value,
        trusted_peers=networks_of(peers),
    )


_BOUNDS = (
    click.option(
        "--calls-per-minute",
        type=click.IntRange(0),
        default=limits.CALLS_PER_MINUTE,
        show_default=True,
        help="Of one user or device; 0: any number.",
    ),
    click.option(
        "--wrong-credentials-per-minute",
        type=click.IntRange(0),
        default=limits.WRONG_CREDENTIALS_PER_MINUTE,
        show_default=True,
        help="From one address; 0: any number. Behind a proxy everybody has its address.",
    ),
)


def _bounding(body: Callable[..., int | None]) -> Callable[..., int | None]:
    """Give a command the options that say how much is taken on, as one value `bounds`."""

    @wraps(body)
    def told(*, calls_per_minute: int, wrong_credentials_per_minute: int, **others: Any) -> int | None:
        from elytron_adapter.admission_control import Bounds

        bounds = Bounds(calls_per_minute=calls_per_minute, wrong_credentials_per_minute=wrong_credentials_per_minute)
        return body(bounds=bounds, **others)

    for option in reversed(_BOUNDS):
        told = option(told)
    return told


class Reach(TypedDict):
    """Names, proxies and openness of a server, as `Serving` takes them."""

    names: frozenset[str]
    trusted_proxies: frozenset[str]
    is_described_to_all: bool


_REACH = (
    click.option("--allow-host", "names", multiple=True, metavar="NAME", help="A name that the server is reached by."),
    click.option(
        "--trusted-proxy",
        "proxies",
        multiple=True,
        metavar="ADDRESS",
        help="A proxy, or network of them, whose X-Forwarded-For and -Proto are believed.",
    ),
    click.option(
        "--public-openapi", "is_public", is_flag=True, help="Show /openapi.json and /v1/operations without a key."
    ),
)


def _reached(body: Callable[..., int | None]) -> Callable[..., int | None]:
    """Give a command the options that say how a server is reached, as one value `reach`."""

    @wraps(body)
    def told(*, names: tuple[str, ...], proxies: tuple[str, ...], is_public: bool, **others: Any) -> int | None:
        reach = Reach(names=frozenset(names), trusted_proxies=frozenset(proxies), is_described_to_all=is_public)
        return body(reach=reach, **others)

    for option in reversed(_REACH):
        told = option(told)
    return told


@command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", type=click.IntRange(0, 65_535), default=8010, show_default=True, help="Port; 0: any free one.")
@click.option("--development", is_flag=True, help="Ask nobody for a key. On this machine alone.")
@click.option("--operator-key", is_flag=True, help="Make an operator's first key and print it, this once.")
@click.option("--log", "style", type=click.Choice(["console", "json"]), help="Without: console at a terminal.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="info",
    show_default=True,
    help="From which level on is logged; requests are at info.",
)
@click.option("--otel", is_flag=True, help="Send spans over OTLP, as OTEL_ variables say.")
@_reached
@_bounding
@common
@_wanting
def serve(
    *,
    host: str,
    port: int,
    development: bool,
    operator_key: bool,
    reach: "Reach",
    style: str | None,
    log_level: str,
    otel: bool,
    bounds: "Bounds",
    wanted: Wanted,
) -> int | None:
    """Serve the store over HTTP, until it is interrupted.

    Callers need an access key (`elytron access add`). It listens on this machine alone unless --host says otherwise.
    """
    from elytron_http_shell.server import Serving, Started
    from elytron_http_shell.server import serve as served

    log_to_stderr(style, log_level)
    without_core_dumps()
    found, out = settings(), output()
    serving = Serving(
        host=host,
        port=port,
        development=development,
        **reach,
        bounds=bounds,
        spans=otel,
        operator_key=operator_key,
    )

    def started(told: Started, protocols: tuple[str, ...]) -> None:
        _ready(out, _report(told, _shown(found.store.value), protocols), wants_key=operator_key)

    async def work() -> None:
        async with (
            opened(found, when_missing=WhenMissing.MAKE, projection_events=wanted.projection_events) as session,
            beside(session.runtime, wanted) as more,
        ):
            await served(
                session.runtime,
                serving,
                started=lambda told: started(told, more.protocols),
                further=more.further,
                known=more.known,
            )

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(work())
    return None


def _report(told: "Started", store: str, protocols: tuple[str, ...]) -> ServeReport:
    return ServeReport(
        address=told.address,
        mode=told.mode,
        store=store,
        pid=os.getpid(),
        protocols=protocols,
        operator_key=told.operator_key,
    )


def log_to_stderr(style: str | None, level: str, /) -> None:
    """Log what this process does, as JSON or for people. Raises MissingExtra."""
    try:
        from elytron_http_shell.telemetry.logs import LogStyle, configure
    except ImportError as error:
        raise MissingExtra(extra="server", purpose="the HTTP server") from error

    configure(LogStyle(style or ("console" if sys.stderr.isatty() else "json")), level=level)


def _ready(out: Output, report: ServeReport, *, wants_key: bool) -> None:
    """Say where it listens; spare the search for cyclic garbage what is loaded by now, which stays for good."""
    lines = [
        f"listening on {report.address}",
        f"  its store: {report.store}",
        f"  who may call: {report.mode}",
        f"  speaks: {', '.join(report.protocols)}",
        f"  try it: {report.address}/docs",
        f"  stop it: Ctrl-C, or kill {report.pid}",
    ]
    if report.operator_key is not None:
        lines.insert(4, f"  operator's key, shown this once: {report.operator_key}")
    elif wants_key:
        lines.insert(
            4, "  operator's key: there is one, shown when it was made; `elytron access rotate` gives a new one"
        )
    out.report(report, lambda console: console.print("\n".join(lines), soft_wrap=True))
    sys.stdout.flush()  # the process that started this one may read it through a pipe
    gc.collect()
    gc.freeze()


def _shown(store: str) -> str:
    """Return where the store is, in full: other commands are started in other folders."""
    return store if ":" in store else str(Path(store).absolute())


def loop_factory():
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop
