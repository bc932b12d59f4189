"""The Memory Gateway's routes, in the shapes of its API reference, which puts credentials into the body.

`Authorization: Bearer <user key>` with `X-User-Id` may authenticate the user instead. Either is checked, and the call
is counted, before more of a body is read than its first bytes with the credentials.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response

from elytron_adapter import envelope
from elytron_adapter.access_keys import OPERATORS
from elytron_adapter.dispatch import CallerAdmission, acting_as
from elytron_adapter.envelope import RejectedAnswer
from elytron_adapter.http.requests import IDEMPOTENCY_KEY, idempotency_key, read_body, require_json
from elytron_adapter.http.responses import refused_response, request_id_of, shown_surface
from elytron_adapter.surface import Surface, SurfaceAccess, SurfaceDescription
from elytron_core import limits
from elytron_core.errors import InvalidInput, InvalidJson, PermissionRefused, Unauthorized
from elytron_core.model import Value
from elytron_core.strict_json import Json, parse_json
from elytron_gateway import wire
from elytron_gateway.accounts import SignedReport, principal_of
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

FORM = "multipart/form-data"
TRANSPORT = "gateway"
_NO_USER = "invalid user credentials"
_NO_OPERATOR = "invalid provisioning credential: this requires an operator's key"

PlacedT = TypeVar("PlacedT", bound=wire.CallerCredentials)
Handler = Callable[[Request], Awaitable[Value]]
Call = Callable[[MemoryGateway, Any], Awaitable[Value]]
"""A request of the gateway's API, for a caller that was let in."""


def gateway_surfaces(shared_gateway: MemoryGateway | None = None, /) -> Callable[[CallerAdmission], Iterable[Surface]]:
    """Return the family of a gateway's routes; without one, of a plain one over the server's own runtime."""

    def family(entrance: CallerAdmission) -> Iterable[Surface]:
        gateway = shared_gateway or MemoryGateway(entrance.dispatcher.runtime)
        places = CallPlaces(gateway, entrance)
        surfaces = (*_body_routes(gateway, places), *_resource_routes(places), *_operator_routes(gateway, places))
        return [replace(surface, transport=TRANSPORT) for surface in surfaces]

    return family


class CallPlaces:
    """Gives each request its place under its caller's limits, as every other transport does."""

    def __init__(self, gateway: MemoryGateway, entrance: CallerAdmission, /) -> None:
        self._gateway = gateway
        self._entrance = entrance

    @asynccontextmanager
    async def of_user(self, request: Request, /, *, has_body: bool = True) -> AsyncGenerator["GatewayCaller"]:
        """Hold the place of the user with this credential, and yield the user's gateway.

        Raises Unauthorized, RateLimited, Overloaded, before the body is read or decoded.
        """
        claim, again = await claimed_request(request, has_body=has_body)
        users = self._gateway.users
        proven = users.authenticate(claim.user_id, claim.user_key) if claim.user_id else users.holder(claim.user_key)
        user = await proven
        client = request.client
        async with self._entrance.shedding.place(principal_of(user)):
            with acting_as(principal_of(user), address=client.host if client is not None else ""):
                yield GatewayCaller(self._gateway.of(user), again, CallerClaim(user.user_id, claim.user_key))

    @asynccontextmanager
    async def of_operator(self, request: Request, /) -> AsyncGenerator[None]:
        """Hold the place of an operator. Raises Unauthorized, PermissionRefused, Overloaded."""
        principal = await self._entrance.authenticate(request.headers.get("authorization"))
        if principal.kind not in OPERATORS:
            raise PermissionRefused("only an operator may create users: use the provisioning credential")
        async with self._entrance.shedding.place(principal):
            with acting_as(principal):
                yield


@dataclass(frozen=True, slots=True)
class GatewayCaller:
    """A user who was let in, with the request."""

    gateway: MemoryGateway
    request: Request
    claim: CallerClaim

    async def decoded(self, model: type[PlacedT], /) -> PlacedT:
        """Return the request in the body, with the user's credentials."""
        body = await read_body(self.request.scope, self.request.receive, limit=limits.JSON_BYTES)
        return self.signed(await envelope.read_aside(len(body), partial(envelope.decode_as, model, body)))

    def placed(self) -> wire.PlacedRequest:
        """Return where the user asks, from the address."""
        parameters = self.request.query_params
        return self.signed(
            wire.PlacedRequest(
                **{name: parameters[name] for name in wire.PlacedRequest.model_fields if name in parameters}
            )
        )

    def signed(self, placed: PlacedT, /) -> PlacedT:
        """Return a request of the user's. Raises Unauthorized if it has other credentials."""
        require_same(self.claim, placed.user_id, placed.user_key)
        return placed.model_copy(update={"user_id": self.claim.user_id, "user_key": self.claim.user_key})


