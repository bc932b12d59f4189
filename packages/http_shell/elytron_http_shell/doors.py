"""Doors: the routes to surfaces, each with what lets callers in or turns them away before it."""

from typing import assert_never

from starlette.datastructures import QueryParams
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.types import Message, Receive, Scope, Send

from elytron_adapter.entry import Entrance
from elytron_adapter.failures import rejection
from elytron_adapter.http.bodies import strictly
from elytron_adapter.http.handlers import request_id_of
from elytron_adapter.http.headers import IDEMPOTENCY_KEY, heads_of
from elytron_adapter.http.origins import SAFE_METHODS
from elytron_adapter.http.responses import turn_away
from elytron_adapter.identity.principals import OPERATORS, Principal
from elytron_adapter.surface import Access, Kind, Surface
from elytron_core.errors import ElytronError, InvalidInput, PermissionRefused, RateLimited, Unauthorized

_UNAUTHORIZED = 401


def route(surface: Surface, entrance: Entrance, /) -> BaseRoute:
    """Return the route to `surface`, with its door before it."""
    door = Door(surface, entrance=entrance)
    match surface.kind:
        case Kind.HTTP:
            return Route(surface.path, door, methods=list(surface.methods))
        case Kind.WEBSOCKET:
            return WebSocketRoute(surface.path, door)
        case Kind.MOUNT:
            return Mount(surface.path, door)


class Door:
    """Lets a request on with its principal, or turns it away before anything of it is read."""

    def __init__(self, surface: Surface, /, *, entrance: Entrance) -> None:
        rules = surface.body
        self._app = surface.app if rules is None else strictly(surface.app, limit=rules.limit, require=rules.require)
        self._entrance = entrance
        self._credential = surface.credential
        self._path = surface.path
        self._query = surface.told.query if surface.told is not None else None
        heard = surface.told.headers if surface.told is not None else ()
        self._takes_keys = surface.is_repeatable or surface.kind is Kind.WEBSOCKET or IDEMPOTENCY_KEY in heard
        self.access = surface.access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["state"]["route"] = self._path
        match self.access:
            case Access.PUBLIC:
                await self._app(scope, receive, send)
            case Access.SIGNED | Access.CREDENTIALS:
                try:
                    self._require_heard(scope)
                except InvalidInput as error:
                    await turn_away(rejection(error, request_id=request_id_of(scope)), scope, receive, send)
                    return
                await self._judged(scope, receive, send)
            case Access.MEMBER | Access.OPERATOR:
                try:
                    scope["state"]["principal"] = await self._admitted(scope)
                    if scope["type"] == "http" and scope["query_string"]:
                        self._require_known(QueryParams(scope["query_string"]))
                    self._require_heard(scope)
                except ElytronError as error:
                    await turn_away(rejection(error, request_id=request_id_of(scope)), scope, receive, send)
                    return
                await self._app(scope, receive, send)
            case _:
                assert_never(self.access)

    async def _judged(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let the handler judge the credential, and count what it says was wrong."""
        refused: RateLimited | None = None

        async def answer(message: Message) -> None:
            nonlocal refused
            if message["type"] == "http.response.start" and message["status"] == _UNAUTHORIZED:
                refused = self._too_many(scope)
            if refused is None:
                await send(message)

        await self._app(scope, receive, answer)
        if refused is not None:
            await turn_away(rejection(refused, request_id=request_id_of(scope)), scope, receive, send)

    def _too_many(self, scope: Scope) -> RateLimited | None:
        """Count a wrong credential, and return what to answer if there were too many from the same place."""
        attempts, client = self._entrance.attempts, scope.get("client")
        wait_s = attempts.failed(client[0] if client else None)
        if wait_s is None:
            return None
        return RateLimited(limit=attempts.most, retry_after_s=wait_s, what="wrong credentials")

    async def _admitted(self, scope: Scope) -> Principal:
        credential = self._credential(heads_of(scope))
        try:
            principal = await self._entrance.authenticate(credential)
        except Unauthorized:
            if credential is not None and (refused := self._too_many(scope)):
                raise refused from None
            raise
        if self.access is Access.OPERATOR and principal.kind not in OPERATORS:
            raise PermissionRefused("this is an operator's: use an operator's key")
        return principal

    def _require_heard(self, scope: Scope) -> None:
        """Raise InvalidInput for an idempotency key where a repeat would act again."""
        if self._takes_keys or scope.get("method", "GET") in SAFE_METHODS or IDEMPOTENCY_KEY not in heads_of(scope):
            return
        problem = "is not heeded at this path, where a repeat acts again: leave the header out"
        raise InvalidInput(field="idempotency_key", problem=problem)

    def _require_known(self, query: QueryParams) -> None:
        """Raise InvalidInput for a parameter that means nothing here: what it was to do would be left undone unsaid."""
        if self._query is not None and not query.keys() <= {*self._query}:
            there = f"there are {', '.join(self._query)}" if self._query else "there are none here"
            raise InvalidInput(field="query", problem=f"has an unknown parameter: {there}")
