"""The Memory Gateway's routes, in the shapes of its API reference, which puts credentials into the body.

`Authorization: Bearer <user key>` with `X-User-Id` may authenticate the user instead. Either is checked, and the call
is counted, before more of a body is read than its first bytes with the credentials.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from elytron_adapter import envelope
from elytron_adapter.access_keys import OPERATORS
from elytron_adapter.dispatch import CallerAdmission, acting_as
from elytron_adapter.envelope import RejectedAnswer
from elytron_adapter.http.requests import IDEMPOTENCY_KEY, idempotency_key, read_body, read_value, require_json
from elytron_adapter.http.responses import answered_by, refused_response, request_id_of
from elytron_adapter.surface import Route, Surface, SurfaceAccess, build_surfaces
from elytron_core import limits
from elytron_core.errors import InvalidInput, InvalidJson, PermissionRefused, Unauthorized
from elytron_core.model import Value
from elytron_core.strict_json import Json, parse_json
from elytron_gateway import wire
from elytron_gateway.resources import UploadedFile
from elytron_gateway.routes.forms import (
    CUT,
    CallerClaim,
    UnnamedCaller,
    UploadForm,
    claimed_request,
    form_kind,
    is_long,
    require_same,
)
from elytron_gateway.service import MemoryGateway
from elytron_gateway.users import SignedReport, principal_of

FORM = "multipart/form-data"
TRANSPORT = "gateway"
_NO_USER = "invalid user credentials"
_NO_OPERATOR = "invalid provisioning credential: this requires an operator's key"

PlacedT = TypeVar("PlacedT", bound=wire.CallerCredentials)


def gateway_surfaces(shared_gateway: MemoryGateway | None = None, /) -> Callable[[CallerAdmission], Iterable[Surface]]:
    """Return a gateway's surfaces; by default, of a plain gateway over the server's own runtime."""

    def family(admission: CallerAdmission) -> Iterable[Surface]:
        call_places = CallPlaces(shared_gateway or MemoryGateway(admission.dispatcher.runtime), admission)
        return build_surfaces(_ROUTES, answered_by(call_places.answer), group="gateway", transport=TRANSPORT)

    return family


class CallPlaces:
    """Applies each caller's limits to its requests, as every other transport does."""

    def __init__(self, gateway: MemoryGateway, admission: CallerAdmission, /) -> None:
        self.gateway = gateway
        self._admission = admission

    async def answer(self, route: "GatewayRoute", request: Request) -> Value | Response:
        """Answer a request for `route`; unknown callers get the same answer, whatever the reason."""
        try:
            async with self.of_operator(request) if route.access is SurfaceAccess.OPERATOR else nullcontext():
                return await route.handler(self, request)
        except Unauthorized as error:
            unknown_caller_refusal = _NO_OPERATOR if route.handler is _create_user else _NO_USER
            reason = error.message if isinstance(error, UnnamedCaller) else unknown_caller_refusal
            refusal = RejectedAnswer(request_id=request_id_of(request.scope), error_key=Unauthorized.key, reason=reason)
            return refused_response(refusal, headers=CUT if is_long(request.headers) else None)
        except InvalidJson as error:
            # The reference implementation uses one status for all errors in a request, including invalid JSON.
            raise InvalidInput(field=error.field, problem=error.problem) from None

    @asynccontextmanager
    async def of_user(self, request: Request, /, *, has_body: bool = True) -> AsyncGenerator["GatewayCaller"]:
        """Hold a slot of the user with this credential, and yield the user's gateway.

        Raises Unauthorized, RateLimited, Overloaded, before the body is read or decoded.
        """
        claim, repeated_request = await claimed_request(request, has_body=has_body)
        users = self.gateway.users
        authentication = (
            users.authenticate(claim.user_id, claim.user_key) if claim.user_id else users.holder(claim.user_key)
        )
        user = await authentication
        client = request.client
        async with self._admission.shedding.place(principal_of(user)):
            with acting_as(principal_of(user), address=client.host if client is not None else ""):
                yield GatewayCaller(self.gateway.of(user), repeated_request, CallerClaim(user.user_id, claim.user_key))

    @asynccontextmanager
    async def of_operator(self, request: Request, /) -> AsyncGenerator[None]:
        """Hold a slot of an operator. Raises Unauthorized, PermissionRefused, Overloaded."""
        principal = await self._admission.authenticate(request.headers.get("authorization"))
        if principal.kind not in OPERATORS:
            raise PermissionRefused("only an operator may create users: use the provisioning credential")
        async with self._admission.shedding.place(principal):
            with acting_as(principal):
                yield


