"""What a server shows beside the operations: the gateway, and the store where somebody asked for it."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from elytron.runtime import MemoryRuntime
from elytron_adapter.principals import Authenticator

if TYPE_CHECKING:
    from elytron_http_shell.routes import Family


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the command line asked for."""

    share_store: bool = False
    upstream: str | None = None
    hosts: frozenset[str] = frozenset()
    folders: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Beside:
    """Families of surfaces, and who is let in beside the holders of access keys."""

    further: "tuple[Family, ...]"
    known: tuple[Authenticator, ...]


@asynccontextmanager
async def beside(runtime: MemoryRuntime, wanted: Wanted, /) -> AsyncGenerator[Beside]:
    """Give what stands beside the operations of `runtime` while it is served."""
    from elytron_gateway.everos import EverOsUpstream
    from elytron_gateway.external import Allowed
    from elytron_gateway.service import Gateway, GatewayOptions
    from elytron_gateway.users import UserKeys
    from elytron_http_shell.gateway import gateway_surfaces
    from elytron_http_shell.store import store_surfaces

    async with AsyncExitStack() as stack:
        there = None
        if wanted.upstream is not None:
            there = EverOsUpstream(wanted.upstream, clock=runtime.context.clock)
            stack.push_async_callback(there.close)
        options = GatewayOptions(allowed=Allowed(wanted.hosts, wanted.folders))
        gateway = Gateway(runtime, upstream=there, options=options)
        shared = (store_surfaces,) if wanted.share_store else ()
        yield Beside(further=(gateway_surfaces(gateway), *shared), known=(UserKeys(gateway.users),))
