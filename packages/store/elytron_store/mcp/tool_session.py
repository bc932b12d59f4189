"""A session with an MCP server, which one task owns: opened at the first call, and again after it broke."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from elytron_core.errors import ElytronError, MissingExtra, StoreClosed, Unauthorized, Unreachable
from elytron_store import limits as store_limits

if TYPE_CHECKING:
    import httpx2
    from mcp import Client
    from mcp_types import CallToolResult

_REFUSED = frozenset({401, 403})
_WAY_OUT = "give the key that the file server knows (api_key, ELYTRON_API_KEY)"


class ToolAnswer(Protocol):
    """A tool's answer: its texts, and whether it failed."""

    @property
    def is_error(self) -> bool: ...

    @property
    def text(self) -> str: ...


class _Answer:
    def __init__(self, result: "CallToolResult", /) -> None:
        self.is_error = result.is_error
        self.text = "".join(part.text for part in result.content if part.type == "text")


class ToolCaller(Protocol):
    """Target of tools' calls."""

    async def call(self, tool: str, arguments: Mapping[str, Any], /) -> ToolAnswer:
        """Return the answer of `tool`. Raises Unreachable if it is unknown whether it ran, Unauthorized."""
        ...

    async def close(self) -> None: ...


class ToolSession:
    """Calls tools of one MCP server. `connect` opens a client of it; if that ends, calls raise Unreachable."""

    def __init__(
        self,
        connect: "Callable[[], AbstractAsyncContextManager[Client]]",
        /,
        *,
        timeout_s: float = store_limits.MCP_CALL_S,
        is_refused: Callable[[], bool] = lambda: False,
    ) -> None:
        self._connect = connect
        self._timeout_s = timeout_s
        self._is_refused = is_refused
        self._opening = asyncio.Lock()
        self._owner: asyncio.Task[None] | None = None
        self._client: asyncio.Future[Client] | None = None
        self._leave = asyncio.Event()
        self._closed = False

    async def call(self, tool: str, arguments: Mapping[str, Any], /) -> ToolAnswer:
        client, owner = await self._opened()
        calling = asyncio.ensure_future(client.call_tool(tool, dict(arguments)))
        try:
            async with asyncio.timeout(self._timeout_s):
                await asyncio.wait({calling, owner}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise self._lost("in time") from None
        finally:
            if not calling.done():
                calling.cancel()
        if calling.cancelled() or not calling.done() or calling.exception() is not None:
            await self._let_go()
            raise self._lost("any more")
        return _Answer(calling.result())

    async def close(self) -> None:
        self._closed = True
        await self._let_go()

    async def _opened(self) -> "tuple[Client, asyncio.Task[None]]":
        async with self._opening:
            if self._closed:
                raise StoreClosed
            if self._owner is None or self._owner.done():
                self._leave = asyncio.Event()
                self._client = asyncio.get_running_loop().create_future()
                self._owner = asyncio.create_task(self._own(self._client, self._leave))
            assert self._client is not None
            try:
                async with asyncio.timeout(self._timeout_s):
                    return await asyncio.shield(self._client), self._owner
            except TimeoutError:
                await self._ended(self._owner)
                raise self._lost("in time") from None
            except ConnectionError:
                raise self._lost("there") from None

    async def _own(self, opened: "asyncio.Future[Client]", leave: asyncio.Event) -> None:
        """Open a client, and close it in this very task, as its library demands."""
        try:
            async with self._connect() as client:
                opened.set_result(client)
                await leave.wait()
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - groups of any exceptions of a transport
            with suppress(asyncio.InvalidStateError):
                opened.set_exception(ConnectionError())
                opened.exception()

    async def _let_go(self) -> None:
        self._leave.set()
        if self._owner is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._timeout_s):
                    await asyncio.shield(self._owner)
            await self._ended(self._owner)

    async def _ended(self, owner: asyncio.Task[None]) -> None:
        owner.cancel()
        await asyncio.wait({owner})

    def _lost(self, when: str) -> ElytronError:
        if self._is_refused():
            return Unauthorized(_WAY_OUT)
        return Unreachable(f"the MCP file server does not answer {when}")


def http_session(url: str, /, *, api_key: str | None, timeout_s: float = store_limits.MCP_CALL_S) -> ToolSession:
    """Return a session over streamable HTTP; no redirect leaves the server or its encryption. Raises MissingExtra."""
    try:
        import httpx2
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client
    except ImportError as error:
        raise MissingExtra(extra="mcp", purpose="a store on an MCP file server") from error

    headers = {"Authorization": f"Bearer {api_key}"} if api_key is not None else {}
    told: list[int] = []

    async def note(response: "httpx2.Response") -> None:
        told[:] = [response.status_code]

    @asynccontextmanager
    async def connect() -> AsyncGenerator[Client]:
        client = httpx2.AsyncClient(
            headers=headers,
            timeout=httpx2.Timeout(timeout_s, read=None),  # a call has a bound of its own, and must not end the others
            trust_env=False,
            # Without encryption the system's certificates need not be read.
            verify=not url.startswith("http://"),
            event_hooks={"response": [note]},
        )
        async with client, Client(streamable_http_client(url, http_client=client), cache=None) as session:
            yield session

    return ToolSession(connect, timeout_s=timeout_s, is_refused=lambda: bool(_REFUSED & set(told)))