@dataclass(frozen=True, slots=True)
class GatewayCaller:
    """An authenticated user, with the request."""

    gateway: MemoryGateway
    request: Request
    claim: CallerClaim

    async def decoded(self, model: type[PlacedT], /) -> PlacedT:
        """Return the request in the body, with the user's credentials."""
        body = await read_body(self.request.scope, self.request.receive, limit=limits.JSON_BYTES)
        return self.signed(await envelope.read_aside(len(body), partial(envelope.decode_as, model, body)))

    def placed(self) -> wire.PlacedRequest:
        """Return the app and project in the address."""
        parameters = self.request.query_params
        return self.signed(
            wire.PlacedRequest(
                **{name: parameters[name] for name in wire.PlacedRequest.model_fields if name in parameters}
            )
        )

    def signed(self, placed_request: PlacedT, /) -> PlacedT:
        """Return a request of the user. Raises Unauthorized if it has other credentials."""
        require_same(self.claim, placed_request.user_id, placed_request.user_key)
        return placed_request.model_copy(update={"user_id": self.claim.user_id, "user_key": self.claim.user_key})


GatewayHandler = Callable[[CallPlaces, Request], Awaitable[Value]]
GatewayRoute = Route[GatewayHandler]


async def _check_health(places: CallPlaces, _request: Request) -> Value:
    return await places.gateway.health()


async def _create_user(places: CallPlaces, request: Request) -> Value:
    """Create a user, for an operator."""
    async with places.of_operator(request):
        return await places.gateway.create_user(
            await read_value(request, wire.UserRequest, limit=limits.HTTP_BODY_BYTES)
        )


async def _add_memories(places: CallPlaces, request: Request) -> Value:
    require_json(request.headers)
    async with places.of_user(request) as caller:
        body = await caller.decoded(wire.GatewayAddRequest)
        return await caller.gateway.add(body, idempotency_key=idempotency_key(request.headers))


async def _add_form(places: CallPlaces, request: Request) -> Value:
    """Add the messages of a form, with its files."""
    form_kind(request.headers)
    async with places.of_user(request) as caller, UploadForm(caller.request) as upload_form:
        fields = upload_form.fields("user_id", "user_key", "session_id", "app_id", "project_id", "messages")
        add_request = await envelope.read_aside(len(fields.get("messages", "")), partial(_add_of, fields))
        return await caller.gateway.add(
            caller.signed(add_request),
            uploads=await upload_form.uploads(),
            idempotency_key=idempotency_key(request.headers),
        )


async def _answer_body(
    call: Callable[[MemoryGateway, PlacedT], Awaitable[Value]],
    model: type[PlacedT],
    places: CallPlaces,
    request: Request,
) -> Value:
    require_json(request.headers)
    async with places.of_user(request) as caller:
        return await call(caller.gateway, await caller.decoded(model))


async def _upload_resource(places: CallPlaces, request: Request) -> Value:
    form_kind(request.headers)
    async with places.of_user(request) as caller, UploadForm(caller.request) as upload_form:
        file = upload_form.file("file")
        fields = upload_form.fields("app_id", "project_id", "user_id", "user_key", "title", "description")
        title, description = (fields.pop(name, "") for name in ("title", "description"))
        upload = UploadedFile(
            await file.read(),
            file_name=_base_name(file.filename or ""),
            declared=file.content_type or "",
            title=title[: limits.TOPIC_CHARS],
            description=description[: limits.FACT_CHARS],
        )
        return await caller.gateway.upload(caller.signed(wire.PlacedRequest(**fields)), upload)


async def _list_resources(places: CallPlaces, request: Request) -> Value:
    async with places.of_user(request, has_body=False) as caller:
        return await caller.gateway.resources(caller.placed())


async def _get_resource(places: CallPlaces, request: Request) -> Value:
    async with places.of_user(request, has_body=False) as caller:
        return await caller.gateway.resource(caller.placed(), request.path_params["resource_id"])


async def _delete_resource(places: CallPlaces, request: Request) -> Value:
    # A client may send its credentials in a body here too, as everywhere else.
    has_body = request.headers.get("content-length", "0") != "0"
    if has_body:
        require_json(request.headers)
    async with places.of_user(request, has_body=has_body) as caller:
        placed_request = await caller.decoded(wire.PlacedRequest) if has_body else caller.placed()
        return await caller.gateway.delete_resource(placed_request, request.path_params["resource_id"])


async def _retry_resource(places: CallPlaces, request: Request) -> Value:
    require_json(request.headers)
    async with places.of_user(request) as caller:
        placed_request = await caller.decoded(wire.PlacedRequest)
        return await caller.gateway.retry_resource(placed_request, request.path_params["resource_id"])


async def _list_users(places: CallPlaces, _request: Request) -> Value:
    return wire.UsersAnswer(users=tuple([user.user_id async for user in places.gateway.users.all()]))


async def _report_usage(places: CallPlaces, request: Request) -> Value:
    return await places.gateway.usage(request.path_params["user_id"])


async def _erase_user(places: CallPlaces, request: Request) -> Value:
    return await places.gateway.erase_user(request.path_params["user_id"])


async def _rotate_key(places: CallPlaces, request: Request) -> Value:
    user_id = request.path_params["user_id"]
    return wire.UserAnswer(user_id=user_id, user_key=await places.gateway.users.rotate(user_id))


async def _revoke_key(places: CallPlaces, request: Request) -> Value:
    await places.gateway.users.revoke(request.path_params["user_id"])
    return await _report_usage(places, request)


async def _drain_backlog(places: CallPlaces, _request: Request) -> Value:
    return await places.gateway.drain()


