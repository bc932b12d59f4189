"""The end of a server, asked for by its operator on the same machine."""

import ipaddress
import os

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response

from elytron_adapter import codec
from elytron_adapter.entry import Entrance
from elytron_adapter.http.bodies import body, require_json
from elytron_adapter.http.handlers import shown
from elytron_adapter.surface import Access, Surface, Told
from elytron_core.contracts.admin.shutdown import ShutdownReport, ShutdownRequest
from elytron_core.errors import PermissionRefused, Unsupported
from elytron_http_shell.limits import SHUTDOWN_BODY_BYTES

PATH = "/v1/shutdown"
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-real-ip")


def shutdown_route(entrance: Entrance, /) -> Surface:
    """Return the surface at which an operator on this machine ends the server."""

    async def end(request: Request) -> Response:
        _require_local(request)
        require_json(request.headers)
        sent = await body(request.scope, request.receive, limit=SHUTDOWN_BODY_BYTES)
        asked = codec.decode_as(ShutdownRequest, sent)
        if entrance.end is None:
            raise Unsupported("another program serves this memory: end that program")
        report = ShutdownReport(pid=os.getpid(), reason=asked.reason)
        # The server ends behind its answer, so that the caller hears of it.
        return Response(codec.encode(report), media_type="application/json", background=BackgroundTask(entrance.end))

    told = Told("shutdown", "End the server. For operators on its machine.", ShutdownRequest, ShutdownReport,
                answer="It ends.")  # fmt: skip
    return shown(PATH, end, access=Access.OPERATOR, methods=("POST",), told=told)


def _require_local(request: Request) -> None:
    """Raise PermissionRefused for a caller of another machine, or one behind a proxy."""
    address = request.client.host if request.client is not None else ""
    try:
        is_here = ipaddress.ip_address(address).is_loopback
    except ValueError:
        is_here = False
    if not is_here or any(name in request.headers for name in _FORWARDED):
        raise PermissionRefused("a server is ended from its own machine alone, and not through a proxy")
