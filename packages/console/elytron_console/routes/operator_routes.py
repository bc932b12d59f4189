"""Console routes for operators: server state, spending, transports, devices, models and smoke checks."""

import re
from collections.abc import Iterable
from typing import Annotated, Final, Self, TypeVar

from pydantic import ConfigDict, Field, model_validator
from starlette.requests import Request
from starlette.responses import Response

from elytron.jobs.queue import spent_on
from elytron_adapter import envelope
from elytron_adapter.access_keys import (
    AccessAddRequest,
    AccessKeyIssued,
    AccessKeyList,
    AccessKeyReport,
    AccessKeyRequest,
    AccessKeys,
    AccessLabelRequest,
    AccessListRequest,
)
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.http.requests import query_scope, read_body, require_json
from elytron_adapter.http.responses import principal_of
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_console import limits
from elytron_console.host import (
    ConsoleHost,
    ModelConfig,
    ModelConfigChange,
    SmokeCheckReport,
    SmokeRunner,
    models_in_use,
)
from elytron_console.journal import JournalReader
from elytron_console.overview import OverviewReport, SpaceReport, server_overview
from elytron_console.sessions import GROUP, ConsoleEndpoint, Handler, value_response
from elytron_core.clock import DAY_MS, Instant
from elytron_core.errors import InvalidInput, NotFound, ScopeMissing, Unsupported
from elytron_core.ids import is_reserved
from elytron_core.model import Request as OperationRequest
from elytron_core.model import Value
from elytron_core.planes.jobs import NOTHING, ModelUsage
from elytron_core.planes.space import PrincipalKind
from elytron_core.policy.maintenance import SpendingBudget, day_of, spent_today
from elytron_core.scope import Name, Space


class SpentDay(Value):
    """Usage of a day, in UTC; `held_calls` and `held_tokens` are reserved for calls that run."""

    at: Instant
    spent: ModelUsage
    held_calls: int = 0
    held_tokens: int = 0


class ProgramSpending(Value):
    """Tokens that programs used of one model through this server, on a day in UTC."""

    at: Instant
    model: str
    calls: int
    read: int
    written: int


class SpendingReport(Value):
    """Usage of models for a space: by its maintenance, on the days on which models were asked, and by programs."""

    space: str
    today: Instant
    budget: SpendingBudget
    model: str | None = None
    """The model that maintenance asks; None: it works by rules."""
    days: tuple[SpentDay, ...] = ()
    programs: tuple[ProgramSpending, ...] = ()
    """Answers of models to programs that asked for this space, which named their tokens: since `programs_since`."""
    programs_since: Instant


class SpaceSpending(Value):
    """Usage of a space today, and on all days of its book."""

    space: str
    today: ModelUsage = NOTHING
    total: ModelUsage = NOTHING


class StoreSpending(Value):
    """The spaces that asked models, those with the most tokens first; the first of many are counted."""

    items: tuple[SpaceSpending, ...]
    counted: int
    clipped: bool = False


def spending_surfaces(entrance: CallerAdmission, door: ConsoleEndpoint, journal: JournalReader, /) -> Iterable[Surface]:
    """Return the surfaces of spending: of one space, and of the spaces of the store."""
    context = entrance.dispatcher.runtime.context

    async def shown(request: Request) -> Response:
        space = journal.space_of(principal_of(request.scope), query_scope(request.query_params))
        days = tuple(
            SpentDay(
                at=Instant(day.day * DAY_MS), spent=day.spent, held_calls=day.held_calls, held_tokens=day.held_tokens
            )
            for day in (await spent_on(context, space)).days
        )
        model = context.models.language
        report = SpendingReport(
            space=space,
            today=Instant(day_of(context.clock.now()) * DAY_MS),
            budget=context.budget,
            model=model.name if model is not None else None,
            days=days,
            programs=tuple(
                ProgramSpending(
                    at=row.day, model=row.model, calls=row.calls, read=row.input_tokens, written=row.output_tokens
                )
                for row in entrance.figures.programs(space)
            ),
            programs_since=entrance.figures.began_at,
        )
        return value_response(report)

    async def by_space(_request: Request) -> Response:
        spaces = await context.store.spaces(limit=limits.SPACES_COUNTED)
        now = context.clock.now()
        spending: list[SpaceSpending] = []
        for space in spaces:
            book = await spent_on(context, space)
            if not book.days or is_reserved(space):
                continue
            total = NOTHING
            for day in book.days:
                total = total.plus(day.spent)
            spending.append(SpaceSpending(space=space, today=spent_today(book, now).spent, total=total))
        spending.sort(key=lambda each: (-each.total.tokens, each.space))
        clipped = len(spaces) == limits.SPACES_COUNTED
        counted = sum(not is_reserved(space) for space in spaces)
        items = tuple(spending[: limits.SPENDING_SPACES])
        return value_response(StoreSpending(items=items, counted=counted, clipped=clipped))

    own = SurfaceDescription(
        "console_spending", "Report maintenance's model usage by day, and its budget.", None, SpendingReport, (),
        ("space",), group=GROUP,
    )  # fmt: skip
    every = SurfaceDescription(
        "console_spending_by_space", "List the spaces with the highest model usage.", None, StoreSpending, group=GROUP
    )
    return (
        door.surface("GET", "/spending", shown, own),
        door.surface("GET", "/spending/spaces", by_space, every, access=SurfaceAccess.OPERATOR),
    )


