"""Optional surfaces of a server: the gateway, MCP, A2A, the shared store, and the console's host."""

import os
import re
import shutil
import tempfile
from collections.abc import AsyncGenerator, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from elytron.flows.worker import JobWorker
from elytron.ops.inspection import catalog_of
from elytron.runtime import MemoryRuntime
from elytron_a2a_shell.app import a2a_surfaces
from elytron_adapter.access_keys import Authenticator
from elytron_assistants.hosts import HostName
from elytron_cli.agents.prompt_client import OWN_PROGRAM
from elytron_cli.config import FILE, FoundSetting, RunSettings, file_settings, ways_to_set
from elytron_console import (
    ConsoleHost,
    ModelConfig,
    ModelConfigChange,
    ModelSetting,
    SmokeCheck,
    StorageReport,
    models_in_use,
)
from elytron_core.contracts.inspection import CapabilityState
from elytron_core.errors import (
    ElytronError,
    InvalidInput,
    MissingExtra,
    NotFound,
    PermissionRefused,
    StoreUnavailable,
    Unsupported,
)
from elytron_core.planes.jobs import MAINTENANCE
from elytron_gateway import limits as gateway_limits
from elytron_mcp_shell import DEFAULT_SETS, ToolSet
from elytron_mcp_shell.app import mcp_surfaces
from elytron_store import parse_url
from elytron_store.backup import latest_backup, size_on_disk

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
    capability: CapabilityState = getattr(catalog_of(context).entry, entry)
    return capability.profile_allows and capability.privacy_permits


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
    from elytron_gateway.accounts import UserKeys
    from elytron_gateway.routes.surfaces import gateway_surfaces
    from elytron_proxy.app import llm_surfaces

    require_entry(runtime.context, "http_server")
    async with AsyncExitStack() as stack:
        gateway = await _opened_gateway(runtime, surfaces, stack)
        if surfaces.work:
            worker = JobWorker(runtime.context, kinds=frozenset({MAINTENANCE}))
            worker.start()
            stack.push_async_callback(worker.stop)
        shared = (store_surfaces,) if surfaces.share_store else ()
        nodes = (_node_family(runtime, surfaces.node_url),) if surfaces.node_url is not None else ()
        spoken_protocols = [
            protocol for protocol in _spoken_protocols(surfaces) if profile_allows(runtime.context, protocol.entry)
        ]
        models = (llm_surfaces(surfaces.llm),) if surfaces.llm is not None else ()
        agents = _agent_families(surfaces)
        embeddings = _embedding_families(runtime, surfaces)
        protocols = (
            *("http", "websocket", "sse"),
            *(protocol.name for protocol in spoken_protocols),
            *(("llm",) if models else ()),
            *(("agent",) if agents else ()),
            *(("rag",) if embeddings else ()),
        )
        console = (_console_family(surfaces.console, protocols, *agents),) if surfaces.console is not None else ()
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
                *embeddings,
                *shared,
                *nodes,
                *console,
            ),
            authenticators=(UserKeys(gateway.users),),
            protocols=(*protocols, *(("console",) if console else ())),
        )


async def _opened_gateway(runtime: MemoryRuntime, surfaces: SurfaceOptions, stack: AsyncExitStack) -> "MemoryGateway":
    """Return the gateway, whose upstream `stack` closes."""
    from elytron_gateway.extraction.file_text import readable_types
    from elytron_gateway.resources import AllowedSources
    from elytron_gateway.service import GatewayOptions, MemoryGateway, QuotaSettings, UpstreamCatchUp
    from elytron_gateway.upstream.everos import EverOsUpstream

    there = None
    if surfaces.upstream is not None:
        there = EverOsUpstream(surfaces.upstream, clock=runtime.context.clock)
        stack.push_async_callback(there.close)
    options = GatewayOptions(
        allowed=AllowedSources(frozenset(surfaces.hosts), surfaces.folders),
        resource_bytes=surfaces.upload_bytes or gateway_limits.RESOURCE_BYTES,
        resource_types=_media_types(
            surfaces.types, readable_types(reads_media=there is not None and there.reads_media)
        ),
        quota=QuotaSettings(messages=surfaces.quota_messages, resource_bytes=surfaces.quota_bytes),
    )
    gateway = MemoryGateway(runtime, upstream=there, options=options)
    if there is not None:
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


def _agent_families(surfaces: SurfaceOptions) -> "tuple[Family, ...]":
    """Return the family of the agent's routes, if enabled."""
    if surfaces.agent is None:
        return ()
    from elytron_agent.service.surfaces import agent_surfaces

    family = agent_surfaces(surfaces.agent)

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
    extras = (("/mcp", "mcp", "MCP over HTTP", speaks_mcp()), ("/a2a", "a2a", "A2A", speaks_a2a()))
    return tuple(_missing_family(path, extra, purpose) for path, extra, purpose, is_there in extras if not is_there)


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


_TARGET: Final = "claude-code"


def console_host(settings: RunSettings, runtime: MemoryRuntime, /) -> ConsoleHost:
    """Return what a server with these settings lets its console show."""
    return ConsoleHost(
        store=settings.store.masked_value,
        storage=lambda: _storage_report(settings.store.value),
        models=FileModelSettings(settings, runtime, Path.cwd() / FILE),
        command=OWN_PROGRAM,
        checks=_smoke_checks(settings),
        rule_commands=(
            f"elytron rules export --target {_TARGET}",
            f"elytron mcp config --host {HostName.CLAUDE_CODE.value}",
        ),
    )


