"""Optional surfaces of a server: the gateway, MCP, A2A, the shared store, agents, and the console."""

from collections.abc import AsyncGenerator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from elytron.flows.worker import JobWorker
from elytron.ops.inspection import catalog_of
from elytron.runtime import MemoryRuntime
from elytron_a2a_shell.app import a2a_surfaces
from elytron_adapter.access_keys import Authenticator
from elytron_console import (
    ConsoleHost,
)
from elytron_core.contracts.inspection import CapabilityState
from elytron_core.errors import (
    InvalidInput,
    MissingExtra,
    NotFound,
    Unsupported,
)
from elytron_core.planes.jobs import MAINTENANCE
from elytron_gateway import limits as gateway_limits
from elytron_mcp_shell import DEFAULT_SETS, ToolSet
from elytron_mcp_shell.app import mcp_surfaces

if TYPE_CHECKING:
    from elytron.context import OperationContext
    from elytron_adapter.dispatch import CallerAdmission
    from elytron_adapter.surface import Family, Surface
    from elytron_agent.rag.rag_surfaces import RagSettings
    from elytron_agent.service.companion import ServiceSettings
    from elytron_gateway.service import MemoryGateway
    from elytron_proxy import ProxySettings


def profile_allows(context: "OperationContext", entry: str, /) -> bool:
    """True if the memory's profile allows `entry`, by the catalog's name, and private material to leave."""
    capability_state: CapabilityState = getattr(catalog_of(context).entry, entry)
    return capability_state.profile_allows and capability_state.privacy_permits


def require_entry(context: "OperationContext", entry: str, /) -> None:
    """Raise Unsupported unless the memory's profile allows `entry`."""
    if not profile_allows(context, entry):
        name = context.profile.name.value
        raise Unsupported(f"the profile {name} has no {entry}: use another profile, or open the memory in process")


def speaks_mcp() -> bool:
    """True if the extra "mcp" is installed."""
    return find_spec("mcp") is not None


def speaks_a2a() -> bool:
    """True if the extra "a2a" is installed."""
    return find_spec("a2a") is not None


@dataclass(frozen=True, slots=True)
class SurfaceOptions:
    """The surfaces and limits requested on the command line."""

    share_store: bool = False
    upstream: str | None = None
    llm: "ProxySettings | None" = None
    hosts: Collection[str] = ()
    folders: tuple[Path, ...] = ()
    types: tuple[str, ...] = ()
    upload_bytes: int | None = None
    quota_messages: int | None = None
    quota_bytes: int | None = None
    tools: Collection[ToolSet] = DEFAULT_SETS
    mcp_private: bool = False
    """True if callers over MCP may ask for private memories."""
    mcp_issuers: tuple[str, ...] = ()
    """Where hosts without a key sign in."""
    public_url: str | None = None
    node_url: str | None = None
    """Address of this server in the store's list of nodes."""
    work: bool = False
    projection_events: bool = False
    console: ConsoleHost | None = None
    agent: "ServiceSettings | None" = None
    rag: "RagSettings | None" = None


@dataclass(frozen=True, slots=True)
class OptionalSurfaces:
    """Families of surfaces, additional authenticators, and the protocols spoken."""

    further: "tuple[Family, ...]"
    authenticators: tuple[Authenticator, ...]
    protocols: tuple[str, ...]


@asynccontextmanager
async def open_surfaces(runtime: MemoryRuntime, surfaces: SurfaceOptions, /) -> AsyncGenerator[OptionalSurfaces]:
    """Yield the additional surfaces of `runtime` while it is served.

    Raises Unsupported if its profile has no server; protocols that the profile does not allow are left out.
    """
    from elytron_adapter.http.secrets import secret_surfaces
    from elytron_adapter.http.store import store_surfaces
    from elytron_gateway.routes.surfaces import gateway_surfaces
    from elytron_gateway.users import UserKeys
    from elytron_proxy.app import llm_surfaces

    require_entry(runtime.context, "http_server")
    async with AsyncExitStack() as stack:
        gateway = await _opened_gateway(runtime, surfaces, stack)
        if surfaces.work:
            worker = JobWorker(runtime.context, kinds=frozenset({MAINTENANCE}))
            worker.start()
            stack.push_async_callback(worker.stop)
        store_families = (store_surfaces,) if surfaces.share_store else ()
        node_families = (_node_family(runtime, surfaces.node_url),) if surfaces.node_url is not None else ()
        spoken_protocols = [
            protocol for protocol in _spoken_protocols(surfaces) if profile_allows(runtime.context, protocol.entry)
        ]
        models = (llm_surfaces(surfaces.llm),) if surfaces.llm is not None else ()
        agents = _agent_families(surfaces)
        embedding_families = _embedding_families(runtime, surfaces)
        protocol_families = (
            *("http", "websocket", "sse"),
            *(protocol.name for protocol in spoken_protocols),
            *(("llm",) if models else ()),
            *(("agent",) if agents else ()),
            *(("rag",) if embedding_families else ()),
        )
        console = (
            (_console_family(surfaces.console, protocol_families, *agents),) if surfaces.console is not None else ()
        )
        entries = {"http_server", "wss_server", "webhook_receiver", *(protocol.entry for protocol in spoken_protocols)}
        if models:
            require_entry(runtime.context, "llm_gateway")
            entries.add("llm_gateway")
        runtime.context.entries.update(entries)
        stack.callback(runtime.context.entries.difference_update, entries)
        yield OptionalSurfaces(
            further=(
                gateway_surfaces(gateway),
                secret_surfaces,
                *(protocol.family for protocol in spoken_protocols),
                *_missing_families(),
                *models,
                *agents,
                *embedding_families,
                *store_families,
                *node_families,
                *console,
            ),
            authenticators=(UserKeys(gateway.users),),
            protocols=(*protocol_families, *(("console",) if console else ())),
        )