ValueT = TypeVar("ValueT", bound=Value)
_CONSOLE = "console"
_ENDPOINT: Final = re.compile(r"(?:https?|wss?)://[^\s/?#@]+(?:[/?#]\S*)?")
_TITLES = {
    "http": "HTTP API",
    "wss": "WebSocket",
    "mcp": "MCP",
    "a2a": "A2A",
    "llm": "Model APIs with memory",
    "gateway": "Memory Gateway",
    "store": "Shared store",
}


class DeviceReport(Value):
    """An access key as lists show it: its fingerprint, never the key."""

    model_config = ConfigDict(serialize_by_alias=True)

    id: str
    kind: PrincipalKind
    space: str | None = None
    label: str
    state: str
    app_key_fingerprint: str = Field(serialization_alias="appKeyFingerprint")
    created_at: Instant
    rotated_at: Instant | None = None
    revoked_at: Instant | None = None
    last_used_at: Instant | None = None


class DeviceIssued(Value):
    """A device with its key, which is shown this once."""

    model_config = ConfigDict(serialize_by_alias=True)

    device: DeviceReport
    app_key_once: str = Field(serialization_alias="appKeyOnce")


class DeviceList(Value):
    """A page of keys, in the order of their ids."""

    items: tuple[DeviceReport, ...]
    next_cursor: str | None = None


class DeviceDraft(OperationRequest):
    """Create a key for a device, or for another `kind` of caller."""

    label: Name
    space: Space | None = None
    kind: PrincipalKind = PrincipalKind.DEVICE


class DeviceChange(OperationRequest):
    """Update a key's label, or permanently revoke it."""

    label: Name | None = None
    state: str | None = None


class TransportReport(Value):
    """A transport of this server."""

    id: str
    title: str
    enabled: bool
    paths: tuple[str, ...]
    endpoint: str | None = None
    """The address at which clients reach it, where an operator set one."""
    calls: int | None = None
    """Operations that it asked for since the start; None if it asks for none."""


class TransportList(Value):
    """The transports that this server shows. The console itself is none of them."""

    items: tuple[TransportReport, ...]


class TransportChange(OperationRequest):
    """Enable, disable or set the endpoint of a transport, now and for later starts. An empty endpoint removes it."""

    enabled: bool | None = None
    endpoint: Annotated[str, Field(max_length=limits.ENDPOINT_CHARS)] | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.enabled is None and self.endpoint is None:
            raise ValueError("has neither `enabled` nor `endpoint`")
        if self.endpoint and not _ENDPOINT.fullmatch(self.endpoint):
            raise ValueError("has an endpoint that is not an http, https, ws or wss address without a password")
        return self


class GatewayEndpoint(Value):
    """A way in for programs that speak with models."""

    title: str
    path: str
    enabled: bool
    endpoint: str | None = None
    """The address at which clients reach it, where an operator set one."""


class SmokeCheckShown(Value):
    """A smoke check that can be run, and the command that it is."""

    id: str
    title: str
    command: str


class LlmGatewayReport(Value):
    """Ways in for models' programs, commands that export rules for agents, and smoke checks."""

    endpoints: tuple[GatewayEndpoint, ...]
    rule_commands: tuple[str, ...]
    smoke_checks: tuple[SmokeCheckShown, ...]


