"""Console routes for every caller: the session, the operations, the journal, learned skills, and agents."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from elytron.registry import WIRE_OPERATIONS
from elytron_adapter import envelope
from elytron_adapter.access_keys import OPERATORS, AccessKeys, Principal
from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.envelope import CallTransport
from elytron_adapter.http.requests import IDEMPOTENCY_KEY, idempotency_key, query_scope, read_body, require_json
from elytron_adapter.http.responses import principal_of, render_answer, request_id_of
from elytron_adapter.surface import AsgiApp, Surface, SurfaceDescription
from elytron_console import limits
from elytron_console.journal import ConversationPage, JournalPage, JournalReader, SpaceContents, label_of
from elytron_console.overview import SessionReport, is_development, package_version
from elytron_console.sessions import COOKIE, GROUP, ROOT, ConsoleEndpoint, value_response
from elytron_core import limits as core_limits
from elytron_core.contracts.skills import (
    RuntimeSkillDeleteRequest,
    RuntimeSkillDetailReport,
    RuntimeSkillDetailRequest,
    RuntimeSkillEditRequest,
    RuntimeSkillListReport,
    RuntimeSkillListRequest,
    RuntimeSkillMutationReport,
    RuntimeSkillSetEnabledRequest,
    Summary,
)
from elytron_core.errors import InvalidInput, NotFound, Unsupported
from elytron_core.ids import SpaceId, is_reserved
from elytron_core.model import Request as OperationRequest
from elytron_core.model import Value
from elytron_core.planes import skills
from elytron_core.planes.space import PrincipalKind
from elytron_core.policy.ranking.signals import SIGNAL_MEANINGS
from elytron_core.ports.store import JournalAction
from elytron_core.scope import Reason

_NAMES = frozenset(operation.name for operation in WIRE_OPERATIONS)
_ACTIONS = frozenset(action.value for action in JournalAction)


class SkillEdit(OperationRequest):
    """Revise a learned skill; omitted fields stay unchanged."""

    title: skills.Title | None = None
    topic: skills.Title | None = None
    summary: Summary | None = None
    procedure: str | None = None
    edit_reason: Reason = ""


class SkillSwitch(OperationRequest):
    """Enable or disable a learned skill in recall."""

    enabled: bool
    reason: Reason = ""


def session_surfaces(
    entrance: CallerAdmission, door: ConsoleEndpoint, keys: AccessKeys, /, *, has_agents: bool
) -> Iterable[Surface]:
    """Return the surfaces that begin, show and end a session."""

    async def shown(request: Request) -> Response:
        token = await door.token_of(request.scope)
        report = await _session_report(entrance, keys, principal_of(request.scope), token)
        return value_response(report.model_copy(update={"agents": has_agents}))

    async def begun(request: Request) -> Response:
        authorization = request.headers.get("authorization")
        principal = principal_of(request.scope)
        cookie = await door.sessions.open(principal.id, authorization) if authorization is not None else None
        token = await (door.sessions.page_token(cookie) if cookie is not None else door.token_of(request.scope))
        report = await _session_report(entrance, keys, principal, token)
        answer = value_response(report.model_copy(update={"agents": has_agents}))
        if cookie is not None:
            answer.set_cookie(
                COOKIE,
                cookie,
                max_age=int(limits.SESSION_S),
                path=ROOT,
                secure=request.url.scheme == "https",
                httponly=True,
                samesite="strict",
            )
        return answer

    async def ended(request: Request) -> Response:
        await door.sessions.end(request.headers)
        answer = Response(status_code=204)
        answer.delete_cookie(COOKIE, path=ROOT, httponly=True, samesite="strict")
        return answer

    return (
        door.surface(
            "GET", "/session", shown, _describe_route("console_session", "Show the session.", given=SessionReport)
        ),
        door.surface(
            "POST",
            "/session",
            begun,
            _describe_route(
                "console_sign_in", "Start a session whose cookie only the console accepts.", given=SessionReport
            ),
            is_repeatable=True,
        ),
        door.surface(
            "DELETE",
            "/session",
            ended,
            _describe_route("console_sign_out", "End the session.", status=204),
            is_repeatable=True,
        ),
    )


class PathRow(Value):
    """One path of this server that the caller's key may open."""

    method: str
    path: str
    group: str
    summary: str
    operator: bool
    """True if an operator's key alone opens it."""


class PathList(Value):
    """The paths of this server, as its description has them."""

    items: tuple[PathRow, ...]


