"""Stopping the server over HTTP: only from this machine."""

import ipaddress
import os

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from elytron_adapter.dispatch import CallerAdmission
from elytron_adapter.http.requests import read_value
from elytron_adapter.http.responses import request_app, value_response
from elytron_adapter.surface import Route, Surface, SurfaceAccess, build_surfaces
from elytron_core.contracts.inspection import ShutdownReport, ShutdownRequest
from elytron_core.errors import PermissionRefused, Unsupported

SHUTDOWN_PATH = "/v1/shutdown"


SHUTDOWN_BODY_BYTES = 16_384
"""Bytes of a request that ends the server."""


_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-real-ip")


def shutdown_surfaces(admission: CallerAdmission, /) -> tuple[Surface, ...]:
    """Return the surface at which an operator on this machine ends the server."""

    async def end_server(request: Request) -> Response:
        _require_local(request)
        shutdown_request = await read_value(request, ShutdownRequest, limit=SHUTDOWN_BODY_BYTES)
        if admission.end is None:
            raise Unsupported("this memory is served by another program: stop that program")
        answer = value_response(ShutdownReport(pid=os.getpid(), reason=shutdown_request.reason))
        # The server shuts down after its answer, so that the caller receives it.
        answer.background = BackgroundTask(admission.end)
        return answer

    route = Route(
        "POST", SHUTDOWN_PATH, end_server, "shutdown", "Shut down the server; for operators on its machine.",
        ShutdownRequest, ShutdownReport, SurfaceAccess.OPERATOR, outcome="The server is shutting down.",
    )  # fmt: skip
    return build_surfaces((route,), request_app)


def _require_local(request: Request) -> None:
    """Raise PermissionRefused for a caller from another machine, or behind a proxy."""
    address = request.client.host if request.client is not None else ""
    try:
        is_this_machine = ipaddress.ip_address(address).is_loopback
    except ValueError:
        is_this_machine = False
    # Behind a proxy every caller seems to be on this machine.
    if not is_this_machine or any(name in request.headers for name in _FORWARDED):
        raise PermissionRefused("a server can be shut down only from its own machine, not through a proxy")
