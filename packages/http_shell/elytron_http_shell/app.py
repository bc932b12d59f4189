"""The ASGI application: the operations over HTTP, each a route of its own."""

from typing import TYPE_CHECKING

from elytron_core import limits
from elytron_core.errors import MissingExtra

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from elytron.runtime import MemoryRuntime
    from elytron_adapter.dispatch import Dispatcher

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


def create_app(
    memory: "Dispatcher | MemoryRuntime",
    /,
    *,
    hosts: frozenset[str] = LOOPBACK,
    body_bytes: int = limits.HTTP_BODY_BYTES,
) -> "Starlette":
    """Return the application that answers from `memory`, which its opener closes.

    Requests must name one of `hosts` as their host, and as their origin where a browser sends one, so that no web
    page reaches a memory on this machine ("*" takes any). Bodies are cut off at `body_bytes` before they are read.
    Raises MissingExtra without the extra "server".
    """
    try:
        from elytron_http_shell.routes import application
    except ImportError as error:
        raise MissingExtra(extra="server", purpose="the HTTP server") from error
    from elytron_adapter.dispatch import Dispatcher

    dispatcher = memory if isinstance(memory, Dispatcher) else Dispatcher(memory)
    return application(dispatcher, hosts=hosts, body_bytes=body_bytes)
