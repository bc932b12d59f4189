"""The ASGI application: the operations over HTTP, each a route of its own."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from elytron_core.errors import MissingExtra

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from elytron.runtime import MemoryRuntime
    from elytron_adapter.admission_control import LoadBounds
    from elytron_adapter.dispatch import CallerEntrance, OperationDispatcher
    from elytron_adapter.identity.access_keys import AccessKeys, Authenticator
    from elytron_adapter.surface import Family, Figures
    from elytron_http_shell.telemetry.logs import RequestSpans

LOOPBACK = frozenset({"localhost", "127.0.0.1", "[::1]"})


def create_app(
    memory: "CallerEntrance | OperationDispatcher | MemoryRuntime",
    /,
    *,
    authenticator: "Authenticator | None" = None,
    keys: "AccessKeys | None" = None,
    hosts: frozenset[str] = LOOPBACK,
    body_bytes: int | None = None,
    bounds: "LoadBounds | None" = None,
    further: "Iterable[Family]" = (),
    spans: "RequestSpans | None" = None,
    is_described_to_all: bool = False,
    figures: "Sequence[Figures]" = (),
) -> "Starlette":
    """Return the application that answers from `memory`, which its opener closes.

    `authenticator` decides who a caller is; without one, the access keys in the store do, and a caller without a key is
    refused. An Entrance brings its own, and `keys` if it knows others beside them. Requests must name one of `hosts`
    as their host, and as their origin if a browser sends one, so that no web page reaches a memory on this machine
    ("*" takes any). Bodies are cut off at `body_bytes`, else at what the memory's profile takes, before they are read.
    `bounds` limit the load. `further` families of routes are added to the operations; `spans` are
    opened around requests, and `figures` are shown at `/metrics` beside the server's own. The OpenAPI document and the
    list of operations are for callers who are let in, unless `is_described_to_all`.
    Raises MissingExtra without the extra "server".
    """
    try:
        from elytron_http_shell.application import build_application
    except ImportError as error:
        raise MissingExtra(extra="server", purpose="the HTTP server") from error
    from elytron_adapter.admission_control import FairPlaces
    from elytron_adapter.dispatch import CallerEntrance, OperationDispatcher
    from elytron_adapter.identity.access_keys import AccessKeys

    if not isinstance(memory, CallerEntrance):
        dispatcher = memory if isinstance(memory, OperationDispatcher) else OperationDispatcher(memory)
        memory = CallerEntrance(
            dispatcher,
            authenticator=authenticator or AccessKeys(dispatcher.runtime.context),
            shedding=FairPlaces(bounds),
        )
    if keys is None:
        known = memory.authenticator
        keys = known if isinstance(known, AccessKeys) else AccessKeys(memory.dispatcher.runtime.context)
    if body_bytes is None:
        body_bytes = memory.dispatcher.runtime.context.profile.budget.http_body_bytes
    return build_application(
        memory,
        keys=keys,
        hosts=hosts,
        body_bytes=body_bytes,
        further=further,
        spans=spans,
        is_described_to_all=is_described_to_all,
        figures=figures,
    )
