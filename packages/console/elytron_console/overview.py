"""The overview of a server: its calls, machine, store and keys, measured on request."""

import os
import platform
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Final

from elytron.ops.inspection import catalog_of
from elytron_adapter.access_keys import (
    OPERATORS,
    AccessKeyList,
    AccessKeys,
    AccessListRequest,
    DevelopmentCallers,
    Principal,
)
from elytron_adapter.dispatch import CallerAdmission
from elytron_console import limits
from elytron_console.console_host import ConsoleHost, StorageReport
from elytron_console.journal import JournalRow, TodayFigures, label_of
from elytron_core.clock import Instant
from elytron_core.contracts.inspection import CapabilityState
from elytron_core.errors import ElytronError
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.model import Value
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.policy.ranking.signals import SIGNAL_MEANINGS
from elytron_core.profiles import StoreCapabilities
from elytron_core.scope import Scope

KEYS_COUNTED: Final = 2_000


_KIB = 1_024


class SessionReport(Value):
    """The caller of a console, and the token that its changes must repeat."""

    principal: str
    kind: PrincipalKind
    space: str | None = None
    """The only space that the caller may use; None: any."""
    label: str = ""
    operator: bool
    development: bool
    """True if this server requires no key, only on its own machine."""
    default_space: str | None = None
    """The space to show first: the default one, or the only one with content."""
    spaces: tuple[str, ...] = ()
    """Spaces that the caller may use, by name; the first of many."""
    spaces_clipped: bool = False
    agents: bool = False
    """True if this server has agents."""
    token: str
    version: str
    signals: dict[str, str] = {}
    """Meanings of the signals of a hit, by name."""
    now: Instant


class RuntimeShape(Value):
    """The runtime that answers."""

    version: str
    python: str
    pid: int
    store: str
    engine: str
    profile: str
    protocols: tuple[str, ...]
    started_at: Instant
    uptime_ms: int
    ready: bool
    """True if the store answers now."""


class SystemReport(Value):
    """The machine. What it does not tell is left out."""

    system: str
    machine: str
    cpus: int | None = None
    load: float | None = None
    """Processes ready to run, averaged over a minute."""
    memory_bytes: int | None = None
    available_bytes: int | None = None
    process_bytes: int | None = None
    time: Instant


class OperationRow(Value):
    """Calls of one operation since the server started."""

    operation: str
    calls: int
    refused: int
    mean_ms: float
    longest_ms: float


class MinuteRow(Value):
    """Calls of one minute."""

    at: Instant
    calls: int
    refused: int


class CallsReport(Value):
    """Calls since the server started, by transport and by operation, and those of the last hour by the minute."""

    since: Instant
    total: int
    refused: int
    running: int
    waiting: int
    transports: dict[str, int]
    operations: tuple[OperationRow, ...]
    minutes: tuple[MinuteRow, ...]


class KeysReport(Value):
    """Valid keys by kind, and the number of revoked ones."""

    open: dict[str, int] = {}
    revoked: int = 0
    clipped: bool = False


class KernelReport(Value):
    """Parts of the runtime that answer recall."""

    indexes: int
    index_bytes: int
    embedder: str | None = None
    language_model: str | None = None
    reranker: str | None = None


class CallerReport(Value):
    """The caller who asks for the overview."""

    principal: str
    kind: PrincipalKind
    space: str | None = None
    """The only space that the caller may use; None: any."""


class CallPlaceReport(Value):
    """The default scope of calls, as the server was started with it."""

    space: str | None = None
    agent: str | None = None
    channel: str | None = None
    conversation: str | None = None


class SpaceReport(Value):
    """The space that was asked for: today's figures and the newest entries of its journal."""

    space: str
    today: TodayFigures
    recent: tuple[JournalRow, ...]


class OverviewReport(Value):
    """State of a server. All counts are made for this answer and not stored."""

    at: Instant
    runtime: RuntimeShape
    system: SystemReport
    storage: StorageReport
    calls: CallsReport
    keys: KeysReport
    kernel: KernelReport
    promises: StoreCapabilities
    session: CallerReport
    memory_context: CallPlaceReport
    spaces: int
    spaces_clipped: bool = False
    capabilities: dict[str, bool]
    """Abilities that this runtime has, and those that it lacks."""
    space: SpaceReport | None = None


async def server_overview(
    admission: CallerAdmission, host: ConsoleHost, principal: Principal, space: SpaceReport | None, /
) -> OverviewReport:
    """Return the overview of the server. Raises ElytronError if its store does not answer."""
    context = admission.dispatcher.runtime.context
    spaces = await context.store.spaces(limit=limits.SPACES_COUNTED)
    return OverviewReport(
        at=context.clock.now(),
        runtime=_runtime_shape(admission, host),
        system=_system_report(context.clock.now()),
        storage=host.storage() if host.storage is not None else StorageReport(),
        calls=_calls_report(admission),
        keys=await _keys_report(admission.keys),
        kernel=_kernel_report(admission),
        promises=context.store.capabilities,
        session=CallerReport(principal=principal.id, kind=principal.kind, space=principal.space),
        memory_context=_context_report(context.default_scope),
        spaces=len([one for one in spaces if not is_reserved(one)]),
        spaces_clipped=len(spaces) == limits.SPACES_COUNTED,
        capabilities=_capability_flags(admission),
        space=space,
    )


