"""The six tools of an MCP file server, with the seed's names and arguments, its path rules and its retries."""

import asyncio
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from elytron_core.errors import (
    ElytronError,
    InvalidInput,
    MissingExtra,
    NotFound,
    PayloadTooLarge,
    PermissionRefused,
    StoreBusy,
    StoreClosed,
    StoreFull,
    StoreUnavailable,
    Unauthorized,
    Unreachable,
)
from elytron_outbound.clients import ClientSettings, mcp_http_client
from elytron_store import limits as store_limits

if TYPE_CHECKING:
    import httpx2
    from mcp import Client
    from mcp_types import CallToolResult

MCP_RETRY_S: Final = (0.2, 0.5, 1.0, 2.0)
"""Waits before a call is repeated that an MCP file server calls retryable."""
MCP_CALL_S: Final = 20.0
"""Time limit for an answer of an MCP file server."""
MCP_PATH_CHARS: Final = 512
MCP_PROJECT_CHARS: Final = 128
MCP_LIST: Final = 256
MCP_SEARCH: Final = 20
"""Number of entries, and of hits, that a call asks an MCP file server for."""


_REFUSED = frozenset({401, 403})
_WAY_OUT = "set the file server's key (api_key, ELYTRON_API_KEY)"


class StorageToolAnswer(Protocol):
    """A tool's answer: its texts, and whether it failed."""

    @property
    def is_error(self) -> bool: ...

    @property
    def text(self) -> str: ...


class _RawAnswer:
    def __init__(self, result: "CallToolResult", /) -> None:
        self.is_error = result.is_error
        self.text = "".join(part.text for part in result.content if part.type == "text")


