"""Routes of agents for their page in the console: those of the service itself, in the space that the page shows."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from elytron_adapter.http.requests import query_scope
from elytron_adapter.http.responses import principal_of
from elytron_adapter.surface import AsgiApp, Surface, SurfaceDescription
from elytron_console.journal import JournalReader
from elytron_console.sessions import GROUP, ConsoleDoor, value_response
from elytron_core.errors import NotFound
from elytron_core.ids import SpaceId
from elytron_core.model import Value

_ROOT: Final = "/v1/agent"
_SHOWN: Final = frozenset({
    ("GET", ""), ("POST", "/init"), ("GET", "/config"), ("PUT", "/config"), ("GET", "/items"), ("GET", "/usage"),
    ("GET", "/subagents"), ("GET", "/schedules"), ("POST", "/schedules"), ("DELETE", "/schedules/{schedule_id}"),
})  # fmt: skip
"""Routes that the page asks. Agents are erased by the page of erasures, which counts first."""


class AgentPresence(Value):
    """Presence of an agent in a space. A page asks first, as a browser notes what is not found."""

    space: str
    exists: bool


class AppResponse(Response):
    """The answer of an application to the request that it is given."""

    def __init__(self, app: AsgiApp, /) -> None:
        super().__init__()
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the application answer."""
        await self._app(scope, receive, send)


_PRESENCE: Final = SurfaceDescription(
    "console_agents", "Say whether the space has an agent.", None, AgentPresence, (), ("space",), group=GROUP
)


def agent_page_surfaces(door: ConsoleDoor, journal: JournalReader, agents: Iterable[Surface], /) -> Iterable[Surface]:
    """Yield the surfaces of `agents` that the page asks, behind the console's door."""
    for surface in agents:
        told, path = surface.told, surface.path.removeprefix(_ROOT)
        if told is not None and any((method, path) in _SHOWN for method in surface.methods):
            described = replace(told, name=f"console_{told.name}", query=("space", *told.query), group=GROUP)
            (method,) = surface.methods
            handler = _AgentHandler(surface.app, journal)
            yield door.surface(method, f"/agent{path}", handler, described)
            if (method, path) == ("GET", ""):
                yield door.surface("GET", "/agents", handler.presence, _PRESENCE)


class _AgentHandler:
    """Passes a request on to a route of agents, as the caller in the one space that is asked for."""

    def __init__(self, app: AsgiApp, journal: JournalReader, /) -> None:
        self._app = app
        self._journal = journal

    async def __call__(self, request: Request) -> Response:
        self._bind(request)
        return AppResponse(self._app)

    async def presence(self, request: Request) -> Response:
        """Return whether there is an agent, by the status of its route."""
        space = self._bind(request)
        status = 0

        async def heard(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)

        try:
            await self._app(request.scope, request.receive, heard)
        except NotFound:
            status = 404
        return value_response(AgentPresence(space=space, exists=status != 404))

    def _bind(self, request: Request) -> SpaceId:
        """Make the caller one of the space that is asked for. Raises PermissionRefused, ScopeMissing."""
        principal = principal_of(request.scope)
        space = self._journal.space_of(principal, query_scope(request.query_params))
        request.scope["state"] = {**request.scope["state"], "principal": replace(principal, space=space)}
        return space