async def _opened_gateway(runtime: MemoryRuntime, surfaces: SurfaceOptions, stack: AsyncExitStack) -> "MemoryGateway":
    """Return the gateway, whose upstream `stack` closes."""
    from elytron_gateway.extraction.file_text import readable_types
    from elytron_gateway.resources import AllowedSources
    from elytron_gateway.service import GatewayOptions, MemoryGateway, QuotaSettings, UpstreamCatchUp
    from elytron_gateway.upstream.everos import EverOsUpstream

    remote_upstream = None
    if surfaces.upstream is not None:
        remote_upstream = EverOsUpstream(surfaces.upstream, clock=runtime.context.clock)
        stack.push_async_callback(remote_upstream.close)
    options = GatewayOptions(
        allowed=AllowedSources(frozenset(surfaces.hosts), surfaces.folders),
        resource_bytes=surfaces.upload_bytes or gateway_limits.RESOURCE_BYTES,
        resource_types=_media_types(
            surfaces.types, readable_types(reads_media=remote_upstream is not None and remote_upstream.reads_media)
        ),
        quota=QuotaSettings(messages=surfaces.quota_messages, resource_bytes=surfaces.quota_bytes),
    )
    gateway = MemoryGateway(runtime, upstream=remote_upstream, options=options)
    if remote_upstream is not None:
        catching_up = UpstreamCatchUp(gateway)
        catching_up.start()
        stack.push_async_callback(catching_up.stop)
    return gateway


def _node_family(runtime: MemoryRuntime, url: str) -> "Family":
    from elytron_adapter.http.store import leases_of, node_surfaces

    return node_surfaces(leases_of(runtime.context.store), url)


def _console_family(host: ConsoleHost, protocols: tuple[str, ...], agents: "Family | None" = None) -> "Family":
    from elytron_console import console_surfaces

    return console_surfaces(replace(host, protocols=protocols, agents=agents))


def _agent_families(surface_options: SurfaceOptions) -> "tuple[Family, ...]":
    """Return the family of the agent's routes, if enabled."""
    if surface_options.agent is None:
        return ()
    from elytron_agent.service.surfaces import agent_surfaces

    family = agent_surfaces(surface_options.agent)

    @cache
    def once(admission: "CallerAdmission") -> "tuple[Surface, ...]":
        return tuple(family(admission))  # the console shows the routes of the same service

    return (once,)


def _embedding_families(runtime: MemoryRuntime, surfaces: SurfaceOptions) -> "tuple[Family, ...]":
    """Return the family of the routes of embeddings, if there is an embedder or an agent."""
    if surfaces.agent is None and runtime.context.encoders.current is None:
        return ()
    from elytron_agent.rag.rag_surfaces import rag_surfaces

    return (rag_surfaces(surfaces.rag),)


def _media_types(types: tuple[str, ...], readable: frozenset[str]) -> frozenset[str]:
    """Return the requested media types. Raises InvalidInput for one that is not `readable`."""
    if not readable.issuperset(types):
        problem = f"is not a readable type; choose from {', '.join(sorted(readable))}"
        raise InvalidInput(field="--resource-type", problem=problem)
    return frozenset(types)


@dataclass(frozen=True, slots=True)
class _SpokenProtocol:
    """A protocol whose extra is installed: its name, its name in the catalog, and its surfaces."""

    name: str
    entry: str
    family: "Family"


def _spoken_protocols(surfaces: SurfaceOptions) -> tuple[_SpokenProtocol, ...]:
    mcp = (
        (
            _SpokenProtocol(
                "mcp",
                "mcp_server",
                mcp_surfaces(
                    frozenset(surfaces.tools),
                    is_private=surfaces.mcp_private,
                    issuers=surfaces.mcp_issuers,
                    public_url=surfaces.public_url,
                ),
            ),
        )
        if speaks_mcp()
        else ()
    )
    a2a = (_SpokenProtocol("a2a", "a2a_bridge", a2a_surfaces(surfaces.public_url)),) if speaks_a2a() else ()
    return (*mcp, *a2a)


def _missing_families() -> "tuple[Family, ...]":
    """Return the families that report, at a protocol's path, which extra is missing."""
    missing_extras = (("/mcp", "mcp", "MCP over HTTP", speaks_mcp()), ("/a2a", "a2a", "A2A", speaks_a2a()))
    return tuple(
        _missing_family(path, extra, purpose) for path, extra, purpose, is_there in missing_extras if not is_there
    )


def _missing_family(path: str, extra: str, purpose: str) -> "Family":
    from starlette.requests import Request
    from starlette.responses import Response

    from elytron_adapter.envelope import RejectedAnswer
    from elytron_adapter.http.responses import refused_response, request_app, request_id_of
    from elytron_adapter.surface import Route, SurfaceAccess, build_surfaces

    async def refuse(request: Request) -> Response:
        reason = MissingExtra(extra=extra, purpose=purpose).message
        answer = RejectedAnswer(request_id=request_id_of(request.scope), error_key=NotFound.key, reason=reason)
        return refused_response(answer)

    routes = [
        Route(
            method, path, refuse, f"{extra}_missing_{method.lower()}", f"Say that the extra {extra} is not installed.",
            access=SurfaceAccess.PUBLIC, group="protocols",
        )
        for method in ("GET", "POST", "DELETE")
    ]  # fmt: skip
    return lambda _: build_surfaces(routes, request_app)