def path_surfaces(entrance: CallerAdmission, door: ConsoleEndpoint, /) -> Iterable[Surface]:
    """Return the surface that lists the server's paths."""

    async def listed(request: Request) -> Response:
        sees_all = principal_of(request.scope).kind in OPERATORS
        rows = tuple(
            PathRow(
                method=one.method,
                path=one.path.replace(":path}", "}"),
                group=one.group,
                summary=one.summary,
                operator=one.is_operators,
            )
            for one in entrance.transports.served
            if sees_all or not one.is_operators
        )
        return value_response(PathList(items=rows))

    description = _describe_route("console_paths", "List the paths that the caller's key may use.", given=PathList)
    return (door.surface("GET", "/paths", listed, description),)


def operation_surfaces(entrance: CallerAdmission, door: ConsoleEndpoint, /) -> Iterable[Surface]:
    """Return the surface of operations."""

    async def performed(request: Request) -> Response:
        require_json(request.headers)
        name = request.path_params["name"]
        if name not in _NAMES:
            raise NotFound(what="operation", name=name)
        if name == "erase":
            raise Unsupported(f"the console erases through POST {ROOT}/erasures, with the count of the preview")
        answer = await entrance.call(
            principal_of(request.scope),
            transport=CallTransport.CONSOLE,
            operation=name,
            request_id=request_id_of(request.scope),
            payload=await read_body(request.scope, request.receive, limit=limits.BODY_BYTES),
            idempotency_key=idempotency_key(request.headers),
        )
        return render_answer(answer)

    return (
        door.surface(
            "POST",
            "/operations/{name}",
            performed,
            _describe_route(
                "console_operation", "Perform one operation for a page.", headers=("X-Audit-ID", IDEMPOTENCY_KEY)
            ),
            is_repeatable=True,
        ),
    )


def journal_surfaces(door: ConsoleEndpoint, journal: JournalReader, /) -> Iterable[Surface]:
    """Return the surfaces of the journal, and of the heads of conversations."""

    async def entries(request: Request) -> Response:
        query = request.query_params
        space = journal.space_of(principal_of(request.scope), query_scope(query))
        actions = frozenset(part for part in query.get("actions", "").split(",") if part)
        if not actions <= _ACTIONS:
            raise InvalidInput(field="actions", problem=f"has an unknown action: use {', '.join(sorted(_ACTIONS))}")
        before = _whole_number(query.get("before"), "before", least=1, most=10**15)
        limit = _whole_number(query.get("limit"), "limit", least=1, most=limits.JOURNAL_PAGE) or 50
        return value_response(await journal.page(space, before=before, limit=limit, actions=actions))

    async def conversations(request: Request) -> Response:
        space = journal.space_of(principal_of(request.scope), query_scope(request.query_params))
        return value_response(await journal.conversations(space))

    async def contents(request: Request) -> Response:
        space = journal.space_of(principal_of(request.scope), query_scope(request.query_params))
        return value_response(await journal.contents(space))

    counted = _describe_route("console_contents", "Count a space's contents.", given=SpaceContents, query=("space",))
    return (
        door.surface("GET", "/contents", contents, counted),
        door.surface(
            "GET",
            "/conversations",
            conversations,
            _describe_route(
                "console_conversations", "List the latest conversations.", given=ConversationPage, query=("space",)
            ),
        ),
        door.surface(
            "GET",
            "/journal",
            entries,
            _describe_route(
                "console_journal",
                "List a space's journal entries, newest first.",
                given=JournalPage,
                query=("space", "before", "limit", "actions"),
            ),
        ),
    )


