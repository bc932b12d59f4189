"""The list of a store's servers, which each keeps its own address in while it serves; callers choose among them."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Protocol, runtime_checkable
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from elytron_adapter.dispatch import CallerEntrance
from elytron_adapter.envelope import encode_value
from elytron_adapter.http.responses import shown_surface
from elytron_adapter.surface import Family, Surface, SurfaceAccess, SurfaceDescription
from elytron_core import limits
from elytron_core.contracts.inspection import ServerNodes
from elytron_core.errors import ElytronError, InvalidInput, Unsupported
from elytron_core.ports.store import Store
from elytron_store.wrappers.wrapper import innermost_store

logger = logging.getLogger(__name__)


@runtime_checkable
class NodeLeases(Protocol):
    """A store that keeps a list of its servers."""

    async def note_node(self, url: str, /, *, lease_ms: int) -> None: ...
    async def drop_node(self, url: str, /) -> None: ...
    async def list_nodes(self) -> Sequence[str]: ...


def leases_of(store: Store, /) -> NodeLeases:
    """Return the list of servers of `store`. Raises Unsupported for an engine that keeps none."""
    found = innermost_store(store)
    if not isinstance(found, NodeLeases):
        raise Unsupported("only a store on a Postgres server keeps a list of its nodes: leave out --node-url")
    return found


def node_host(url: str, /) -> str:
    """Return the host in a server's address. Raises InvalidInput for what is no address, without a path."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in {"http", "https"} and (parts.port is None or parts.port > 0)
    except ValueError:
        is_address = False
        parts = urlsplit("")
    if not is_address or not parts.hostname or parts.username is not None or parts.path.strip("/") or parts.query:
        raise InvalidInput(field="--node-url", problem="is no http:// or https:// and a host, with its port")
    return f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname


@asynccontextmanager
async def lease_kept(leases: NodeLeases, url: str, /) -> AsyncGenerator[None]:
    """Keep `url` in the list while this is entered; a list that is away is written again later."""

    async def renew() -> None:
        while True:
            try:
                await leases.note_node(url, lease_ms=limits.NODE_LEASE_MS)
            except ElytronError as error:
                logger.warning("this server is in no list of nodes for now: %s", error.key)
            await asyncio.sleep(limits.NODE_RENEW_S)

    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        with suppress(ElytronError):  # its time ends by itself
            await leases.drop_node(url)


def node_surfaces(leases: NodeLeases, url: str, /) -> Family:
    """Return the family of the list, in which the server is under `url` while it serves."""

    async def listed(_request: Request) -> Response:
        found = ServerNodes(nodes=tuple(await leases.list_nodes()))
        return Response(encode_value(found), media_type="application/json")

    told = SurfaceDescription("nodes", "List the servers of the store.", None, ServerNodes, answer="Their addresses.")

    def family(_entrance: CallerEntrance) -> tuple[Surface, ...]:
        surface = shown_surface("/v1/nodes", listed, access=SurfaceAccess.MEMBER, methods=("GET",), told=told)
        return (replace(surface, running=lambda: lease_kept(leases, url)),)

    return family
