"""Console routes for every caller: the session, the operations, the journal, learned skills, and agents."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Final

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from elytron.registry import WIRE_OPERATIONS
from elytron_adapter.access_keys import OPERATORS
from elytron_adapter.http.requests import IDEMPOTENCY_KEY, idempotency_key, query_number, read_body, require_json
from elytron_adapter.http.responses import render_answer, value_response
from elytron_adapter.surface import AsgiApp, Route, Surface, SurfaceAccess
from elytron_console import limits
from elytron_console.journal import ConversationPage, JournalPage, SpaceContents
from elytron_console.overview import SessionReport, session_report
from elytron_console.routes.console_calls import ConsoleCall, ConsoleRoute
from elytron_console.sessions import COOKIE, ROOT
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
from elytron_core.ids import SpaceId
from elytron_core.model import Request as OperationRequest
from elytron_core.model import Value
from elytron_core.planes import skills
from elytron_core.ports.store import JournalAction
from elytron_core.scope import Reason

JOURNAL_PAGE: Final = 200
"""Journal entries that one answer has at most."""


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


async def _show_session(call: ConsoleCall) -> Value:
    return await _session_of(call, await call.console.guard.token_of(call.request.scope))


async def _begin_session(call: ConsoleCall) -> Response:
    """Start a session, with its cookie for a caller that presented a key."""
    guard, authorization = call.console.guard, call.request.headers.get("authorization")
    if authorization is None:
        return value_response(await _show_session(call))
    cookie = await guard.sessions.open(call.principal.id, authorization)
    answer = value_response(await _session_of(call, await guard.sessions.page_token(cookie)))
    answer.set_cookie(
        COOKIE,
        cookie,
        max_age=int(limits.SESSION_S),
        path=ROOT,
        secure=call.request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return answer


async def _end_session(call: ConsoleCall) -> Response:
    await call.console.guard.sessions.end(call.request.headers)
    answer = Response(status_code=204)
    answer.delete_cookie(COOKIE, path=ROOT, httponly=True, samesite="strict")
    return answer


async def _session_of(call: ConsoleCall, token: str) -> SessionReport:
    return await session_report(call.console.admission, call.principal, token, has_agents=call.console.has_agents)


class PathRow(Value):
    """One path of this server that the caller's key may open."""

    method: str
    path: str
    group: str
    summary: str
    operator: bool
    """True if only an operator's key opens it."""


class PathList(Value):
    """The paths of this server, as its description has them."""

    items: tuple[PathRow, ...]


async def _list_paths(call: ConsoleCall) -> Value:
    sees_all = call.principal.kind in OPERATORS
    return PathList(
        items=tuple(
            PathRow(
                method=one.method,
                path=one.path.replace(":path}", "}"),
                group=one.group,
                summary=one.summary,
                operator=one.access is SurfaceAccess.OPERATOR,
            )
            for one in call.console.admission.transports.served
            if sees_all or one.access is not SurfaceAccess.OPERATOR
        )
    )


async def _perform_operation(call: ConsoleCall) -> Response:
    name, request = call.part("name"), call.request
    require_json(request.headers)
    if name not in _NAMES:
        raise NotFound(what="operation", name=name)
    if name == "erase":
        raise Unsupported(f"the console erases through POST {ROOT}/erasures, with the count of the preview")
    body = await read_body(request.scope, request.receive, limit=limits.BODY_BYTES)
    return render_answer(await call.perform(name, body, idempotency_key=idempotency_key(request.headers)))


async def _show_contents(call: ConsoleCall) -> Value:
    return await call.console.journal.contents(call.space())


async def _list_conversations(call: ConsoleCall) -> Value:
    return await call.console.journal.conversations(call.space())


async def _list_entries(call: ConsoleCall) -> Value:
    query, space = call.request.query_params, call.space()
    actions = frozenset(part for part in query.get("actions", "").split(",") if part)
    if not actions <= _ACTIONS:
        raise InvalidInput(field="actions", problem=f"has an unknown action: use {', '.join(sorted(_ACTIONS))}")
    before_sequence = query_number(query, "before", 1, most=10**15) if "before" in query else None
    limit = query_number(query, "limit", 50, most=JOURNAL_PAGE)
    return await call.console.journal.page(space, before=before_sequence, limit=limit, actions=actions)


async def _list_skills(call: ConsoleCall) -> Response:
    scope, page_limit = call.scope(), core_limits.PAGE_MAX
    request = RuntimeSkillListRequest(include_disabled=True, include_retired=True, limit=page_limit, scope=scope)
    return render_answer(await call.perform("list_runtime_skills", request))


async def _call_skill(
    operation: str, model: type[OperationRequest], change: type[OperationRequest] | None, call: ConsoleCall
) -> Response:
    """Perform an operation on the skill that the path names; a `change` is in the body."""
    fields: dict[str, object] = {"name": call.part("name")}
    if (scope := call.scope()) is not None:
        fields["scope"] = scope
    if change is not None:
        fields |= {name: value for name, value in await call.body(change) if value is not None}
    return render_answer(await call.perform(operation, model(**fields)))