def skill_surfaces(entrance: CallerAdmission, door: ConsoleEndpoint, /) -> Iterable[Surface]:
    """Return the surfaces of learned skills."""

    async def call(request: Request, operation: str, payload: Value) -> Response:
        answer = await entrance.call(
            principal_of(request.scope),
            transport=CallTransport.CONSOLE,
            operation=operation,
            request_id=request_id_of(request.scope),
            payload=payload,
        )
        return render_answer(answer)

    async def body_fields(request: Request, model: type[Value]) -> dict[str, object]:
        require_json(request.headers)
        body = await read_body(request.scope, request.receive, limit=limits.BODY_BYTES)
        body_value = envelope.decode_as(model, body)
        return {name: value for name, value in body_value if value is not None}

    def place(request: Request) -> dict[str, object]:
        scope = query_scope(request.query_params)
        return {"scope": scope} if scope is not None else {}

    def fields(request: Request) -> dict[str, object]:
        return {"name": request.path_params["name"], **place(request)}

    async def listed(request: Request) -> Response:
        every = {"include_disabled": True, "include_retired": True, "limit": core_limits.PAGE_MAX}
        return await call(
            request, "list_runtime_skills", _build_request(RuntimeSkillListRequest, every | place(request))
        )

    async def one(request: Request) -> Response:
        return await call(request, "get_runtime_skill", _build_request(RuntimeSkillDetailRequest, fields(request)))

    async def edited(request: Request) -> Response:
        payload = _build_request(RuntimeSkillEditRequest, fields(request) | await body_fields(request, SkillEdit))
        return await call(request, "edit_runtime_skill", payload)

    async def switched(request: Request) -> Response:
        payload = _build_request(
            RuntimeSkillSetEnabledRequest, fields(request) | await body_fields(request, SkillSwitch)
        )
        return await call(request, "set_runtime_skill_enabled", payload)

    async def deleted(request: Request) -> Response:
        return await call(request, "delete_runtime_skill", _build_request(RuntimeSkillDeleteRequest, fields(request)))

    at, change = "/skills/{name}", RuntimeSkillMutationReport
    enabling = _describe_skill("enable", "Enable or disable a skill.", change, SkillSwitch)
    return (
        door.surface("GET", "/skills", listed, _describe_skill("list", "List learned skills.", RuntimeSkillListReport)),
        door.surface("GET", at, one, _describe_skill("detail", "Retrieve a skill.", RuntimeSkillDetailReport)),
        door.surface("PATCH", at, edited, _describe_skill("edit", "Revise a skill.", change, SkillEdit)),
        door.surface("PATCH", f"{at}/enabled", switched, enabling),
        door.surface("DELETE", at, deleted, _describe_skill("delete", "Delete a skill.", change)),
    )


def _build_request(model: type[OperationRequest], fields: dict[str, object]) -> OperationRequest:
    return model(**fields)


def _describe_route(name: str, summary: str, **more: object) -> SurfaceDescription:
    return SurfaceDescription(name, summary, group=GROUP, **more)  # pyright: ignore[reportArgumentType]


def _describe_skill(
    name: str, summary: str, answer: type[Value], accepts: type[Value] | None = None
) -> SurfaceDescription:
    return SurfaceDescription(f"console_skill_{name}", summary, accepts, answer, (), ("space",), group=GROUP)


def _whole_number(text: str | None, field: str, *, least: int, most: int) -> int | None:
    if text is None:
        return None
    # `int` would take digits of other scripts, and refuses very long numbers by an error of its own.
    if not text.isascii() or not text.isdecimal() or len(text) > 16 or not least <= int(text) <= most:
        raise InvalidInput(field=field, problem=f"must be a number from {least} to {most}")
    return int(text)


async def _session_report(
    entrance: CallerAdmission, keys: AccessKeys, principal: Principal, token: str
) -> SessionReport:
    context = entrance.dispatcher.runtime.context
    is_operator = principal.kind in OPERATORS
    spaces: list[str] = [principal.space] if principal.space is not None else []
    clipped = False
    if is_operator:
        space_names = await context.store.spaces(limit=limits.SPACES_COUNTED)
        spaces = [name for name in space_names if not is_reserved(name)]
        clipped = len(space_names) == limits.SPACES_COUNTED
    scope = context.default_scope
    usual = scope.space if scope is not None and is_operator else None
    # The store lists the spaces that hold anything: where one alone does, it is the one to show.
    if usual not in spaces and len(spaces) == 1:
        usual = SpaceId(spaces[0])
    return SessionReport(
        principal=principal.id,
        kind=principal.kind,
        space=principal.space,
        label=await _session_label(keys, principal),
        operator=is_operator,
        development=is_development(entrance),
        default_space=principal.space or usual,
        spaces=tuple(spaces),
        spaces_clipped=clipped,
        token=token,
        version=package_version(),
        signals=dict(SIGNAL_MEANINGS),
        now=context.clock.now(),
    )


async def _session_label(keys: AccessKeys, principal: Principal) -> str:
    if principal.kind is PrincipalKind.DEVELOPER:
        return "developer of this machine"
    return await label_of(keys, principal.id)


_ROOT: Final = "/v1/agent"
_CONSOLE_CALLS: Final = frozenset({
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
    "console_agents", "Check whether the space has an agent.", None, AgentPresence, (), ("space",), group=GROUP
)


def agent_page_surfaces(
    door: ConsoleEndpoint, journal: JournalReader, agents: Iterable[Surface], /
) -> Iterable[Surface]:
    """Yield the surfaces of `agents` that the page asks, behind the console's door."""
    for surface in agents:
        about, path = surface.told, surface.path.removeprefix(_ROOT)
        if about is not None and any((method, path) in _CONSOLE_CALLS for method in surface.methods):
            described = replace(about, name=f"console_{about.name}", query=("space", *about.query), group=GROUP)
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

        # Only the status counts: no byte of the answer goes on.
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