def server_surfaces(
    entrance: CallerAdmission, door: ConsoleEndpoint, host: ConsoleHost, keys: AccessKeys, journal: JournalReader, /
) -> Iterable[Surface]:
    """Return the surfaces of the server's state, its transports and its models."""

    async def overview(request: Request) -> Response:
        space = await _space_report(entrance, journal, request)
        return value_response(await server_overview(entrance, host, keys, principal_of(request.scope), space))

    async def transports(_request: Request) -> Response:
        return value_response(TransportList(items=_transport_rows(entrance)))

    async def switched(request: Request) -> Response:
        name = request.path_params["id"]
        change = await _sent_value(request, TransportChange)
        if name == _CONSOLE:
            raise InvalidInput(field="id", problem="is the console, which cannot disable itself")
        if name not in entrance.transports.paths:
            raise NotFound(what="transport", name=name)
        if change.endpoint is not None:
            await entrance.transports.set_endpoint(name, change.endpoint)
        if change.enabled is not None:
            await entrance.transports.switch(name, on=change.enabled)
        (transport,) = (one for one in _transport_rows(entrance) if one.id == name)
        return value_response(transport)

    async def models(_request: Request) -> Response:
        models = entrance.dispatcher.runtime.context.models
        return value_response(host.models.read() if host.models is not None else models_in_use(models))

    async def models_changed(request: Request) -> Response:
        change = await _sent_value(request, ModelConfigChange)
        if host.models is None:
            raise Unsupported("the program that serves this console does not allow changing its models")
        host.models.change(change)
        return value_response(host.models.read())

    return (
        _operator_surface(door, "GET", "/overview", overview,
                  SurfaceDescription("console_overview", "Report the server's metrics.", None, OverviewReport, (),
                                     ("space",), group=GROUP)),
        _operator_surface(door, "GET", "/transports", transports,
                  SurfaceDescription("console_transports", "List the transports.", None, TransportList, group=GROUP)),
        _operator_surface(door, "PATCH", "/transports/{id}", switched,
                  SurfaceDescription("console_switch_transport", "Enable or disable a transport, or set its endpoint.",
                                     TransportChange, TransportReport, group=GROUP)),
        _operator_surface(door, "GET", "/model-config", models,
                  SurfaceDescription("console_models", "Show the models and their settings.", None, ModelConfig,
                                     group=GROUP)),
        _operator_surface(door, "PATCH", "/model-config", models_changed,
                  SurfaceDescription("console_change_models", "Set the models for the next start.", ModelConfigChange,
                                     ModelConfig, group=GROUP)),
    )  # fmt: skip


def smoke_surfaces(entrance: CallerAdmission, door: ConsoleEndpoint, host: ConsoleHost, /) -> Iterable[Surface]:
    """Return the surfaces of the ways in for models' programs, and of the smoke checks."""
    runner = SmokeRunner(host)
    titles = {"llm": "OpenAI, Anthropic and Ollama APIs with memory", "mcp": "MCP over HTTP", "a2a": "A2A"}

    async def shown(_request: Request) -> Response:
        paths = entrance.transports.paths
        endpoints = [
            GatewayEndpoint(
                title=title,
                path=path,
                enabled=entrance.transports.is_on(name),
                endpoint=entrance.transports.endpoints.get(name),
            )
            for name, title in titles.items()
            for path in paths.get(name, ())
        ]
        checks = [
            SmokeCheckShown(id=check.id, title=check.title, command=" ".join(("elytron", *check.arguments)))
            for check in runner.checks.values()
        ]
        return value_response(
            LlmGatewayReport(endpoints=tuple(endpoints), rule_commands=host.rule_commands, smoke_checks=tuple(checks))
        )

    async def run(request: Request) -> Response:
        return value_response(await runner.run(request.path_params["id"]))

    return (
        _operator_surface(door, "GET", "/llm-gateway", shown,
                  SurfaceDescription("console_llm_gateway", "List the endpoints for model clients.", None,
                                     LlmGatewayReport, group=GROUP)),
        _operator_surface(door, "POST", "/llm-gateway/smoke-checks/{id}/run", run,
                  SurfaceDescription("console_smoke_check", "Run a fixed smoke check.", None, SmokeCheckReport,
                                     group=GROUP)),
    )  # fmt: skip


