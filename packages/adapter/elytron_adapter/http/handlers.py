"""Handlers of Starlette as surfaces, and what a server's door put into their requests."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import request_response
from starlette.types import Scope

from elytron_adapter.identity.principals import Principal
from elytron_adapter.surface import Access, Surface, Told


def shown(
    path: str,
    handler: Callable[[Request], Awaitable[Response]],
    /,
    *,
    access: Access,
    methods: tuple[str, ...],
    told: Told | None = None,
) -> Surface:
    """Return the surface at `path` that answers as the Starlette `handler` does."""
    return Surface(path, request_response(handler), access, methods, told=told)


def principal_of(scope: Scope, /) -> Principal:
    """Return who was let in."""
    principal = scope["state"]["principal"]
    assert isinstance(principal, Principal)
    return principal


def request_id_of(scope: Scope, /) -> str:
    """Return the id that the answer bears, and the log."""
    request_id = scope["state"]["request_id"]
    assert isinstance(request_id, str)
    return request_id
