"""Transports of a server as the console shows and switches them, and its endpoints for model clients."""

import re
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from elytron_adapter.dispatch import CallerAdmission
from elytron_console.console_host import ConsoleHost
from elytron_console.smoke_checks import SmokeRunner
from elytron_core.errors import InvalidInput, NotFound
from elytron_core.model import Request as OperationRequest
from elytron_core.model import Value

ENDPOINT_CHARS: Final = 2_048


_CONSOLE: Final = "console"
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
_MODEL_TITLES = {"llm": "OpenAI, Anthropic and Ollama APIs with memory", "mcp": "MCP over HTTP", "a2a": "A2A"}


class TransportReport(Value):
    """A transport of this server."""

    id: str
    title: str
    enabled: bool
    paths: tuple[str, ...]
    endpoint: str | None = None
    """The address at which clients reach it, if an operator set one."""
    calls: int | None = None
    """Operations requested through it since the start; None if it requests none."""


class TransportList(Value):
    """The transports that this server exposes, without the console itself."""

    items: tuple[TransportReport, ...]


class TransportChange(OperationRequest):
    """Enable, disable or set the endpoint of a transport, now and for later starts. An empty endpoint removes it."""

    enabled: bool | None = None
    endpoint: Annotated[str, Field(max_length=ENDPOINT_CHARS)] | None = None

    @model_validator(mode="after")
    def _changes_something(self) -> Self:
        if self.enabled is None and self.endpoint is None:
            raise ValueError("has neither `enabled` nor `endpoint`")
        if self.endpoint and not _ENDPOINT.fullmatch(self.endpoint):
            raise ValueError("has an endpoint that is not an http, https, ws or wss address without a password")
        return self


class GatewayEndpoint(Value):
    """An endpoint for programs that use models."""

    title: str
    path: str
    enabled: bool
    endpoint: str | None = None
    """The address at which clients reach it, if an operator set one."""


class SmokeCheckShown(Value):
    """A smoke check that can be run, and the command that it is."""

    id: str
    title: str
    command: str


class LlmGatewayReport(Value):
    """Endpoints for programs that use models, commands that export rules for agents, and smoke checks."""

    endpoints: tuple[GatewayEndpoint, ...]
    rule_commands: tuple[str, ...]
    smoke_checks: tuple[SmokeCheckShown, ...]


def transport_reports(admission: CallerAdmission, /) -> tuple[TransportReport, ...]:
    """Return the transports of the server, without the console."""
    counts = admission.figures.transports
    return tuple(
        TransportReport(
            id=name,
            title=_TITLES.get(name, name),
            enabled=admission.transports.is_on(name),
            paths=tuple(sorted(paths)),
            endpoint=admission.transports.endpoints.get(name),
            calls=counts.get(name, 0) if name not in {"gateway", "store"} else None,
        )
        for name, paths in sorted(admission.transports.paths.items())
        if name != _CONSOLE
    )


async def change_transport(admission: CallerAdmission, name: str, change: TransportChange, /) -> TransportReport:
    """Enable or disable a transport or set its endpoint, and return it. Raises InvalidInput for the console,
    NotFound."""
    if name == _CONSOLE:
        raise InvalidInput(field="id", problem="is the console, which cannot disable itself")
    if name not in admission.transports.paths:
        raise NotFound(what="transport", name=name)
    if change.endpoint is not None:
        await admission.transports.set_endpoint(name, change.endpoint)
    if change.enabled is not None:
        await admission.transports.switch(name, on=change.enabled)
    (transport,) = (one for one in transport_reports(admission) if one.id == name)
    return transport


def gateway_report(admission: CallerAdmission, host: ConsoleHost, runner: SmokeRunner, /) -> LlmGatewayReport:
    """Return the endpoints for programs that use models, and what can be exported and checked for them."""
    transport_table = admission.transports
    return LlmGatewayReport(
        endpoints=tuple(
            GatewayEndpoint(
                title=title,
                path=path,
                enabled=transport_table.is_on(name),
                endpoint=transport_table.endpoints.get(name),
            )
            for name, title in _MODEL_TITLES.items()
            for path in transport_table.paths.get(name, ())
        ),
        rule_commands=host.rule_commands,
        smoke_checks=tuple(
            SmokeCheckShown(id=check.id, title=check.title, command=" ".join(("elytron", *check.arguments)))
            for check in runner.checks.values()
        ),
    )