async def session_report(
    admission: CallerAdmission, principal: Principal, token: str, /, *, has_agents: bool
) -> SessionReport:
    """Return what a page needs to know of its caller."""
    context = admission.dispatcher.runtime.context
    is_operator = principal.kind in OPERATORS
    spaces: list[str] = [principal.space] if principal.space is not None else []
    is_clipped = False
    if is_operator:
        space_names = await context.store.spaces(limit=limits.SPACES_COUNTED)
        spaces = [name for name in space_names if not is_reserved(name)]
        is_clipped = len(space_names) == limits.SPACES_COUNTED
    scope = context.default_scope
    default_space = scope.space if scope is not None and is_operator else None
    # The store lists the spaces with content: if there is only one, it is shown.
    if default_space not in spaces and len(spaces) == 1:
        default_space = SpaceId(spaces[0])
    return SessionReport(
        principal=principal.id,
        kind=principal.kind,
        space=principal.space,
        label=await _session_label(admission.keys, principal),
        operator=is_operator,
        development=isinstance(admission.authenticator, DevelopmentCallers),
        default_space=principal.space or default_space,
        spaces=tuple(spaces),
        spaces_clipped=is_clipped,
        agents=has_agents,
        token=token,
        version=package_version(),
        signals=dict(SIGNAL_MEANINGS),
        now=context.clock.now(),
    )


async def _session_label(keys: AccessKeys, principal: Principal) -> str:
    if principal.kind is PrincipalKind.DEVELOPER:
        return "developer of this machine"
    return await label_of(keys, principal.id)


@cache
def package_version() -> str:
    """Return the version of this distribution."""
    return version("elytron")


def _runtime_shape(admission: CallerAdmission, host: ConsoleHost) -> RuntimeShape:
    context = admission.dispatcher.runtime.context
    started_at = admission.figures.began_at
    return RuntimeShape(
        version=package_version(),
        python=platform.python_version(),
        pid=os.getpid(),
        store=host.store,
        engine=context.engine,
        profile=context.profile.name.value,
        protocols=host.protocols,
        started_at=started_at,
        uptime_ms=max(0, context.clock.now() - started_at),
        ready=not context.closing,
    )


def _system_report(now: Instant) -> SystemReport:
    memory = _proc_values("/proc/meminfo")
    own_status = _proc_values("/proc/self/status")
    return SystemReport(
        system=f"{platform.system()} {platform.release()}".strip() or sys.platform,
        machine=platform.machine(),
        cpus=os.cpu_count(),
        load=round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        memory_bytes=memory.get("MemTotal"),
        available_bytes=memory.get("MemAvailable"),
        process_bytes=own_status.get("VmRSS"),
        time=now,
    )


def _proc_values(path: str) -> dict[str, int]:
    """Return the values in kibibytes of a kernel file as bytes; nothing on other systems."""
    try:
        lines = Path(path).read_text("ascii", "replace").splitlines()
    except OSError:
        return {}
    parts = [(name, value.split()) for name, _, value in (line.partition(":") for line in lines)]
    return {name: int(fields[0]) * _KIB for name, fields in parts if len(fields) == 2 and fields[1] == "kB"}


def _calls_report(admission: CallerAdmission) -> CallsReport:
    figures = admission.figures
    rows = sorted(figures.operations.items(), key=lambda row: (-row[1].calls, row[0]))
    return CallsReport(
        since=figures.began_at,
        total=figures.transports.total(),
        refused=sum(operation_figures.refused for _, operation_figures in rows),
        running=admission.shedding.running,
        waiting=admission.shedding.waiting,
        transports=dict(figures.transports),
        operations=tuple(
            OperationRow(
                operation=name,
                calls=operation_figures.calls,
                refused=operation_figures.refused,
                mean_ms=round(operation_figures.seconds / operation_figures.calls * 1_000, 3),
                longest_ms=round(operation_figures.longest_s * 1_000, 3),
            )
            for name, operation_figures in rows
        ),
        minutes=tuple(
            MinuteRow(at=minute.at, calls=minute.calls, refused=minute.refused) for minute in figures.minutes()
        ),
    )


def _context_report(scope: Scope | None) -> CallPlaceReport:
    if scope is None:
        return CallPlaceReport()
    return CallPlaceReport(space=scope.space, agent=scope.agent, channel=scope.channel, conversation=scope.conversation)


async def _keys_report(keys: AccessKeys) -> KeysReport:
    open_keys: dict[str, int] = {}
    revoked_count = key_count = 0
    page: AccessKeyList | None = None
    while (page is None or page.next_cursor is not None) and key_count < KEYS_COUNTED:
        page = await keys.list(AccessListRequest(cursor=page.next_cursor if page is not None else None))
        for key in page.items:
            key_count += 1
            if key.revoked_at is not None:
                revoked_count += 1
            else:
                open_keys[key.kind.value] = open_keys.get(key.kind.value, 0) + 1
    return KeysReport(open=open_keys, revoked=revoked_count, clipped=page is not None and page.next_cursor is not None)


def _kernel_report(admission: CallerAdmission) -> KernelReport:
    context = admission.dispatcher.runtime.context
    index_count, index_bytes = context.folds.memory_use
    models = context.models
    return KernelReport(
        indexes=index_count,
        index_bytes=index_bytes,
        embedder=models.embedder.info.model if models.embedder is not None else None,
        language_model=models.language.name if models.language is not None else None,
        reranker=models.reranker.name if models.reranker is not None else None,
    )


def _capability_flags(admission: CallerAdmission) -> dict[str, bool]:
    """Return by name whether each ability of the catalog is there."""
    try:
        catalog = catalog_of(admission.dispatcher.runtime.context)
    except ElytronError:
        return {}
    flags = {name: value.visible for name, value in catalog if isinstance(value, CapabilityState)}
    # A name that Python reserves has `_` appended.
    return {name.rstrip("_"): is_available for name, is_available in flags.items()}