def _body_routes(gateway: MemoryGateway, places: CallPlaces) -> Iterable[Surface]:
    """Yield the routes whose requests are JSON bodies."""

    async def health(_request: Request) -> Value:
        return await gateway.health()

    async def users(request: Request) -> Value:
        async with places.of_operator(request):
            require_json(request.headers)
            body = await read_body(request.scope, request.receive, limit=limits.HTTP_BODY_BYTES)
            return await gateway.create_user(envelope.decode_as(wire.UserRequest, body))

    async def add(request: Request) -> Value:
        require_json(request.headers)
        async with places.of_user(request) as user_call:
            body = await user_call.decoded(wire.GatewayAddRequest)
            return await user_call.gateway.add(body, idempotency_key=idempotency_key(request.headers))

    async def add_multipart(request: Request) -> Value:
        return await _add_form(request, places)

    description = SurfaceDescription("gateway_health", "Check whether the gateway answers.", given=wire.HealthAnswer)
    yield _route_surface("GET", "/health", health, description)
    description = SurfaceDescription("create_user", "Create a user.", wire.UserRequest, wire.UserAnswer)
    yield _route_surface("POST", "/users", users, description, unknown=_NO_OPERATOR)
    keyed = (IDEMPOTENCY_KEY,)
    description = SurfaceDescription("add_memories", "Add messages.", wire.GatewayAddRequest, wire.AddAnswer, keyed)
    yield _route_surface("POST", "/memories/add", add, description)
    description = SurfaceDescription("add_memories_with_files", "Add messages with files.", FORM, wire.AddAnswer, keyed)
    yield _route_surface("POST", "/memories/add/multipart", add_multipart, description)
    rows: tuple[tuple[str, type[wire.PlacedRequest], type[Value], Call, str, str], ...] = (
        ("/memories/flush", wire.FlushRequest, wire.FlushAnswer, MemoryGateway.flush, "flush_memories",
         "Extract memories from a session."),
        ("/memories/search", wire.GatewaySearchRequest, wire.SearchAnswer, MemoryGateway.search, "search_memories",
         "Search a user's memories."),
        ("/memories/override", wire.OverrideRequest, wire.EditAnswer, MemoryGateway.override, "override_memory",
         "Override a memory's text."),
        ("/memories/delete", wire.DeleteRequest, wire.EditAnswer, MemoryGateway.delete, "delete_memory",
         "Hide or erase a memory."),
        ("/memories/edits", wire.PlacedRequest, wire.EditsAnswer, MemoryGateway.edits, "list_edits", "List edits."),
        ("/memories/undo", wire.EditRequest, wire.EditAnswer, MemoryGateway.undo, "undo_edit", "Undo a memory's edit."),
        ("/resources/external", wire.ExternalRequest, wire.ResourceAnswer, MemoryGateway.register, "register_resource",
         "Register a resource by its address."),
    )  # fmt: skip
    for path, accepts, answer, call, name, summary in rows:
        yield _route_surface(
            "POST", path, _body_handler(call, accepts, places), SurfaceDescription(name, summary, accepts, answer)
        )


def _resource_routes(places: CallPlaces) -> Iterable[Surface]:
    """Yield the routes of uploaded resources."""

    async def upload(request: Request) -> Value:
        return await _read_upload(request, places)

    async def listed(request: Request) -> Value:
        async with places.of_user(request, has_body=False) as user_call:
            return await user_call.gateway.resources(user_call.placed())

    async def one(request: Request) -> Value:
        async with places.of_user(request, has_body=False) as user_call:
            return await user_call.gateway.resource(user_call.placed(), request.path_params["resource_id"])

    async def retry(request: Request) -> Value:
        require_json(request.headers)
        async with places.of_user(request) as user_call:
            placed = await user_call.decoded(wire.PlacedRequest)
            return await user_call.gateway.retry_resource(placed, request.path_params["resource_id"])

    async def delete(request: Request) -> Value:
        # A client may send its credentials in a body here too, as everywhere else.
        has_body = request.headers.get("content-length", "0") != "0"
        if has_body:
            require_json(request.headers)
        async with places.of_user(request, has_body=has_body) as user_call:
            placed = await user_call.decoded(wire.PlacedRequest) if has_body else user_call.placed()
            return await user_call.gateway.delete_resource(placed, request.path_params["resource_id"])

    place = "/resources/{resource_id}"
    rows: tuple[tuple[str, str, Handler, SurfaceDescription], ...] = (
        ("POST", "/resources", upload,
         SurfaceDescription("upload_resource", "Upload a file.", FORM, wire.ResourceAnswer)),
        ("GET", "/resources", listed,
         SurfaceDescription("list_resources", "List resources.", given=wire.ResourcesAnswer)),
        ("GET", place, one, SurfaceDescription("get_resource", "Retrieve a resource.", given=wire.ResourcesAnswer)),
        ("DELETE", place, delete,
         SurfaceDescription("delete_resource", "Delete a resource.", given=wire.DeletedAnswer)),
        ("POST", f"{place}/retry", retry,
         SurfaceDescription("retry_resource", "Retry reading a resource.", wire.PlacedRequest, wire.ResourceAnswer)),
    )  # fmt: skip
    for row in rows:
        yield _route_surface(*row)