class ToolCaller(Protocol):
    """Target of tool calls."""

    async def call(self, tool: str, arguments: Mapping[str, Any], /) -> StorageToolAnswer:
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
        timeout_s: float = MCP_CALL_S,
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

    async def call(self, tool: str, arguments: Mapping[str, Any], /) -> StorageToolAnswer:
        client, client_owner = await self._opened()
        call_task = asyncio.ensure_future(client.call_tool(tool, dict(arguments)))
        try:
            async with asyncio.timeout(self._timeout_s):
                await asyncio.wait({call_task, client_owner}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise self._lost("in time") from None
        finally:
            if not call_task.done():
                call_task.cancel()
        if call_task.cancelled() or not call_task.done() or call_task.exception() is not None:
            await self._let_go()
            raise self._lost("any more")
        return _RawAnswer(call_task.result())

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

    async def _own(self, client_future: "asyncio.Future[Client]", leave: asyncio.Event) -> None:
        """Open a client, and close it in the same task, as its library requires."""
        try:
            async with self._connect() as client:
                client_future.set_result(client)
                await leave.wait()
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - groups of any exceptions of a transport
            with suppress(asyncio.InvalidStateError):
                client_future.set_exception(ConnectionError())
                client_future.exception()

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
        return Unreachable(f"the MCP file server does not respond {when}")


def http_session(url: str, /, *, api_key: str | None, timeout_s: float = MCP_CALL_S) -> ToolSession:
    """Return a session over streamable HTTP; no redirect leaves the server or its encryption. Raises MissingExtra."""
    try:
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client
    except ImportError as error:
        raise MissingExtra(extra="mcp", purpose="a store on an MCP file server") from error

    settings = ClientSettings(
        extra="mcp",
        purpose="a store on an MCP file server",
        url=url,
        headers={"Authorization": f"Bearer {api_key}"} if api_key is not None else {},
        timeout_s=timeout_s,
        calls_have_bounds=True,
    )
    statuses: list[int] = []

    async def note(response: "httpx2.Response") -> None:
        statuses[:] = [response.status_code]

    @asynccontextmanager
    async def connect() -> AsyncGenerator[Client]:
        client = mcp_http_client(settings, on_response=note)
        async with client, Client(streamable_http_client(url, http_client=client), cache=None) as session:
            yield session

    return ToolSession(connect, timeout_s=timeout_s, is_refused=lambda: bool(_REFUSED & set(statuses)))


ENGINE = "mcp"
_PROJECT = re.compile(rf"[A-Za-z0-9_.-]{{1,{MCP_PROJECT_CHARS}}}")
_CODE = re.compile(r"[A-Z][A-Z_]{0,40}")
Sleep = Callable[[float], Awaitable[None]]
PartT = TypeVar("PartT", bound="_ToolText")


class WriteMode(StrEnum):
    """Mode of `write` for an existing file."""

    APPEND = "APPEND"
    OVERWRITE = "OVERWRITE"
    TRUNCATE = "TRUNCATE"


class FileEntry(NamedTuple):
    """A file or folder; the size of a folder is 0."""

    path: str
    is_folder: bool
    size: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


class FileHit(NamedTuple):
    """A part of a file that a search found."""

    path: str
    start: int
    end: int
    text: str
    score: float


class _ToolText(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", hide_input_in_errors=True)


class _ToolFailure(_ToolText):
    code: str = ""
    retryable: bool = False


class _FileContent(_ToolText):
    content: str


class _FileStat(_ToolText):
    exists: bool
    type: str = ""
    size: int = 0


class _FolderEntry(_ToolText):
    path: str
    type: str
    size: int = 0


class _FolderListing(_ToolText):
    entries: tuple[_FolderEntry, ...] = ()
    has_more: bool = False


class _ReadChunk(_ToolText):
    file_path: str
    file_seek_start_bytes: int = 0
    file_seek_end_bytes: int = 0
    chunk_content: str = ""
    score: float = 0.0

    def to_hit(self) -> FileHit:
        byte_span = self.file_seek_start_bytes, self.file_seek_end_bytes
        return FileHit(self.file_path, *byte_span, self.chunk_content, self.score)


class _FoundFiles(_ToolText):
    chunks: tuple[_ReadChunk, ...] = ()

    def hits(self) -> Sequence[FileHit]:
        return tuple(chunk.to_hit() for chunk in self.chunks)


class ToolFiles:
    """Files of one project on an MCP file server.

    Calls that the server calls retryable are retried after 200 ms, 500 ms, 1 s and 2 s, and no others. Errors name the
    tool and the server's code, never its message, a path or content.
    """

    def __init__(self, caller: ToolCaller, /, *, project: str, sleep: Sleep = asyncio.sleep) -> None:
        if not _PROJECT.fullmatch(project):
            max_chars = MCP_PROJECT_CHARS
            raise InvalidInput(field="project", problem=f"is not 1 to {max_chars} letters, digits, _ . or -")
        self._caller = caller
        self._project = project
        self._sleep = sleep

    async def read(self, path: str, /, *, offset: int = 0, length: int = -1) -> str:
        """Return the text of a file from byte `offset` on, all of it if `length` is -1. Raises NotFound."""
        arguments = {"path": require_path(path), "offset": offset, "length": length}
        return _parse_part(_FileContent, await self._call("file_read", arguments)).content

    async def write(self, path: str, text: str, /, *, mode: WriteMode, offset: int = 0) -> None:
        """Write `text`; an append goes after the byte `offset`, which the caller knows to be the file's end.

        An append is repeated only if the server has nothing of it; otherwise Unreachable is raised.
        """
        arguments = {"path": require_path(path), "content": text, "content_encoding": "utf-8"}
        arguments |= {"mode": mode.value, "offset": offset if mode is WriteMode.OVERWRITE else 0}

        async def is_done() -> bool:
            # An answer may be lost although the text arrived: the length of the file shows it.
            entry = await self.stat(path)
            stored_size = 0 if entry is None else entry.size
            if stored_size not in {offset, offset + len(text.encode())}:
                raise Unreachable("the MCP file server failed during an append")
            return stored_size != offset

        await self._call("file_write", arguments, is_done=is_done if mode is WriteMode.APPEND else None)

    async def stat(self, path: str, /) -> FileEntry | None:
        """Return the entry at `path`, None if there is none."""
        file_stat = _parse_part(
            _FileStat, await self._call("file_stat", {"path": require_path(path, is_root_fine=True)})
        )
        return FileEntry(path, _is_folder(file_stat.type), file_stat.size) if file_stat.exists else None

    async def list(self, path: str, /, *, depth: int = 1, limit: int = MCP_LIST) -> Sequence[FileEntry]:
        """Return the entries of a folder, none if it does not exist. Raises StoreUnavailable for more than `limit`."""
        arguments = {"path": require_path(path, is_root_fine=True), "depth": depth, "limit": limit}
        try:
            listing = _parse_part(_FolderListing, await self._call("file_list", arguments))
        except NotFound:
            return ()
        if listing.has_more:
            raise StoreUnavailable(f"a folder on the MCP file server has more than {limit} entries: clean it up")
        return tuple(FileEntry(entry.path, _is_folder(entry.type), entry.size) for entry in listing.entries)

    async def search(self, query: str, /, *, prefix: str = "", limit: int = MCP_SEARCH) -> Sequence[FileHit]:
        """Return parts of files below `prefix` that match `query`; recent writes may be missing."""
        arguments = {"query": query, "path_prefix": require_path(prefix, is_root_fine=True)}
        limit = min(max(limit, 1), MCP_SEARCH)
        matches = _parse_part(_FoundFiles, await self._call("file_search", {**arguments, "limit": limit}))
        return matches.hits()

    async def delete(self, path: str, /, *, recursive: bool = False) -> None:
        """Remove a file, or with `recursive` a folder and its contents; missing paths are no error."""
        try:
            await self._call("file_delete", {"path": require_path(path), "recursive": recursive})
        except NotFound:
            return

    async def close(self) -> None:
        await self._caller.close()

    async def _call(
        self, tool: str, arguments: Mapping[str, Any], /, *, is_done: Callable[[], Awaitable[bool]] | None = None
    ) -> str:
        call_arguments = {"project": self._project, **arguments}
        answer = await self._caller.call(tool, call_arguments)
        for delay_s in MCP_RETRY_S:
            if not answer.is_error or not _parse_failure(answer.text).retryable:
                break
            await self._sleep(delay_s)
            if is_done is not None and await is_done():
                return "{}"
            answer = await self._caller.call(tool, call_arguments)
        if answer.is_error:
            raise _tool_error(tool, _parse_failure(answer.text))
        return answer.text


def require_path(path: str, /, *, is_root_fine: bool = False) -> str:
    """Return `path`: absolute, without empty, `.` or `..` parts, spaces and control characters. Raises InvalidInput."""
    if is_root_fine and path == "":
        return path
    is_clean_path = (
        path.startswith("/")
        and len(path) <= MCP_PATH_CHARS
        and all(part not in {"", ".", ".."} for part in path[1:].split("/"))
        and path.isprintable()
        and not any(char.isspace() for char in path)
    )
    if not is_clean_path:
        max_chars = MCP_PATH_CHARS
        problem = f"is not an absolute path of up to {max_chars} characters without spaces and empty, . or .. parts"
        raise InvalidInput(field="path", problem=problem)
    return path


def _is_folder(kind: str) -> bool:
    return kind.upper() == "DIRECTORY"


def _parse_part(model: type[PartT], text: str) -> PartT:
    try:
        return model.model_validate_json(text)
    except ValidationError:
        raise Unreachable("the server at this address is not an MCP file server: its tools differ") from None


def _parse_failure(text: str) -> _ToolFailure:
    try:
        return _ToolFailure.model_validate_json(text)
    except ValidationError:
        return _ToolFailure()


def _tool_error(tool: str, failure: _ToolFailure) -> ElytronError:
    match failure.code:
        case "NOT_FOUND":
            return NotFound(what="file", name="")
        case "PAYLOAD_TOO_LARGE":
            return PayloadTooLarge(limit=store_limits.MCP_WRITE_CHARS, what="a write to the MCP file server")
        case "QUOTA_EXCEEDED":
            return StoreFull(engine=ENGINE)
        case "PERMISSION_DENIED":
            return PermissionRefused("the MCP file server refuses this with the given key: use another key")
        case "RESOURCE_BUSY":
            return StoreBusy(engine=ENGINE, waited_s=sum(MCP_RETRY_S) if failure.retryable else 0)
        case code:
            description = code if _CODE.fullmatch(code) else "without a code"
            return StoreUnavailable(f"{tool} of the MCP file server failed: {description}")
