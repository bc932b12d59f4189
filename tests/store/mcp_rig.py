"""Stores on MCP file servers, for tests that break them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from mcp import Client
from tests.store.mcp_file_server import FileServer, mcp_server

from elytron_core.clock import FrozenClock
from elytron_core.ids import RandomIds
from elytron_store.mcp import McpStore, ToolFiles, ToolSession, http_session
from elytron_store.mcp.lease import MCP_LEASE_MS, MCP_LEASE_SKEW_MS

LEASE = MCP_LEASE_MS + MCP_LEASE_SKEW_MS


async def no_wait(_: float, /) -> None:
    return


async def connected(url: str, clock: FrozenClock, *, timeout_s: float = 10) -> McpStore:
    """Return a store over HTTP."""
    tools = ToolFiles(http_session(url, api_key=None, timeout_s=timeout_s), project="test", sleep=no_wait)
    return await McpStore.open(tools, clock=clock, ids=RandomIds(clock))


async def opened(files: FileServer, clock: FrozenClock, *, profile: str | None = None) -> McpStore:
    """Return a store on a server in this process."""
    tools = ToolFiles(ToolSession(lambda: Client(mcp_server(files), cache=None)), project="test", sleep=no_wait)
    return await McpStore.open(tools, clock=clock, ids=RandomIds(clock), profile=profile)


@asynccontextmanager
async def served(files: FileServer, clock: FrozenClock) -> AsyncGenerator[McpStore]:
    store = await opened(files, clock)
    yield store
    await store.close()


def shards(files: FileServer) -> list[Path]:
    """Return the shards on the server, in order."""
    return sorted(path for path in files.root.rglob("spaces/*/*/*/*.*.*") if path.is_file())