def device_surfaces(door: ConsoleEndpoint, keys: AccessKeys, /) -> Iterable[Surface]:
    """Return the surfaces of the keys that devices, users and operators hold."""

    async def listed(request: Request) -> Response:
        cursor = request.query_params.get("cursor")
        return value_response(_device_list(await keys.list(AccessListRequest(cursor=cursor))))

    async def added(request: Request) -> Response:
        draft = await _sent_value(request, DeviceDraft)
        key_request = AccessAddRequest(kind=draft.kind, space=draft.space, label=draft.label)
        return value_response(_issued_device(await keys.add(key_request)))

    async def changed(request: Request) -> Response:
        change = await _sent_value(request, DeviceChange)
        key_id = request.path_params["id"]
        access_key = await keys.find(AccessKeyRequest(id=key_id))
        # Refused before the label is changed.
        if change.state not in {None, "active", "revoked"}:
            raise InvalidInput(field="state", problem="must be active or revoked")
        if change.state == "active" and access_key.revoked_at is not None:
            raise InvalidInput(field="state", problem="stays revoked: create another key for this device")
        if change.label is not None:
            access_key = await keys.set_label(AccessLabelRequest(id=key_id, label=change.label))
        if change.state == "revoked":
            access_key = await keys.revoke(AccessKeyRequest(id=key_id))
        return value_response(_device_report(access_key))

    async def rotated(request: Request) -> Response:
        return value_response(_issued_device(await keys.rotate(AccessKeyRequest(id=request.path_params["id"]))))

    async def revoked(request: Request) -> Response:
        return value_response(_device_report(await keys.revoke(AccessKeyRequest(id=request.path_params["id"]))))

    one = "/devices/{id}"
    return (
        _operator_surface(door, "GET", "/devices", listed,
                  SurfaceDescription("console_devices", "List keys by fingerprint.", None, DeviceList, (),
                                     ("cursor",), group=GROUP)),
        _operator_surface(door, "POST", "/devices", added,
                  SurfaceDescription("console_add_device", "Create a key, shown only once.", DeviceDraft, DeviceIssued,
                                     group=GROUP)),
        _operator_surface(door, "PATCH", one, changed,
                  SurfaceDescription("console_change_device", "Update a key's label or state.", DeviceChange,
                                     DeviceReport, group=GROUP)),
        _operator_surface(door, "POST", f"{one}/rotate-key", rotated,
                  SurfaceDescription("console_rotate_device", "Rotate a key's secret, shown only once.", None,
                                     DeviceIssued, group=GROUP)),
        _operator_surface(door, "DELETE", one, revoked,
                  SurfaceDescription("console_revoke_device", "Revoke a key.", None, DeviceReport,
                                     group=GROUP)),
    )  # fmt: skip


def _operator_surface(
    door: ConsoleEndpoint,
    method: str,
    path: str,
    handler: Handler,
    description: SurfaceDescription,
) -> Surface:
    return door.surface(method, path, handler, description, access=SurfaceAccess.OPERATOR)


async def _sent_value(request: Request, model: type[ValueT]) -> ValueT:
    require_json(request.headers)
    return envelope.decode_as(model, await read_body(request.scope, request.receive, limit=limits.BODY_BYTES))


async def _space_report(entrance: CallerAdmission, journal: JournalReader, request: Request) -> SpaceReport | None:
    """Return today's figures of the space that is asked for; None if none is, and there is no usual one."""
    try:
        space = journal.space_of(principal_of(request.scope), query_scope(request.query_params))
    except ScopeMissing:
        return None
    now = entrance.dispatcher.runtime.context.clock.now()
    page = await journal.page(space, before=None, limit=limits.RECENT_EVENTS)
    return SpaceReport(space=space, today=await journal.today(space, now), recent=page.items)


def _transport_rows(entrance: CallerAdmission) -> tuple[TransportReport, ...]:
    counts = entrance.figures.transports
    return tuple(
        TransportReport(
            id=name,
            title=_TITLES.get(name, name),
            enabled=entrance.transports.is_on(name),
            paths=tuple(sorted(paths)),
            endpoint=entrance.transports.endpoints.get(name),
            calls=counts.get(name, 0) if name not in {"gateway", "store"} else None,
        )
        for name, paths in sorted(entrance.transports.paths.items())
        if name != _CONSOLE
    )


def _device_report(key: AccessKeyReport) -> DeviceReport:
    return DeviceReport(
        id=key.id,
        kind=key.kind,
        space=key.space,
        label=key.label,
        state="active" if key.revoked_at is None else "revoked",
        app_key_fingerprint=key.fingerprint,
        created_at=key.created_at,
        rotated_at=key.rotated_at,
        revoked_at=key.revoked_at,
        last_used_at=key.last_used_at,
    )


def _device_list(keys: AccessKeyList) -> DeviceList:
    return DeviceList(items=tuple(map(_device_report, keys.items)), next_cursor=keys.next_cursor)


def _issued_device(issued: AccessKeyIssued) -> DeviceIssued:
    return DeviceIssued(device=_device_report(issued.access), app_key_once=issued.key)