def _smoke_checks(settings: RunSettings) -> tuple[SmokeCheck, ...]:
    store = ("--store", settings.store.value)
    sealed = ("--key-file", settings.key_file.value) if settings.key_file is not None else ()
    # The check is another process, which cannot open an in-memory store of this one.
    is_shared = parse_url(settings.store.value).path is not None
    doctor = (SmokeCheck("store", "The store can be opened and is intact", ("doctor", *store, *sealed, "--no-json")),)
    return (
        SmokeCheck("version", "The command line starts", ("version",)),
        *(doctor if is_shared else ()),
        SmokeCheck("model-api", "A conversation passes through the model APIs and is remembered", ("demo", "proxy")),
        SmokeCheck("rules", "Rules for agents can be exported", ("rules", "export", "--target", _TARGET)),
        SmokeCheck("capabilities", "The capabilities can be listed", ("platform", "capability-snapshot", "--no-json")),
    )


def _storage_report(url: str) -> StorageReport:
    path = parse_url(url).path
    if path is None:
        return StorageReport()
    try:
        device = shutil.disk_usage(path if path.exists() else path.parent)
    except OSError:
        return StorageReport(store_bytes=size_on_disk(path), backed_up_at=latest_backup(path))
    return StorageReport(
        store_bytes=size_on_disk(path),
        free_bytes=device.free,
        device_bytes=device.total,
        backed_up_at=latest_backup(path),
    )


class FileModelSettings:
    """The model settings in `elytron.toml`. A change applies at the next start; options and variables take
    precedence."""

    def __init__(self, settings: RunSettings, runtime: MemoryRuntime, file: Path, /) -> None:
        self._settings = settings
        self._runtime = runtime
        self._file = file

    def read(self) -> ModelConfig:
        """Return the models in use, and the settings of the next start."""
        models = models_in_use(self._runtime.context.models)
        file_values = file_settings(self._file)
        return ModelConfig(
            embedder=_model_setting("embedder", models.embedder.in_use, self._settings.embedder, file_values),
            language_model=_model_setting(
                "language_model", models.language_model.in_use, self._settings.language_model, file_values
            ),
            file=FILE,
            note=(
                "Changes are written to the file in the server's folder and take effect at its next start. Run "
                "elytron model switch to compute the vectors of a new embedder; until then, recall uses the previous "
                "ones."
            ),
        )

    def change(self, change: ModelConfigChange, /) -> None:
        """Write the settings to the file.

        Raises InvalidInput for a model that is none, PermissionRefused for a setting that an option or a variable
        gives, StoreUnavailable if the file cannot be written.
        """
        new_settings = {name: text.strip() for name, text in change if text is not None}
        for name, text in new_settings.items():
            setting: FoundSetting | None = getattr(self._settings, name)
            if setting is not None and setting.origin != FILE:
                raise PermissionRefused(f"{name} is set by {setting.origin}, which overrides {FILE}: change it there")
            if text:
                _require_model(name, text)
        if new_settings:
            _write_settings(self._file, new_settings)


def _model_setting(
    name: str, in_use: str | None, setting: FoundSetting | None, file_values: dict[str, str]
) -> ModelSetting:
    if setting is not None and setting.origin != FILE:
        return ModelSetting(in_use=in_use, setting=setting.masked_value, origin=setting.origin)
    text = file_values.get(name)
    return ModelSetting(
        in_use=in_use,
        setting=FoundSetting(text, FILE).masked_value if text is not None else None,
        origin=FILE if text is not None else f"not set ({ways_to_set(name)})",
        is_changeable=True,
    )


def _require_model(name: str, text: str) -> None:
    """Raise InvalidInput unless `text` names a model. It is not loaded, and no server is called."""
    # They would need escapes in TOML.
    if re.search(r"[\x00-\x1f\x7f\"\\]", text):
        raise InvalidInput(field=name, problem="contains a quote, a backslash or a control character")
    if name == "language_model":
        from elytron_models import address_of

        address_of(text, field=name)
        return
    from elytron.embedding.embedders import embedder_of

    try:
        embedder_of(text)
    except ElytronError as error:
        raise InvalidInput(field=name, problem=f"does not name an available embedder: {error.message}") from None


def _write_settings(file: Path, settings: dict[str, str]) -> None:
    """Write the settings to the file atomically; its other lines stay. An empty text removes a setting."""
    try:
        lines = file.read_text("utf-8").splitlines() if file.exists() else []
        for name, text in settings.items():
            lines = [line for line in lines if not re.match(rf"\s*{name}\s*=", line)]
            if text:
                lines.append(f'{name} = "{text}"')
        # In the same folder, since a rename works only within one device.
        with tempfile.NamedTemporaryFile("w", dir=file.parent, encoding="utf-8", delete=False) as beside:
            beside.write("".join(f"{line}\n" for line in lines))
        # A temporary file is created for its owner only.
        if file.exists():
            shutil.copymode(file, beside.name)
        os.replace(beside.name, file)  # noqa: PTH105 - both are names
    except OSError as error:
        raise StoreUnavailable(f"{FILE} cannot be written: {error.strerror}") from error
