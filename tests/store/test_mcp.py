"""The engine over an MCP file server keeps the port's promises."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client
from tests.store.mcp_file_server import FileServer, mcp_server

from elytron_core.clock import FrozenClock
from elytron_core.ids import RandomIds
from elytron_core.ports.store import Store
from elytron_store.conformance import Reopen, ReopenSuite, StoreSuite
from elytron_store.mcp import McpStore, ToolFiles, ToolSession

CLOCK = FrozenClock()


async def opened(files: FileServer) -> McpStore:
    """Return a store on a real MCP server in this process."""
    session = ToolSession(lambda: Client(mcp_server(files), cache=None))
    return await McpStore.open(ToolFiles(session, project="test"), clock=CLOCK, ids=RandomIds(CLOCK))


class TestMcpStore(StoreSuite, ReopenSuite):
    @pytest.fixture
    async def handles(self, tmp_path: Path) -> AsyncIterator[list[Store]]:
        held: list[Store] = [await opened(FileServer(tmp_path))]
        yield held
        for handle in held:
            await handle.close()

    @pytest.fixture
    async def store(self, handles: list[Store]) -> Store:
        return handles[0]

    @pytest.fixture
    def reopen(self, handles: list[Store], tmp_path: Path) -> Reopen:
        async def again() -> Store:
            await handles[-1].close()
            handles.append(await opened(FileServer(tmp_path)))
            return handles[-1]

        return again
