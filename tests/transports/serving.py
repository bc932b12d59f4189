"""A server with its keys, protocols, and port, run in the test's own loop and stopped like by a user."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.transports.nodes import opened_nodes, served_nodes

from elytron import MemoryRuntime
from elytron_adapter.access_keys import AccessAddRequest, AccessKeys
from elytron_adapter.surface import Family
from elytron_cli.server.optional_surfaces import SurfaceOptions, open_surfaces
from elytron_core.clock import FrozenClock
from elytron_core.ids import SeededIds
from elytron_core.planes.servers.system_documents import PrincipalKind
from elytron_core.ports.models import Embedder
from elytron_http_shell.server import ServingSettings
from elytron_http_shell.server import served_http as serving_of


@dataclass(frozen=True)
class Served:
    """A server's address, its protocols, and the runtime behind it."""

    url: str
    protocols: tuple[str, ...]
    memory: MemoryRuntime

    async def key(self, kind: PrincipalKind, space: str | None) -> str:
        """Return a new access key."""
        asked = AccessAddRequest.model_validate({"kind": kind, "space": space, "label": "test"})
        return (await AccessKeys(self.memory.context).add(asked)).key


@asynccontextmanager
async def served(
    wanted: SurfaceOptions,
    /,
    *,
    development: bool = False,
    port: int = 0,
    further: Sequence[Family] = (),
    embedder: Embedder | None = None,
    store: str = "memory:",
) -> AsyncGenerator[Served]:
    """Serve an empty memory over every transport of the command line, and `further` families.

    The environment may alternate requests between two nodes over one store (see `nodes`).
    """
    options = {"space": "ada", "clock": FrozenClock(step_ms=1), "ids": SeededIds(), "embedder": embedder}
    serving = ServingSettings(port=port, development=development)
    with TemporaryDirectory() as folder:
        async with opened_nodes(Path(folder), store, **options) as memories, AsyncExitStack() as stack:
            beside = [await stack.enter_async_context(open_surfaces(memory, wanted)) for memory in memories]
            memory, more = memories[0], beside[0]
            server = (
                serving_of(memory, serving, further=(*more.further, *further), authenticators=more.authenticators)
                if len(memories) == 1
                else served_nodes(memories, beside, serving, further=further)
            )
            started = await stack.enter_async_context(server)
            yield Served(started.address, more.protocols, memory)
