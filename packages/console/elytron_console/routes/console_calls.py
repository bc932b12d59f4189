"""Calls of the console's routes: what their handlers share, what each is given, and how it is guarded."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from elytron.context import OperationContext
from elytron_adapter.access_keys import AccessKeys, Principal
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.envelope import CallHeaders, CallOrigin, CallTransport
from elytron_adapter.envelope import Response as Answer
from elytron_adapter.http.archives import ArchiveHandlers
from elytron_adapter.http.requests import query_scope, read_value
from elytron_adapter.http.responses import principal_of, request_id_of
from elytron_adapter.surface import Route
from elytron_console import limits
from elytron_console.console_host import ConsoleHost
from elytron_console.journal import JournalReader
from elytron_console.sessions import ConsoleGuard
from elytron_console.smoke_checks import SmokeRunner
from elytron_core.errors import InvalidInput
from elytron_core.ids import SpaceId
from elytron_core.model import Value
from elytron_core.scope import Scope

TRANSCRIPTS_AT_ONCE: Final = 2
"""Files of messages that are read at once; further ones wait."""


ValueT = TypeVar("ValueT", bound=Value)


class ConsoleService:
    """State shared by the routes of a console, and how their calls are answered."""

    def __init__(self, admission: CallerAdmission, host: ConsoleHost, /, *, has_agents: bool) -> None:
        self.admission = admission
        self.host = host
        self.has_agents = has_agents
        self.guard = ConsoleGuard(admission)
        self.journal = JournalReader(self.context, admission.keys)
        self.archives = ArchiveHandlers(admission, CallTransport.CONSOLE)
        self.smoke_checks = SmokeRunner(host)
        self.transcript_places = asyncio.Semaphore(TRANSCRIPTS_AT_ONCE)

    @property
    def context(self) -> OperationContext:
        return self.admission.dispatcher.runtime.context

    @property
    def keys(self) -> AccessKeys:
        return self.admission.keys

    async def answer(self, route: "ConsoleRoute", request: Request) -> Value | Response:
        """Answer a request for `route`; no cross-site change or empty value reaches its handler."""
        await self.guard.require_own(request.scope)
        for name in route.query:
            if request.query_params.get(name) == "":
                raise InvalidInput(field=name, problem="is empty: leave it out")
        return await route.handler(ConsoleCall(self, request))


@dataclass(frozen=True, slots=True)
class ConsoleCall:
    """One call of a route by an authenticated caller."""

    console: ConsoleService
    request: Request

    @property
    def principal(self) -> Principal:
        return principal_of(self.request.scope)

    def part(self, name: str, /) -> str:
        """Return a part of the path."""
        return self.request.path_params[name]

    def scope(self) -> Scope | None:
        """Return the scope of the space in the query, None without one. Raises InvalidInput."""
        return query_scope(self.request.query_params)

    def space(self) -> SpaceId:
        """Return the space in the query, else the caller's own. Raises PermissionRefused, ScopeMissing."""
        return self.console.admission.space_of(self.principal, self.scope())

    async def body(self, model: type[ValueT], /) -> ValueT:
        """Return the request in the body. Raises InvalidInput."""
        return await read_value(self.request, model, limit=limits.BODY_BYTES)

    async def perform(
        self,
        operation: str,
        payload: bytes | Value,
        /,
        *,
        idempotency_key: str | None = None,
        audit_id: str | None = None,
    ) -> Answer:
        """Return the answer to an operation of the caller."""
        return await self.console.admission.call(
            self.principal,
            origin=CallOrigin(CallTransport.CONSOLE),
            operation=operation,
            request_id=request_id_of(self.request.scope),
            payload=payload,
            headers=CallHeaders(idempotency_key=idempotency_key, audit_id=audit_id),
        )


ConsoleHandler = Callable[[ConsoleCall], Awaitable[Value | Response]]
ConsoleRoute = Route[ConsoleHandler]