def _base_name(name: str) -> str:
    """Return a file's name without any folder that its sender put before it."""
    return name.replace("\\", "/").rpartition("/")[2]


def _add_of(fields: dict[str, str]) -> wire.GatewayAddRequest:
    values: dict[str, Any] = {**fields}
    if "messages" in fields:
        values["messages"] = _json_of("messages", fields["messages"])
    return wire.GatewayAddRequest.model_validate(values)


def _json_of(name: str, text: str) -> Json:
    """Return the JSON in a form's field. Raises InvalidInput if it is not JSON."""
    try:
        return parse_json(text.encode("utf-8", "surrogatepass"), limit=limits.JSON_BYTES)
    except InvalidJson as error:
        raise InvalidInput(field=name, problem=f"is not JSON: it {error.problem}") from None


_USER, _OPERATOR = SurfaceAccess.CREDENTIALS, SurfaceAccess.OPERATOR
_RESOURCE, _OWN_USER = "/resources/{resource_id}", "/users/{user_id}"
_ROUTES: Final[tuple[GatewayRoute, ...]] = (
    Route("GET", "/health", _check_health, "gateway_health", "Check whether the gateway answers.", None,
          wire.HealthAnswer, _USER),
    Route("POST", "/users", _create_user, "create_user", "Create a user.", wire.UserRequest, wire.UserAnswer, _USER),
    Route("POST", "/memories/add", _add_memories, "add_memories", "Add messages.", wire.GatewayAddRequest,
          wire.AddAnswer, _USER, headers=(IDEMPOTENCY_KEY,)),
    Route("POST", "/memories/add/multipart", _add_form, "add_memories_with_files", "Add messages with files.", FORM,
          wire.AddAnswer, _USER, headers=(IDEMPOTENCY_KEY,)),
    Route("POST", "/memories/flush", partial(_answer_body, MemoryGateway.flush, wire.FlushRequest), "flush_memories",
          "Extract memories from a session.", wire.FlushRequest, wire.FlushAnswer, _USER),
    Route("POST", "/memories/search", partial(_answer_body, MemoryGateway.search, wire.GatewaySearchRequest),
          "search_memories", "Search a user's memories.", wire.GatewaySearchRequest, wire.SearchAnswer, _USER),
    Route("POST", "/memories/override", partial(_answer_body, MemoryGateway.override, wire.OverrideRequest),
          "override_memory", "Override a memory's text.", wire.OverrideRequest, wire.EditAnswer, _USER),
    Route("POST", "/memories/delete", partial(_answer_body, MemoryGateway.delete, wire.DeleteRequest), "delete_memory",
          "Hide or erase a memory.", wire.DeleteRequest, wire.EditAnswer, _USER),
    Route("POST", "/memories/edits", partial(_answer_body, MemoryGateway.edits, wire.PlacedRequest), "list_edits",
          "List edits.", wire.PlacedRequest, wire.EditsAnswer, _USER),
    Route("POST", "/memories/undo", partial(_answer_body, MemoryGateway.undo, wire.EditRequest), "undo_edit",
          "Undo a memory's edit.", wire.EditRequest, wire.EditAnswer, _USER),
    Route("POST", "/resources/external", partial(_answer_body, MemoryGateway.register, wire.ExternalRequest),
          "register_resource", "Register a resource by its address.", wire.ExternalRequest, wire.ResourceAnswer,
          _USER),
    Route("POST", "/resources", _upload_resource, "upload_resource", "Upload a file.", FORM, wire.ResourceAnswer,
          _USER),
    Route("GET", "/resources", _list_resources, "list_resources", "List resources.", None, wire.ResourcesAnswer,
          _USER),
    Route("GET", _RESOURCE, _get_resource, "get_resource", "Retrieve a resource.", None, wire.ResourcesAnswer, _USER),
    Route("DELETE", _RESOURCE, _delete_resource, "delete_resource", "Delete a resource.", None, wire.DeletedAnswer,
          _USER),
    Route("POST", f"{_RESOURCE}/retry", _retry_resource, "retry_resource", "Retry reading a resource.",
          wire.PlacedRequest, wire.ResourceAnswer, _USER),
    Route("GET", "/users", _list_users, "list_users", "List users.", None, wire.UsersAnswer, _OPERATOR),
    Route("GET", _OWN_USER, _report_usage, "user_usage", "Report a user's usage.", None, wire.UsageAnswer, _OPERATOR),
    Route("DELETE", _OWN_USER, _erase_user, "erase_user", "Permanently erase a user.", None, SignedReport, _OPERATOR),
    Route("POST", f"{_OWN_USER}/rotate", _rotate_key, "rotate_user_key", "Rotate a user's key.", None,
          wire.UserAnswer, _OPERATOR),
    Route("POST", f"{_OWN_USER}/revoke", _revoke_key, "revoke_user_key", "Revoke a user's key.", None,
          wire.UsageAnswer, _OPERATOR),
    Route("POST", "/backlog/drain", _drain_backlog, "drain_backlog", "Send queued additions to the upstream.", None,
          wire.DrainAnswer, _OPERATOR),
)  # fmt: skip