def _operator_routes(gateway: MemoryGateway, places: CallPlaces) -> Iterable[Surface]:
    """Yield the routes of the server's operator."""

    async def usage(request: Request) -> Value:
        return await gateway.usage(request.path_params["user_id"])

    async def listed(_request: Request) -> Value:
        return wire.UsersAnswer(users=tuple([user.user_id async for user in gateway.users.all()]))

    async def rotate(request: Request) -> Value:
        user_id = request.path_params["user_id"]
        return wire.UserAnswer(user_id=user_id, user_key=await gateway.users.rotate(user_id))

    async def revoke(request: Request) -> Value:
        await gateway.users.revoke(request.path_params["user_id"])
        return await gateway.usage(request.path_params["user_id"])

    async def erase(request: Request) -> Value:
        return await gateway.erase_user(request.path_params["user_id"])

    async def drain(_request: Request) -> Value:
        return await gateway.drain()

    place = "/users/{user_id}"
    rows: tuple[tuple[str, str, Handler, SurfaceDescription], ...] = (
        ("GET", "/users", listed, SurfaceDescription("list_users", "List users.", given=wire.UsersAnswer)),
        ("GET", place, usage, SurfaceDescription("user_usage", "Report a user's usage.", given=wire.UsageAnswer)),
        ("DELETE", place, erase, SurfaceDescription("erase_user", "Permanently erase a user.", given=SignedReport)),
        ("POST", f"{place}/rotate", rotate,
         SurfaceDescription("rotate_user_key", "Rotate a user's key.", given=wire.UserAnswer)),
        ("POST", f"{place}/revoke", revoke,
         SurfaceDescription("revoke_user_key", "Revoke a user's key.", given=wire.UsageAnswer)),
        ("POST", "/backlog/drain", drain,
         SurfaceDescription("drain_backlog", "Send queued additions to the upstream.", given=wire.DrainAnswer)),
    )  # fmt: skip
    for method, path, handler, description in rows:
        yield _route_surface(method, path, _placed_handler(handler, places), description, access=SurfaceAccess.OPERATOR)


def _route_surface(
    method: str,
    path: str,
    handler: Handler,
    description: SurfaceDescription,
    *,
    access: SurfaceAccess = SurfaceAccess.CREDENTIALS,
    unknown: str = _NO_USER,
) -> Surface:
    """Return the surface of a route; an unknown caller gets `unknown`, alike for every reason."""

    async def answered(request: Request) -> Response:
        try:
            return Response(envelope.encode_value(await handler(request)), media_type="application/json")
        except Unauthorized as error:
            reason = error.message if isinstance(error, UnnamedCaller) else unknown
            description = RejectedAnswer(
                request_id=request_id_of(request.scope), error_key=Unauthorized.key, reason=reason
            )
            return refused_response(description, headers=CUT if is_long(request.headers) else None)
        except InvalidJson as error:
            # The reference knows one status for what is wrong in a request, fields that are no JSON among it.
            raise InvalidInput(field=error.field, problem=error.problem) from None

    return shown_surface(
        path, answered, access=access, methods=(method,), description=replace(description, group="gateway")
    )


def _body_handler(call: Call, accepts: type[wire.PlacedRequest], places: CallPlaces) -> Handler:
    async def handler(request: Request) -> Value:
        require_json(request.headers)
        async with places.of_user(request) as user_call:
            return await call(user_call.gateway, await user_call.decoded(accepts))

    return handler


def _placed_handler(call: Handler, places: CallPlaces) -> Handler:
    async def handler(request: Request) -> Value:
        async with places.of_operator(request):
            return await call(request)

    return handler


async def _read_upload(request: Request, places: CallPlaces) -> Value:
    form_kind(request.headers)
    async with places.of_user(request) as user_call, UploadForm(user_call.request) as form:
        file = form.file("file")
        fields = form.fields("app_id", "project_id", "user_id", "user_key", "title", "description")
        titles = {name: fields.pop(name, "") for name in ("title", "description")}
        upload = UploadedFile(
            await file.read(),
            file_name=_base_name(file.filename or ""),
            declared=file.content_type or "",
            title=titles["title"][: limits.TOPIC_CHARS],
            description=titles["description"][: limits.FACT_CHARS],
        )
        return await user_call.gateway.upload(user_call.signed(wire.PlacedRequest(**fields)), upload)


def _base_name(name: str) -> str:
    """Return a file's name without any folder that its sender put before it."""
    return name.replace("\\", "/").rpartition("/")[2]


async def _add_form(request: Request, places: CallPlaces) -> Value:
    form_kind(request.headers)
    async with places.of_user(request) as user_call, UploadForm(user_call.request) as form:
        fields = form.fields("user_id", "user_key", "session_id", "app_id", "project_id", "messages")
        add_request = user_call.signed(
            await envelope.read_aside(len(fields.get("messages", "")), partial(_add_of, fields))
        )
        return await user_call.gateway.add(
            add_request, uploads=await form.uploads(), idempotency_key=idempotency_key(request.headers)
        )


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