_SKILL: Final = f"{ROOT}/skills/{{name}}"
_SPACE: Final = ("space",)
MEMBER_ROUTES: Final[tuple[ConsoleRoute, ...]] = (
    Route("GET", f"{ROOT}/session", _show_session, "console_session", "Show the session.", None, SessionReport),
    Route("POST", f"{ROOT}/session", _begin_session, "console_sign_in",
          "Start a session whose cookie only the console accepts.", None, SessionReport, is_repeatable=True),
    Route("DELETE", f"{ROOT}/session", _end_session, "console_sign_out", "End the session.", status=204,
          is_repeatable=True),
    Route("GET", f"{ROOT}/paths", _list_paths, "console_paths", "List the paths that the caller's key may use.", None,
          PathList),
    Route("POST", f"{ROOT}/operations/{{name}}", _perform_operation, "console_operation",
          "Perform one operation for a page.", headers=("X-Audit-ID", IDEMPOTENCY_KEY), is_repeatable=True),
    Route("GET", f"{ROOT}/contents", _show_contents, "console_contents", "Count a space's contents.", None,
          SpaceContents, query=_SPACE),
    Route("GET", f"{ROOT}/conversations", _list_conversations, "console_conversations",
          "List the latest conversations.", None, ConversationPage, query=_SPACE),
    Route("GET", f"{ROOT}/journal", _list_entries, "console_journal", "List a space's journal entries, newest first.",
          None, JournalPage, query=("space", "before", "limit", "actions")),
)  # fmt: skip
SKILL_ROUTES: Final[tuple[ConsoleRoute, ...]] = (
    Route("GET", f"{ROOT}/skills", _list_skills, "console_skill_list", "List learned skills.", None,
          RuntimeSkillListReport, query=_SPACE),
    Route("GET", _SKILL, partial(_call_skill, "get_runtime_skill", RuntimeSkillDetailRequest, None),
          "console_skill_detail", "Retrieve a skill.", None, RuntimeSkillDetailReport, query=_SPACE),
    Route("PATCH", _SKILL, partial(_call_skill, "edit_runtime_skill", RuntimeSkillEditRequest, SkillEdit),
          "console_skill_edit", "Revise a skill.", SkillEdit, RuntimeSkillMutationReport, query=_SPACE),
    Route("PATCH", f"{_SKILL}/enabled",
          partial(_call_skill, "set_runtime_skill_enabled", RuntimeSkillSetEnabledRequest, SkillSwitch),
          "console_skill_enable", "Enable or disable a skill.", SkillSwitch, RuntimeSkillMutationReport,
          query=_SPACE),
    Route("DELETE", _SKILL, partial(_call_skill, "delete_runtime_skill", RuntimeSkillDeleteRequest, None),
          "console_skill_delete", "Delete a skill.", None, RuntimeSkillMutationReport, query=_SPACE),
)  # fmt: skip


_AGENT_ROOT: Final = "/v1/agent"
_SHOWN_ROUTES: Final = frozenset({
    "get_agent", "init_agent", "get_agent_config", "put_agent_config", "list_items", "agent_usage", "list_subagents",
    "list_agent_schedules", "make_agent_schedule", "delete_agent_schedule",
})  # fmt: skip
"""Names of the routes that the page uses. Agents are erased by the erasures page, which counts first."""


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


def agent_page_routes(agents: Iterable[Surface], /) -> Iterable[ConsoleRoute]:
    """Yield the routes of `agents` that the page uses, behind the console's guard."""
    for surface in agents:
        route = surface.route
        if route.name in _SHOWN_ROUTES:
            handler = _AgentHandler(surface.app)
            yield replace(
                route,
                path=f"{ROOT}/agent{route.path.removeprefix(_AGENT_ROOT)}",
                handler=handler,
                name=f"console_{route.name}",
                query=("space", *route.query),
            )
            if route.name == "get_agent":
                yield Route("GET", f"{ROOT}/agents", handler.presence, "console_agents",
                            "Check whether the space has an agent.", None, AgentPresence, query=_SPACE)  # fmt: skip


class _AgentHandler:
    """Passes a request on to a route of agents, as the caller in the one requested space."""

    def __init__(self, app: AsgiApp, /) -> None:
        self._app = app

    async def __call__(self, call: ConsoleCall) -> Response:
        _bind_space(call)
        return AppResponse(self._app)

    async def presence(self, call: ConsoleCall) -> Value:
        """Return whether there is an agent, by the status of its route."""
        space, request = _bind_space(call), call.request
        status = 0

        # Only the status counts: no byte of the answer is forwarded.
        async def heard(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)

        try:
            await self._app(request.scope, request.receive, heard)
        except NotFound:
            status = 404
        return AgentPresence(space=space, exists=status != 404)


def _bind_space(call: ConsoleCall) -> SpaceId:
    """Bind the caller to the requested space. Raises PermissionRefused, ScopeMissing."""
    scope, space = call.request.scope, call.space()
    scope["state"] = {**scope["state"], "principal": replace(call.principal, space=space)}
    return space
